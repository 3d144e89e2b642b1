declare module "plotly.js/lib/core" {
  const core: { register(traces: unknown[]): void };
  export default core;
}

declare module "plotly.js/lib/*" {
  const trace: unknown;
  export default trace;
}

declare module "*.css" {
  const text: string;
  export default text;
}
