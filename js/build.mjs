// Builds hta_widgets/panels/static: loader.js, panel.js.gz, plotly.js.gz, plotly.LICENSE.txt and report.js.
// With --watch, builds them again whenever a source changes.

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { watch } from "node:fs/promises";
import { basename, dirname, join, relative, sep } from "node:path";
import { setTimeout } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import * as esbuild from "esbuild";

const root = dirname(fileURLToPath(import.meta.url));
const outdir = join(root, "..", "hta_widgets", "panels", "static");
const SAVING_MS = 50; // editors save a file in several steps

// The same sum as source_hash() in hta_widgets/panels/base/front_end.py, which notices a stale build.
function sourceHash() {
  const files = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const sources = files.map(({ parentPath, name }) => relative(root, join(parentPath, name)).split(sep).join("/"));
  const sum = createHash("sha256");
  for (const name of [...sources, "build.mjs", "package-lock.json"].sort()) {
    sum
      .update(`${name}\0`)
      .update(readFileSync(join(root, name)))
      .update("\0");
  }
  return sum.digest("hex").slice(0, 16);
}

const common = {
  absWorkingDir: root,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  legalComments: "none",
  logLevel: "warning",
};

const loader = { ...common, entryPoints: ["src/loader.ts"], outdir };
const report = { ...common, entryPoints: ["src/report/report.ts"], format: "iife", outdir };
const minifiedCss = {
  name: "minified-css",
  setup(build) {
    build.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { code } = await esbuild.transform(readFileSync(path, "utf8"), { loader: "css", minify: true });
      return { contents: code, loader: "text", watchFiles: [path] };
    });
  },
};
const panel = { ...common, entryPoints: ["src/widget.ts"], plugins: [minifiedCss], write: false };

// Left out of plotly.js is what no figure of the package uses, a tenth of it: components of its core, which it passes over
// where they have no methods, promises for old browsers, the polygons of selections, most functions on matrices, and the
// colours that CSS does not have.
const UNUSED_COMPONENTS = /^\.\/components\/(annotations3d|images|rangeselector|rangeslider|sliders|updatemenus)$/;
const INSTEAD = {
  "native-promise-only": "",
  polybooljs: "module.exports = {};",
  "gl-mat4": `
    exports.invert = require("gl-mat4/invert");
    exports.multiply = require("gl-mat4/multiply");`,
  culori: `
    import "culori/css";
    export { converter, formatHex, formatRgb, wcagContrast, wcagLuminance } from "culori/fn";`,
};
const withoutUnused = {
  name: "without-unused",
  setup(build) {
    const instead = (path) => ({ path, namespace: "instead" });
    build.onResolve({ filter: UNUSED_COMPONENTS }, ({ path, importer }) =>
      importer.endsWith(join("plotly.js", "src", "core.js")) ? instead(basename(path)) : undefined,
    );
    build.onResolve({ filter: /^(native-promise-only|polybooljs|gl-mat4|culori)$/ }, ({ path }) => instead(path));
    build.onLoad({ filter: /.*/, namespace: "instead" }, ({ path }) => ({
      contents: INSTEAD[path] ?? `module.exports = { moduleType: "component", name: "${path}" };`,
      resolveDir: root,
    }));
  },
};

const plotly = {
  ...common,
  entryPoints: ["src/plotly.ts"],
  plugins: [withoutUnused],
  write: false,
  metafile: true,
  // UMD parts would register with the AMD loader of VS Code's or nbconvert's page and export nothing.
  define: { global: "globalThis", "define.amd": "false" },
  loader: { ".css": "empty" },
};

function packageOf(file) {
  return file.match(/^.*node_modules\/(?:@[^/]+\/)?[^/]+/)?.[0];
}

function licences(files) {
  const packages = [...new Set(files.map(packageOf).filter(Boolean))].sort();
  return packages.flatMap((folder) =>
    readdirSync(join(root, folder))
      .filter((name) => /^(licen[cs]e|copying|notice)/i.test(name))
      .map((name) => `${folder.split("node_modules/").pop()}\n\n${readFileSync(join(root, folder, name), "utf8")}`),
  );
}

async function buildGzipped(name, options) {
  const { outputFiles, metafile } = await esbuild.build(options);
  writeFileSync(join(outdir, `${name}.js.gz`), gzipSync(outputFiles[0].contents, { level: 9 }));
  return metafile;
}

// The loader comes last: anywidget watches it, and reads the other files anew when it changes.
async function build(hash) {
  mkdirSync(outdir, { recursive: true });
  await buildGzipped("panel", panel);
  const { inputs } = await buildGzipped("plotly", plotly);
  const rule = `\n\n${"-".repeat(80)}\n\n`;
  writeFileSync(join(outdir, "plotly.LICENSE.txt"), licences(Object.keys(inputs)).join(rule));
  await esbuild.build(report);
  await esbuild.build({ ...loader, banner: { js: `// source ${hash}` } });
}

let built = "";

async function buildIfChanged() {
  try {
    const hash = sourceHash();
    if (hash === built) return;
    built = hash;
    await build(hash);
    console.log(`Built at ${new Date().toLocaleTimeString()}`);
  } catch (error) {
    if (!error.errors) console.error(error.message); // esbuild has reported its own
  }
}

async function buildOnChange() {
  await buildIfChanged();
  console.log("Watching js/src");
  for await (const _ of watch(join(root, "src"), { recursive: true })) {
    await setTimeout(SAVING_MS);
    await buildIfChanged();
  }
}

if (process.argv.includes("--watch")) await buildOnChange();
else await build(sourceHash());
