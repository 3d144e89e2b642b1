// Python and hta_widgets, beside the page: it answers while this computes.

const FOLDER = "/job";
const PYTHON = `
from contextlib import closing
from pathlib import Path

from hta_widgets import Dashboard, open_trace
from hta_widgets.diagnosis.report import report as verdict_text
from hta_widgets.diagnosis import diagnosis
from hta_widgets.errors import HtaWidgetsError
from hta_widgets.sample import write_sample


def answer(path, tell):
    if path is None:
        path = "/sample"
        tell("progress", "Writing the sample job …")
        write_sample(path, progress=False)
    tell("progress", "Reading the trace …")
    try:
        job = open_trace(path, progress=False)
        tell("verdict", verdict_text(diagnosis(job)))
        tell("progress", "Making the dashboard …")
        with closing(Dashboard(job)) as dashboard:
            written = dashboard.to_html("/report.html")
        tell("report", written.read_text("utf-8"))
    except HtaWidgetsError as error:
        tell("error", str(error))
    except MemoryError:
        tell("error", "This browser gives Python no more memory: open fewer ranks, or install hta_widgets.")
    else:
        tell("progress", "")

answer
`;

let loading;

async function load(runtime, tell) {
  const { loadPyodide } = await import(`${runtime}runtime/pyodide.mjs`);
  const python = await loadPyodide({ indexURL: `${runtime}runtime/` });
  const files = await (await fetch(`${runtime}runtime/packages.json`)).json();
  tell("progress", "Loading numpy, pandas, pyarrow …");
  const quiet = { messageCallback() {}, checkIntegrity: false }; // checked when the site was built
  await python.loadPackage(files.map((name) => `${runtime}runtime/${name}`), quiet);
  const engine = await (await fetch(`${runtime}runtime/hta_widgets.zip`)).arrayBuffer();
  const [place] = python.runPython("import site; site.getsitepackages()").toJs();
  python.unpackArchive(engine, "zip", { extractDir: place });
  tell("progress", "Starting hta_widgets …");
  const answer = python.runPython(PYTHON);
  python.FS.mkdir(FOLDER);
  return { python, answer, holdsFiles: false };
}

// The files stay where they are: Python reads them a block at a time.
function mounted(loaded, files) {
  const { FS } = loaded.python;
  if (loaded.holdsFiles) FS.unmount(FOLDER);
  loaded.holdsFiles = true;
  const blobs = files.map(({ path, file }) => ({ name: path, data: file }));
  FS.mount(FS.filesystems.WORKERFS, { blobs }, FOLDER);
  const tops = new Set(files.map(({ path }) => path.split("/")[0]));
  return tops.size === 1 ? `${FOLDER}/${[...tops][0]}` : FOLDER;
}

self.onmessage = async ({ data: { number, runtime, files } }) => {
  const tell = (name, text) => self.postMessage({ number, [name]: text });
  try {
    loading ??= load(runtime, tell);
    const loaded = await loading;
    loaded.answer(files ? mounted(loaded, files) : undefined, tell);
  } catch (error) {
    const lines = String(error.message ?? error).trim().split("\n");
    tell("failure", `hta_widgets failed unexpectedly: ${lines.at(-1)}`);
  }
};
