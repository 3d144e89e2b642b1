// From the text in the page to the states of the widgets: base64, gzip, JSON, and the bytes back in their places.

export interface Buffer {
  path: (string | number)[];
  encoding: "base64";
  data: string;
}

export interface Saved {
  state: Record<string, unknown>;
  buffers: Buffer[];
}

type Container = Record<string | number, unknown>;

export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}

async function unpacked(base64: string): Promise<string> {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** The state with its bytes as a kernel sends them. */
export function withBytes({ state, buffers }: Saved): Record<string, unknown> {
  for (const { path, data } of buffers) {
    const parents = path.slice(0, -1);
    const holder = parents.reduce<Container>((outer, key) => outer[key] as Container, state);
    holder[path.at(-1) as string] = new DataView(bytesOf(data).buffer);
  }
  return state;
}

export async function statesIn(base64: string): Promise<Record<string, unknown>[]> {
  const models: Saved[] = JSON.parse(await unpacked(base64));
  return models.map(withBytes);
}
