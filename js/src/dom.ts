// Creates elements; text from traces reaches the page only as text, never as HTML.

/** Properties of an element, and ARIA attributes, for which several browsers have no properties. */
type Properties<Tag extends keyof HTMLElementTagNameMap> = Partial<
  Omit<HTMLElementTagNameMap[Tag], "style" | "dataset" | "children" | "role" | `aria${string}`>
> & { role?: string; [name: `aria-${string}`]: string };

export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  properties: Properties<Tag> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "role" || name.startsWith("aria-")) element.setAttribute(name, String(value));
    else Object.assign(element, { [name]: value });
  }
  element.append(...children);
  return element;
}

/** Keep JupyterLab's one-key commands (such as "b", which adds a cell) away while the element has the focus. */
export function keepKeys<T extends HTMLElement>(element: T): T {
  element.dataset.lmSuppressShortcuts = "true";
  return element;
}

/** A button that works until the signal aborts; without the type "button" it would submit a form around it. */
export function pushButton(
  text: string,
  properties: Properties<"button"> = {},
  press?: () => unknown,
  signal?: AbortSignal,
): HTMLButtonElement {
  const button = keepKeys(make("button", { type: "button", ...properties }, text));
  if (press) button.addEventListener("click", () => void press(), signal ? { signal } : {});
  return button;
}

/** Call whenever the size of an element changes, and once at the start. */
export function followSize(element: HTMLElement, resized: () => void, signal: AbortSignal): void {
  const observer = new ResizeObserver(resized);
  observer.observe(element);
  signal.addEventListener("abort", () => observer.disconnect(), { once: true });
}

/** A prefix for ids: each panel runs its own copy of this module, so a counter would collide. */
export function uniquePrefix(): string {
  return `hta-${Math.random().toString(36).slice(2, 10)}`;
}
