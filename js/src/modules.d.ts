declare module "plotly.js/lib/core" {
  const Plotly: { register(traces: unknown[]): void };
  export default Plotly;
}

declare module "plotly.js/lib/*" {
  const trace: unknown;
  export default trace;
}

declare module "*.css" {
  const text: string;
  export default text;
}
