// Decodes the text in the page into the states of the widgets: base 85, gzip, JSON, and the bytes that follow it.
// hta_widgets/panels/base/report writes it.

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%,()*+-;.=:?@^_/{|}~";
const BASE = DIGITS.length;
const WIDTHS = [8, 4, 1];

export interface Buffer {
  path: (string | number)[];
  size: number;
}

export interface Saved {
  state: Record<string, unknown>;
  buffers: Buffer[];
}

type Container = Record<string | number, unknown>;

/** Five digits are four bytes; the last ones may be fewer. */
export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const values = new Uint8Array(128);
  for (let value = 0; value < BASE; value++) values[DIGITS.charCodeAt(value)] = value;
  const groups = Math.ceil(text.length / 5);
  const view = new DataView(new ArrayBuffer(4 * groups));
  for (let group = 0; group < groups; group++) {
    let number = 0;
    for (let place = 5 * group; place < 5 * (group + 1); place++) {
      number = number * BASE + (values[text.charCodeAt(place)] ?? BASE - 1); // none behind the end
    }
    view.setUint32(4 * group, number);
  }
  return new Uint8Array(view.buffer, 0, Math.floor((4 * text.length) / 5));
}

async function unpacked(text: string): Promise<Uint8Array> {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Bytes in number order; they were stored as the first bytes of all numbers, then the second bytes, and so on. */
function fromPlanes(content: Uint8Array): Uint8Array<ArrayBuffer> {
  const width = WIDTHS.find((each) => content.length % each === 0) ?? 1;
  const length = content.length / width;
  const ordered = new Uint8Array(content.length);
  for (let plane = 0; plane < width; plane++) {
    content.subarray(plane * length, (plane + 1) * length).forEach((value, place) => {
      ordered[width * place + plane] = value;
    });
  }
  return ordered;
}

/** The states, with their bytes, as a kernel would send them. */
export function statesOf(content: Uint8Array): Record<string, unknown>[] {
  let start = content.indexOf(0);
  const models: Saved[] = JSON.parse(new TextDecoder().decode(content.subarray(0, start++)));
  for (const { state, buffers } of models) {
    for (const { path, size } of buffers) {
      const parents = path.slice(0, -1);
      const holder = parents.reduce<Container>((outer, key) => outer[key] as Container, state);
      holder[path.at(-1) as string] = new DataView(fromPlanes(content.subarray(start, start + size)).buffer);
      start += size;
    }
  }
  return models.map(({ state }) => state);
}

export async function statesIn(text: string): Promise<Record<string, unknown>[]> {
  return statesOf(await unpacked(text));
}
