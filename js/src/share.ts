// Copies text to the clipboard and saves it to a file, even if the page is not served securely.
import { make } from "./dom";

/** Copy text that may arrive later; the browser must be told now, while it still sees a click. */
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

/** The only way that works on a page without https. */
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
 * Save a file through a link in the page, where VS Code looks for it. The link is next to the button: inside the button, its
 * click would also click the button, which would request the same file again and again.
 */
export function save(content: Blob, name: string, beside: HTMLElement): void {
  const address = URL.createObjectURL(content);
  const link = make("a", { href: address, download: name, hidden: true });
  beside.after(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
