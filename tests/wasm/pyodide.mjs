// node pyodide.mjs RUNTIME PACKAGE TESTS OUT JOB...: all numbers of jobs by the Pyodide in RUNTIME, a file for each in OUT.
import fs from "node:fs";
import path from "node:path";

const [runtime, engine, tests, out, ...jobs] = process.argv.slice(2);
const { loadPyodide } = await import(`${runtime}/pyodide.mjs`);
const python = await loadPyodide({ indexURL: `${runtime}/` });
const names = JSON.parse(fs.readFileSync(`${runtime}/packages.json`, "utf8"));
const packages = names.map((name) => `file://${runtime}/${name}`);
await python.loadPackage(packages, { messageCallback() {}, checkIntegrity: false });

function mount(folder, place) {
  python.FS.mkdirTree(place);
  python.FS.mount(python.FS.filesystems.NODEFS, { root: folder }, place);
}

mount(engine, "/code/hta_widgets");
mount(tests, "/code/tests");
mount(out, "/out");
python.runPython("import sys; sys.path.insert(0, '/code'); sys.dont_write_bytecode = True");
process.on("uncaughtException", (error) => {
  console.error(error.message); // without it, node prints the line of Pyodide's script, of a megabyte
  process.exit(1);
});
jobs.forEach((job, number) => {
  const place = `/jobs/${number}`;
  mount(path.dirname(job), place);
  python.globals.set("job", `${place}/${path.basename(job)}`);
  python.globals.set("out", `/out/${number}.json`);
  python.runPython(`
import json
from tests.wasm.all_numbers import all_numbers
with open(out, "w") as file:
    json.dump(all_numbers(job), file)
`);
});
