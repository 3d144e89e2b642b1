// All texts of a panel: title, status, finding, error, empty state, notices.
import { keepKeys, make, pushButton } from "./dom";
import type { Progress } from "./sync";
import type { Answer, View } from "./types";

const BUSY_DELAY = 200;
const SAID: Partial<Record<Progress, string>> = {
  interrupted: "Interrupted before recomputing; showing the last result.",
  silent: "The kernel is not responding; showing the last result.",
  gone: "The kernel has stopped; showing the last result. Run the cell again.",
};

function notices(texts: readonly string[]): (Node | string)[] {
  if (texts.length < 2) return [...texts];
  const items = texts.map((text) => make("li", {}, text));
  return [make("details", {}, keepKeys(make("summary", {}, `${texts.length} notices`)), make("ul", {}, ...items))];
}

export class Words {
  readonly title: HTMLElement;
  readonly status = make("span", { className: "hta-status", role: "status" });
  readonly timeButton = pushButton("", { className: "hta-time", hidden: true });
  readonly again = pushButton("Compute", { hidden: true });
  readonly finding = make("p", { className: "hta-finding", "aria-live": "polite" });
  readonly error = make("p", { className: "hta-error", role: "alert" });
  readonly empty = make("p", { className: "hta-empty" });
  readonly notices = make("div", { className: "hta-notices" });
  #root: HTMLElement;
  #links: readonly Node[] = []; // next to the message
  #told: Answer = {}; // shown if there is no other status; a failure only until the next request
  #progress: Progress = "idle";
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(root: HTMLElement, title: string, prefix: string, signal: AbortSignal) {
    this.#root = root;
    this.title = make("h3", { className: "hta-title", id: `${prefix}-title`, tabIndex: -1 }, title);
    signal.addEventListener("abort", () => clearTimeout(this.#timer), { once: true });
  }

  show({ time, finding, findings, error, empty, notices: texts }: View): void {
    this.#showTime(time);
    this.finding.textContent = findings.some(({ sentence }) => sentence === finding) ? "" : finding;
    this.error.textContent = error;
    this.empty.textContent = empty === finding ? "" : empty;
    this.notices.replaceChildren(...notices(texts));
    this.#root.classList.toggle("hta-failed", error !== null);
  }

  #showTime(time: string): void {
    if (time === "" && this.timeButton.matches(":focus")) this.title.focus();
    this.timeButton.hidden = time === "";
    this.timeButton.replaceChildren(`${time} `, make("span", { "aria-hidden": "true" }, "×"));
    this.timeButton.setAttribute("aria-label", `${time}: show all of the time`);
    this.timeButton.title = "Show the whole time range";
  }

  progress(progress: Progress): void {
    if (progress === this.#progress) return;
    this.#progress = progress;
    clearTimeout(this.#timer);
    this.#root.setAttribute("aria-busy", String(progress === "busy"));
    if (progress === "busy" && this.#told.failed) this.tell({});
    this.#root.classList.toggle("hta-outdated", progress === "interrupted");
    this.again.hidden = progress !== "interrupted";
    this.say(SAID[progress] ?? this.#told.text ?? "");
    this.#computing(false);
    if (progress === "busy") this.#timer = setTimeout(() => this.#computing(true), BUSY_DELAY);
  }

  /** Show "Computing…" only for slow computations, as the class restyles all charts. */
  #computing(shown: boolean): void {
    this.#root.classList.toggle("hta-computing", shown);
    if (shown) this.say("Computing…");
  }

  /** Show the outcome of an action, and links to its files. */
  tell(answer: Answer, links: readonly Node[] = []): void {
    this.#told = answer;
    this.#links = links;
    this.status.classList.toggle("hta-failure", answer.failed ?? false);
    this.say(answer.text ?? "");
  }

  say(text: string): void {
    this.status.replaceChildren(text, ...(text === this.#told.text ? this.#links : []));
  }
}
