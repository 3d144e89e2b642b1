// Text to the clipboard and into a file, also where a page is not served securely.
import { make } from "./dom";

/** Copy text, which may come later: the browser is told at once, while it still sees a click. */
export async function copyText(text: string | Promise<string>, beside: HTMLElement): Promise<boolean> {
  try {
    if (typeof text === "string") await navigator.clipboard.writeText(text);
    else {
      const blob = text.then((known) => new Blob([known], { type: "text/plain" }));
      await navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
    }
    return true;
  } catch {
    return copyByCommand(await text, beside);
  }
}

/** The only way on a page without https. */
function copyByCommand(text: string, beside: HTMLElement): boolean {
  const area = make("textarea", { value: text, className: "hta-offscreen" });
  const focused = (beside.getRootNode() as Document | ShadowRoot).activeElement as HTMLElement | null;
  beside.append(area);
  area.select();
  try {
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    area.remove();
    focused?.focus();
  }
}

/** Save text as a file. */
export function download(text: string, name: string, beside: HTMLElement): void {
  save(new Blob([text], { type: "text/csv;charset=utf-8" }), name, beside);
}

/**
 * Save a file; the link is in the page, where VS Code looks for it. It is beside the button: inside, its click would be one on
 * the button, which asked for the same file again and again.
 */
export function save(content: Blob, name: string, beside: HTMLElement): void {
  const address = URL.createObjectURL(content);
  const link = make("a", { href: address, download: name, hidden: true });
  beside.after(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
