// Only the trace types that figures/ draws (scatter is in the core): a quarter of plotly.js.
import Plotly from "plotly.js/lib/core";
import bar from "plotly.js/lib/bar";
import box from "plotly.js/lib/box";
import heatmap from "plotly.js/lib/heatmap";
import histogram from "plotly.js/lib/histogram";
import pie from "plotly.js/lib/pie";

Plotly.register([bar, box, heatmap, histogram, pie]);

export default Plotly;
