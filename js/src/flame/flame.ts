// A panel with a flame graph between its controls and its table.
import type { RenderProps } from "@anywidget/types";
import { listen, type Model, resolve, write } from "../models";
import panel from "../panel";
import { type Pick, selected } from "../picks";
import { isSaved } from "../saved";
import { followTheme } from "../theme";
import type { PanelState, SelectionState } from "../types";
import type { FlameState } from "./types";
import { FlameView } from "./view";

const FIELDS = ["kernel", "operators", "modules"] as const;

function render(props: RenderProps<FlameState>): void {
  const { model, el, signal, host } = props;
  panel.render(props as unknown as RenderProps<PanelState>);
  let selection: Model<SelectionState> | null = null;
  const view = new FlameView(
    {
      pick(picked: Pick, add: boolean) {
        if (selection) write(selection, selected(selection, picked, add));
      },
      isSelected({ field, item }: Pick) {
        const current = selection?.get(field);
        return Array.isArray(current) ? current.includes(item as never) : current === item;
      },
      asks: !isSaved(model),
      zoom(root: string[], sandwich: string) {
        write(model, { root, sandwich });
      },
    },
    signal,
  );
  el.querySelector(".hta-figures")?.before(view.element);
  void resolve<SelectionState>(model, host, model.get("_selection")).then((found) => {
    selection = found;
    for (const field of FIELDS) listen(found, `change:${field}`, () => view.redraw(), signal);
    view.redraw();
  });
  listen(model, "change:_flame", () => view.show(model.get("_flame")), signal);
  view.show(model.get("_flame"));
  followTheme(() => requestAnimationFrame(() => view.redraw()), signal);
  requestAnimationFrame(() => view.redraw());
}

export default { render };
