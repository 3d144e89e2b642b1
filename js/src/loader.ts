// The loader that is sent with every widget; it gets the rest of the front end from the kernel's assets model.
import type { RenderProps } from "@anywidget/types";
import { importOnce } from "./assets";
import type { WidgetState } from "./dashboard/types";
import { resolve } from "./models";
import type { AssetsState } from "./types";
import type widget from "./widget";

async function render(props: RenderProps<WidgetState>): Promise<void> {
  const { model, el, host, signal } = props;
  try {
    const assets = await resolve<AssetsState>(model, host, model.get("_assets"));
    const { render } = await importOnce<typeof widget>(assets, "panel");
    if (!signal.aborted) render(props);
  } catch (error) {
    el.textContent = `This widget cannot be shown here: ${error}`;
  }
}

export default { render };
