// The front end that is sent with every panel; it gets the rest from the assets model of the kernel.
import type { RenderProps } from "@anywidget/types";
import { importOnce } from "./assets";
import { resolve } from "./models";
import type panel from "./panel";
import type { AssetsState, PanelState } from "./types";

async function render(props: RenderProps<PanelState>): Promise<void> {
  const { model, el, host, signal } = props;
  try {
    const assets = await resolve<AssetsState>(model, host, model.get("_assets"));
    const { render } = await importOnce<typeof panel>(assets, "panel");
    if (!signal.aborted) render(props);
  } catch (error) {
    el.textContent = `${model.get("_spec").title} cannot be shown here: ${error}`;
  }
}

export default { render };
