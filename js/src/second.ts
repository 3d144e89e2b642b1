// Picks what a job is compared with: neighbouring traces, a path, or a dropped baseline. Nothing is opened without a
// click. Python sends the offers only on request, so that no notebook is saved with names of folders.
import type { RenderProps } from "@anywidget/types";
import { keepKeys, make, pushButton, uniquePrefix } from "./dom";
import { listen, type Model } from "./models";
import { isSaved } from "./saved";
import { followPage } from "./styles";
import type { PanelState } from "./types";

export interface SecondState extends PanelState {
  /** Name of what the job is compared with now; empty for nothing. */
  _second: string;
}

type Offers = { second: "offers"; offers: [label: string, detail: string][] };
type Picked = { second: "picked"; error: string };

const MOST_BYTES = 2_000_000; // of a baseline; typical ones have about 100 kB
const TICK = 1_000;

class Picker {
  readonly root = make("section", { className: "hta-panel hta-second", "aria-label": "What to compare with" });
  #model: Model<SecondState>;
  #signal: AbortSignal;
  #now = make("p");
  #status = make("p", { className: "hta-quiet", role: "status" });
  #error = make("p", { className: "hta-error", role: "alert" });
  #list = make("ul", { className: "hta-offers" });
  #path: HTMLInputElement;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(model: Model<SecondState>, signal: AbortSignal) {
    this.#model = model;
    this.#signal = signal;
    const prefix = uniquePrefix();
    const beside = make("p", { className: "hta-beside", id: `${prefix}-beside` }, "Next to these traces");
    this.#list.setAttribute("aria-labelledby", beside.id);
    this.#path = keepKeys(make("input", { type: "text", id: `${prefix}-path`, placeholder: "path/to/a/later/run" }));
    const open = pushButton("Open", {}, () => this.#openPath(), signal);
    this.#path.addEventListener("keydown", ({ key }) => key === "Enter" && this.#openPath(), { signal });
    const file = keepKeys(make("input", { type: "file", accept: ".arrow", id: `${prefix}-file` }));
    file.addEventListener("change", () => void this.#openFile(file.files?.[0]), { signal });
    this.root.append(
      this.#now,
      this.#status,
      this.#error,
      beside,
      this.#list,
      make(
        "div",
        { className: "hta-second-row" },
        make("label", { htmlFor: this.#path.id }, "Path or URL"),
        this.#path,
        open,
      ),
      make(
        "div",
        { className: "hta-second-row hta-drop" },
        make("label", { htmlFor: file.id }, "A baseline: drop its .arrow file here, or choose one"),
        file,
      ),
    );
    this.#takeDrops();
    listen(model, "change:_second", () => this.#showNow(), signal);
    listen(model, "msg:custom", (content: Offers | Picked) => this.#answer(content), signal);
    signal.addEventListener("abort", () => clearInterval(this.#timer), { once: true });
    this.#showNow();
    if (!isSaved(model)) model.send({ second: "offers" });
  }

  #showNow(): void {
    const name = this.#model.get("_second");
    if (name === "") {
      this.#now.textContent = "Pick a job to compare with. Nothing is opened until you click.";
      return;
    }
    this.#now.replaceChildren(
      "Compared with ",
      make("b", {}, name),
      " ",
      pushButton("Stop comparing", {}, () => this.#pick("nothing", null, ""), this.#signal),
    );
  }

  #answer(content: Offers | Picked): void {
    if (content.second === "offers") this.#showOffers(content.offers);
    if (content.second !== "picked") return;
    clearInterval(this.#timer);
    this.root.setAttribute("aria-busy", "false");
    this.#status.textContent = "";
    this.#error.textContent = content.error;
  }

  #showOffers(offers: Offers["offers"]): void {
    const rows = offers.map(([label, detail], place) => {
      const id = `${this.#path.id}-${place}`;
      const pick = () => this.#pick("offer", place, label);
      const button = pushButton(label, { "aria-describedby": id }, pick, this.#signal);
      return make("li", {}, button, make("span", { className: "hta-quiet", id }, detail));
    });
    const none = make("li", { className: "hta-quiet" }, "There are no other traces next to these.");
    this.#list.replaceChildren(...(rows.length > 0 ? rows : [none]));
  }

  #openPath(): void {
    const path = this.#path.value.trim();
    if (path) this.#pick("path", path, path);
    else this.#error.textContent = "Type the path of a file or a folder of traces.";
  }

  async #openFile(file: File | undefined): Promise<void> {
    if (!file) return;
    if (file.size > MOST_BYTES) {
      this.#error.textContent = `${file.name} is too large for a baseline: type the path of traces instead.`;
      return;
    }
    this.#pick("file", file.name, file.name, [await file.arrayBuffer()]);
  }

  #takeDrops(): void {
    const over = (event: DragEvent) => {
      event.preventDefault(); // otherwise the browser would open the file
      event.stopPropagation(); // otherwise JupyterLab would handle it
      this.root.classList.toggle("hta-dragged", event.type === "dragover");
    };
    for (const type of ["dragover", "dragleave"] as const) {
      this.root.addEventListener(type, over, { signal: this.#signal });
    }
    const drop = (event: DragEvent) => {
      over(event);
      void this.#openFile(event.dataTransfer?.files[0]);
    };
    this.root.addEventListener("drop", drop, { signal: this.#signal });
  }

  /** Have Python open something, and count the seconds until it answers. */
  #pick(second: string, value: unknown, name: string, buffers?: ArrayBuffer[]): void {
    if (this.root.getAttribute("aria-busy") === "true") return;
    this.root.setAttribute("aria-busy", "true");
    this.#error.textContent = "";
    const begun = Date.now();
    const tell = () => {
      const seconds = Math.round((Date.now() - begun) / TICK);
      this.#status.textContent = `Opening ${name}${seconds > 0 ? `, ${seconds} s` : ""}…`;
    };
    if (name) tell();
    if (name) this.#timer = setInterval(tell, TICK);
    this.#model.send({ second, value }, undefined, buffers);
  }
}

function render({ model, el, signal }: RenderProps<SecondState>): void {
  const { root } = new Picker(model, signal);
  el.append(root);
  followPage(root, signal);
}

export default { render };
