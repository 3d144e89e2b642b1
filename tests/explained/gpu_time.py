"""What the GPUs do over their span: sentences of the overview and of communication."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from hta_widgets.analyses import temporal_breakdown
from hta_widgets.names.readable import distinct_labels
from hta_widgets.panels.base.panel import Panel
from hta_widgets.quantities import counted, duration, percent
from tests.explained.forms import (
    Texts,
    share,
    summed,
)


def whole_of(panel: Panel[Any], gpus: int) -> str:
    if panel._time():
        return "the selected time"
    return "the GPU span" if gpus == 1 else "their GPU spans"


def analysed_time(panel: Panel[Any]) -> pd.Series[int] | None:
    """Sums over the GPUs, where another share of the analysed time is idle."""
    table = temporal_breakdown(panel.job, panel.ranks or None).ranks
    table = table[table["kernel_time_ns"] > 0]
    total = table.sum()
    if panel._time() or not len(table) or not table["steps_ns"].all():
        return None
    idle = total["idle_time_ns"] / total["kernel_time_ns"]
    differs = abs(idle - total["steps_idle_ns"] / total["steps_ns"]) > 0.02
    return total if differs else None


OVER_STEPS: Final = (
    "[[ Over the analysed time, which <longer>, <_who> idle <steps_idle> (<steps_idle_time> of "
    "<steps>) and computing <steps_computing>.]]"
)


def over_steps(panel: Panel[Any]) -> Texts:
    total = analysed_time(panel)
    if total is None:
        return {}
    idle_ns, computing_ns, steps_ns = (
        int(total[f"steps_{part}ns"]) for part in ("idle_", "compute_", "")
    )
    return {
        "longer": "lasts longer" if steps_ns > total["kernel_time_ns"] else "is shorter",
        "steps_idle": share(idle_ns, steps_ns),
        "steps_idle_time": duration(idle_ns),
        "steps": duration(steps_ns),
        "steps_computing": share(computing_ns, steps_ns),
    }


def temporal(result: Any, panel: Panel[Any]) -> Texts | None:
    working = result.ranks[result.ranks["kernel_time_ns"] > 0]
    names = ("kernel_time_ns", "idle_time_ns", "compute_time_ns", "graph_time_ns")
    others = ("communication_time_ns", "copy_time_ns", "other_time_ns")
    span, idle, computing, graph = summed(working, *names)
    texts: Texts = {
        "who": f"GPU of rank {working['rank'].iloc[0]} is"
        if len(working) == 1
        else f"{len(working)} GPUs are",
        "idle": share(idle, span),
        "whole": whole_of(panel, len(working)),
        "idle_time": duration(idle),
        "span": duration(span),
        "computing": share(computing, span),
        "graph": share(graph, span) if graph else None,
    }
    for key, ns in zip(
        ("communicating", "copying", "other"), summed(working, *others), strict=True
    ):
        texts[key] = share(ns, span) if ns else None
    shares = 100 * working["idle_time_ns"] / working["kernel_time_ns"]
    if percent(shares.min()) != percent(shares.max()):
        texts |= {"least": percent(shares.min()), "most": percent(shares.max())}
        texts["least_rank"] = str(working["rank"].iloc[int(shares.argmin())])
        texts["most_rank"] = str(working["rank"].iloc[int(shares.argmax())])
    return texts | over_steps(panel)


IDLE_PARTS: Final = {
    "host": "before the launch call began (CPU-bound)",
    "launch_call": "in the launch call and its latency (CPU-bound)",
    "between_kernels": "in gaps between kernels",
    "inside_graph": "inside CUDA graphs",
    "dependency": "after the launch, before the next work started",
    "launch_not_recorded": "of unknown cause (launch not recorded)",
}


def idle_spans(result: Any) -> tuple[int, int, int]:
    """Number of GPUs, the sum of their spans, and of their idle time."""
    each = result.device_split.drop_duplicates(["rank", "device"])
    return len(each), *summed(each, "span_ns"), *summed(result.device_split, "idle_time_ns")


def is_idle(result: Any) -> bool:
    _, span, idle = idle_spans(result)
    return idle > 0 and idle >= 0.03 * span


def idle(result: Any, panel: Panel[Any]) -> Texts | None:
    gpus, span, idle_ns = idle_spans(result)
    by_part = result.device_split.groupby("split", observed=True)["idle_time_ns"].sum()
    parts = [
        f"{share(ns, idle_ns)} {IDLE_PARTS[part]}"
        for part, ns in sorted(by_part.items(), key=lambda each: -each[1])
        if is_idle(result) and ns >= 0.01 * idle_ns
    ]
    if not is_idle(result) and not over_steps(panel):
        return None
    inside = " in the selected time" if panel._time() else ""
    rank = result.device_split["rank"].iloc[0]
    doubt = panel.job.doubt_of_idle_time(panel.ranks or panel.job.ranks)
    are = ("looks" if doubt else "is") if gpus == 1 else ("look" if doubt else "are")
    return {
        "who": f"GPU of rank {rank} {are}" if gpus == 1 else f"{gpus} GPUs {are}",
        "idle": share(idle_ns, span),
        "whole": ("the GPU span" if gpus == 1 else "their GPU spans") + inside,
        "idle_time": duration(idle_ns),
        "span": duration(span),
        "parts": None if doubt else ", ".join(parts) or None,
        "doubt": doubt or None,
    } | over_steps(panel)


TYPES: Final = {
    "COMPUTATION": "compute",
    "COMMUNICATION": "communication",
    "MEMORY": "copies and memsets",
    "CUDA_GRAPH": "CUDA graphs",
    "OTHER": "other",
}


def kernels(result: Any, panel: Panel[Any]) -> Texts | None:
    types, every = result.types, result.every_kernel
    if types.empty:
        return None
    by_kernel = every.groupby(["kernel_type", "name"], sort=False)[["sum_ns", "count"]].sum()
    kernel_type, name = by_kernel["sum_ns"].idxmax()
    top_ns, launches = by_kernel.loc[(kernel_type, name)]
    present = {*every["kernel_type"]}
    graphs = "graphs, " if "CUDA_GRAPH" in present else ""
    whole = "time of kernels, " + (f"{graphs}copies and memsets" if "MEMORY" in present else "")
    whole = whole if "MEMORY" in present else "kernel time"
    whole = "time of kernels and graphs" if graphs and "MEMORY" not in present else whole
    leading = str(types["kernel_type"].iloc[0])
    alone = " alone" if len(types) > 1 and " overlapping " not in leading else ""
    is_graph = leading == "CUDA_GRAPH"
    said = " + ".join(TYPES[each] for each in leading.split(" overlapping "))
    said = "CUDA graphs recorded as a whole" if is_graph else said[0].upper() + said[1:]
    several = " + " in said or " and " in said or is_graph
    texts: Texts = {
        "type": f"{said}{alone} take{'' if several else 's'}",
        "busy": share(types["sum_ns"].iloc[0], types["sum_ns"].sum()),
        "kind": None if kernel_type == "CUDA_GRAPH" else TYPES[str(kernel_type)],
        "kernel": distinct_labels([str(name)], among=result.names)[0],
        "part": share(top_ns, by_kernel["sum_ns"].sum()),
        "whole": whole,
        "time": duration(top_ns),
        "launches": counted(int(launches), "launch", "launches"),
    }
    total = analysed_time(panel)
    if total is not None:
        span, steps = int(total["kernel_time_ns"]), int(total["steps_ns"])
        texts |= {
            "of_span": share(span - int(total["idle_time_ns"]), span),
            "span": duration(span),
            "of_steps": share(steps - int(total["steps_idle_ns"]), steps),
            "steps": duration(steps),
        }
    return texts


def overlapping(result: Any, _: Panel[Any]) -> Texts | None:
    table = result.ranks[result.ranks["communication_time_ns"] > 0]
    if table.empty:
        return None
    names = ("communication_time_ns", "exposed_communication_ns", "beside_graph_ns")
    total, exposed, beside = summed(table, *names)
    (graphs,) = summed(result.ranks, "cuda_graph_time_ns")
    each = [duration(ns) for ns in (table[names[1]].min(), table[names[1]].max())]
    differ = len(table) > 1 and each[0] != each[1]
    return {
        "where": f"On rank {table['rank'].iloc[0]}"
        if len(table) == 1
        else f"Across {len(table)} GPUs",
        "exposed": share(exposed, total),
        "exposed_time": duration(exposed),
        "total": duration(total),
        "beside": share(beside, total) if beside else None,
        "beside_time": duration(beside) if beside else None,
        "least": each[0] if differ else None,
        "most": each[1] if differ else None,
        "graphs": duration(graphs) if graphs else None,
    }


LANE_SHARES: Final = tuple(
    f"{name}_percent" for name in ("compute", "communicate", "overlap", "graph", "empty")
)


def lanes_of(result: Any) -> pd.DataFrame:
    return result.lanes[result.lanes["span_ns"] > 0]


def lane_by_lane(result: Any, _: Panel[Any]) -> Texts | None:
    lanes = lanes_of(result)
    if not 0 < len(lanes) < 3:
        return None
    said = []
    for lane in lanes.to_dict("records"):
        compute, alone, both, graph, empty = (
            share(lane[name.replace("percent", "ns")], lane["span_ns"]) for name in LANE_SHARES
        )
        graphs = f"{graph} in CUDA graphs of unknown content, " if lane["graph_ns"] else ""
        said.append(
            f"ank {lane['rank']} spends {compute} of its kernel span "
            f"({duration(lane['span_ns'])}) only computing, {alone} only communicating, "
            f"{graphs}{both} on both and {empty} without a kernel"
        )
    return {"lanes": "; r".join(said), "few": "ranks" if len(lanes) > 1 else None}


def usual_lanes(result: Any, _: Panel[Any]) -> Texts | None:
    lanes = lanes_of(result)
    of = [100 * lanes[name.replace("percent", "ns")] / lanes["span_ns"] for name in LANE_SHARES]
    if (result.outliers["verdict"] != "").any():
        return None
    compute, alone, both, graph, empty = (
        f"{percent(each.median())} ({percent(each.min())} to {percent(each.max())})"
        if each.max() - each.min() > 5
        else percent(each.median())
        for each in of
    )
    has_graphs = bool(lanes["graph_ns"].any())
    return {
        "count": str(len(lanes)),
        "compute": compute,
        "alone": alone,
        "graph": graph if has_graphs else None,
        "both": both,
        "empty": empty,
    }


def far_lane(result: Any, _: Panel[Any]) -> Texts | None:
    """The lane that a sentence names is one of the flagged ones, with its own numbers."""
    flagged = result.outliers[result.outliers["verdict"] != ""]
    if flagged.empty:
        return None
    of_shares = flagged[flagged["column"].isin(LANE_SHARES)]
    said = percent if len(of_shares) else duration
    flagged = of_shares if len(of_shares) else flagged
    robust = flagged["compared"] >= 5
    certain = flagged[flagged["verdict"] == "Outlier"]
    rows = certain if len(certain) else flagged
    score = rows["modified_z"].where(robust[rows.index], rows["leave_one_out_t"]).abs().round(9)
    most = rows.loc[score.idxmax()]
    return {
        "value": said(most["value"]),
        "direction": str(most["direction"]),
        "median": said(most["median"]),
    }
