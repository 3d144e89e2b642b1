// The row above the lanes: the legend, the choices and a search.
import { keepKeys, make, pushButton } from "../dom";
import { swatch } from "../legend";
import { float } from "../popover";
import type { Stage } from "./stage";
import type { KindOfLane, TimelineLayout } from "./types";

function segment(name: string, label: string, checked: boolean, chosen: () => void, signal: AbortSignal): HTMLElement {
  const input = keepKeys(make("input", { type: "radio", name, checked }));
  input.addEventListener("change", chosen, { signal });
  return make("label", {}, input, make("span", {}, label));
}

/** The classes of the lanes of ranks. */
export function legend({ classes, ranks }: TimelineLayout): HTMLElement {
  const codes = new Set((ranks ?? []).flatMap(({ planes }) => planes.map(({ code }) => code)));
  const shown = (classes ?? []).filter((_, code) => codes.has(code));
  return make("ul", { className: "hta-legend" }, ...shown.map((look) => make("li", {}, swatch(look), look.label)));
}

/** A menu of the kinds of lanes that can be added; kinds without lanes say why. */
function adding(stage: Stage, prefix: string, choose: (kinds: string[]) => void, signal: AbortSignal): HTMLElement {
  const button = pushButton("+ lanes");
  const said = { role: "group", "aria-label": "Lanes to add to each rank" };
  const menu = make("div", { className: "hta-popover hta-kinds", id: `${prefix}-kinds`, popover: "auto", ...said });
  button.popoverTargetElement = menu;
  const follow = float(menu, button, signal);
  let chosen: readonly string[] = [];
  const option = ({ name, label, why_none }: KindOfLane): HTMLElement => {
    const input = keepKeys(
      make("input", { type: "checkbox", checked: chosen.includes(name), disabled: why_none !== "" }),
    );
    const change = () => {
      chosen = input.checked ? [...chosen, name] : chosen.filter((each) => each !== name);
      choose([...chosen]);
    };
    input.addEventListener("change", change, { signal });
    const why = why_none ? [make("span", { className: "hta-why" }, why_none)] : [];
    return make("label", {}, input, make("span", {}, label), ...why);
  };
  const open = ({ newState }: ToggleEvent) => {
    if (newState !== "open") return;
    chosen = stage.added.chosen;
    if (menu.childElementCount === 0) menu.replaceChildren("…");
    stage.added.kinds((kinds) => {
      menu.replaceChildren(...kinds.map(option));
      follow();
    });
  };
  menu.addEventListener("beforetoggle", open as EventListener, { signal });
  return make("span", {}, button, menu);
}

export function bar(
  stage: Stage,
  buttons: HTMLElement[],
  choose: ((kinds: string[]) => void) | null,
  signal: AbortSignal,
): HTMLElement {
  const name = `hta-axis-${Math.random().toString(36).slice(2, 8)}`;
  const segments = make(
    "div",
    { className: "hta-segments", role: "radiogroup", "aria-label": "Time axis" },
    segment(name, "clock", true, () => stage.align(false), signal),
    segment(name, "align steps", false, () => stage.align(true), signal),
  );
  const said = "Highlight events whose name contains";
  const search = keepKeys(make("input", { type: "search", placeholder: "highlight names …", "aria-label": said }));
  search.addEventListener("input", () => stage.search(search.value.trim()), { signal });
  const keys = make(
    "span",
    { className: "hta-keys" },
    "\u200b drag\u00a0=\u00a0window ·\u00a0W/S\u00a0=\u00a0zoom ·\u00a0A/D\u00a0=\u00a0pan",
  );
  return make(
    "div",
    { className: "hta-timeline-bar" },
    segments,
    search,
    ...(choose ? [adding(stage, name, choose, signal)] : []),
    ...buttons,
    keys,
    stage.help.button,
    stage.help.list,
  );
}
