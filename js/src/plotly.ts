// Only the trace types that figures/ draws (scatter is in the core): a quarter of plotly.js.
import Plotly from "plotly.js/lib/core";
import bar from "plotly.js/lib/bar";
import heatmap from "plotly.js/lib/heatmap";
import pie from "plotly.js/lib/pie";

Plotly.register([bar, heatmap, pie]);

export default Plotly;
