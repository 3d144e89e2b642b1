// The page on which a trace is opened in this browser. All text of a trace is shown as text.

const element = (id) => document.getElementById(id);
const said = element("said");
const runtime = new URL("./", import.meta.url).href;
const NO_FILE = "Nothing was dropped that can be read: drop files or a folder.";

let worker;
let number = 0;
let saved = "";

function say(text, failed = false) {
  said.textContent = text;
  said.className = failed ? "failed" : "";
}

// A worker of this text and not of its address, so that the policy of this page is the worker's too:
// one that is fetched has the policy of its own response, and a static site sends none.
async function started() {
  if (!worker) {
    const text = await (await fetch(new URL("worker.js", runtime))).text();
    const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
    worker = new Worker(address, { type: "module" });
    worker.onmessage = ({ data }) => data.number === number && show(data);
    worker.onerror = ({ message }) => failed(`This browser could not run it: ${message}`);
  }
  return worker;
}

// What failed may have left Python without memory: the next trace gets another one.
function failed(text) {
  worker?.terminate();
  worker = undefined;
  say(text, true);
}

function show({ progress, verdict, report, error, failure }) {
  if (failure !== undefined) failed(failure);
  if (error !== undefined) say(error, true);
  if (progress !== undefined) say(progress);
  if (verdict !== undefined) {
    element("verdict").textContent = verdict;
    element("answer").hidden = false;
  }
  if (report !== undefined) {
    saved = report;
    element("report").srcdoc = report;
    element("report").hidden = element("saving").hidden = false;
  }
}

function forgetLast() {
  number += 1;
  for (const id of ["answer", "report", "saving"]) element(id).hidden = true;
  say("Starting Python …");
}

async function open(files) {
  forgetLast();
  if (files && !files.length) {
    say(NO_FILE, true);
    return;
  }
  (await started()).postMessage({ number, runtime, files });
}

async function chosen(change) {
  const input = Object.assign(document.createElement("input"), { type: "file", ...change });
  input.onchange = () =>
    open([...input.files].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
  input.click();
}

async function filesOf(entry, folder = "") {
  const path = folder + entry.name;
  if (entry.isFile) {
    const file = await new Promise((done, failed) => entry.file(done, failed));
    return [{ path, file }];
  }
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    // a folder is read in parts, until one is empty
    const entries = await new Promise((done, failed) => reader.readEntries(done, failed));
    if (!entries.length) return found;
    for (const each of entries) found.push(...(await filesOf(each, `${path}/`)));
  }
}

const drop = element("drop");
addEventListener("dragover", (event) => {
  event.preventDefault(); // beside the frame, too: the browser would leave the page
  drop.classList.add("over");
});
addEventListener("dragleave", () => drop.classList.remove("over"));
addEventListener("drop", async (event) => {
  event.preventDefault();
  drop.classList.remove("over");
  forgetLast();
  const entries = [...event.dataTransfer.items].map((each) => each.webkitGetAsEntry());
  const files = [];
  for (const entry of entries) if (entry) files.push(...(await filesOf(entry)));
  open(files);
});
element("files").onclick = () => chosen({ multiple: true });
element("folder").onclick = () => chosen({ webkitdirectory: true });
element("sample").onclick = () => open(null);
element("save").onclick = () => {
  const href = URL.createObjectURL(new Blob([saved], { type: "text/html" }));
  Object.assign(document.createElement("a"), { href, download: "report.html" }).click();
  URL.revokeObjectURL(href);
};
