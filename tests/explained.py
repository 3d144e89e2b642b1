"""What the finding of each panel has to say, worked out again from the tables of its result.

Each panel has forms of a sentence, in which ``<name>`` stands for a number or a name and ``[[…]]``
for what is not always there. Names that begin with ``_`` are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

import pandas as pd

from hta_widgets.analyses import kernel_breakdown, temporal_breakdown
from hta_widgets.analyses.diagnosis import Diagnosis, Finding
from hta_widgets.analyses.diagnosis.budget import BUDGET
from hta_widgets.analyses.diagnosis.vocabulary import CAUSES
from hta_widgets.analyses.idle_owners import owners_by_line
from hta_widgets.analyses.shared.attribution.causes import IDLE_CAUSES, Share
from hta_widgets.errors import number_ranges
from hta_widgets.names.shorten import short_name
from hta_widgets.panels.base.panel import Panel
from hta_widgets.quantities import counted, data_size, duration, number, percent

Texts = dict[str, str | None]
Form = tuple[str, Callable[[Any, Any], Texts | None]]
"""A sentence, and what its names stand for; None where another form has to be used."""

NAME_WIDTH: Final = 60
RULE_WIDTH: Final = 40
NS_PER_MS: Final = 1e6
NS_PER_US: Final = 1e3


def explain(panel: Panel[Any], name: str, sentence: str) -> str:
    """Say what is wrong with a sentence, or nothing.

    Parameters
    ----------
    panel : Panel
    name : str
        Of the panel in a dashboard.
    sentence : str
    """
    return checked(FORMS[name], name, sentence, panel.result, panel)


def checked(forms: list[Form], name: str, sentence: str, found: object, of: object) -> str:
    """Say what is wrong with a sentence that has to have one of the forms, or nothing."""
    wrong = []
    for form, expected in forms:
        if not re.fullmatch(rendered(form, None), sentence, re.DOTALL):
            continue
        every = expected(found, of)
        if every is None:
            wrong.append(f"{sentence!r} is said where it does not hold")
            continue
        right = {key: text for key, text in every.items() if text is not None}
        assert right.keys() <= {*re.findall(r"<(\w+)>", form)}
        if re.fullmatch(rendered(form, right), sentence, re.DOTALL):
            return ""
        wrong.append(f"{sentence!r} should say {right}")
    return f"{name}: " + ("\n".join(wrong) or f"no form explains {sentence!r}")


def rendered(form: str, texts: Texts | None) -> str:
    """A regular expression of the form with its texts; of any such sentence without texts."""
    parts = iter(re.split(r"(<\w+>|\[\[|\]\])", form))
    return _block(parts, texts)[0]


def _block(parts: Iterator[str], texts: Texts | None) -> tuple[str, set[str]]:
    """The expression up to the end of a block, and the names whose texts are compared in it."""
    expression, names = "", set()
    for part in parts:
        if part == "]]":
            break
        if part == "[[":
            inside, needed = _block(parts, texts)
            if texts is None or not needed:
                expression += f"(?:{inside})?"
            elif needed <= texts.keys():
                expression += inside
                names |= needed
        elif part.startswith("<") and part.endswith(">"):
            name = part[1:-1]
            is_compared = texts is not None and not name.startswith("_")
            names |= {name} if is_compared else set()
            expression += re.escape(str(texts.get(name))) if is_compared else ".+?"
        else:
            expression += re.escape(part)
    return expression, names


def share(part: float, whole: float) -> str:
    return percent(100 * part / whole)


def summed(table: pd.DataFrame, *columns: str) -> tuple[int, ...]:
    return tuple(int(table[column].sum()) for column in columns)


def plain(when: Callable[[Any, Panel[Any]], bool]) -> Callable[[Any, Panel[Any]], Texts | None]:
    """A sentence without numbers, and when it holds."""
    return lambda result, panel: {} if when(result, panel) else None


# What runs on the GPU over its span.


def whole_of(panel: Panel[Any], gpus: int) -> str:
    if panel._time():
        return "the selected time"
    return "the GPU span" if gpus == 1 else "their GPU spans"


def analysed_time(panel: Panel[Any]) -> pd.Series[int] | None:
    """Sums over the GPUs, where the analysed time lasts longer and is idle for another share."""
    table = temporal_breakdown(panel.job, panel.ranks or None).ranks
    table = table[table["kernel_time_ns"] > 0]
    total = table.sum()
    if panel._time() or not len(table) or not table["steps_ns"].all():
        return None
    idle = total["idle_time_ns"] / total["kernel_time_ns"]
    differs = abs(idle - total["steps_idle_ns"] / total["steps_ns"]) > 0.02
    return total if differs and total["steps_ns"] > total["kernel_time_ns"] else None


OVER_STEPS: Final = (
    "[[ Over the analysed time, which lasts longer, <_who> idle <steps_idle> (<steps_idle_time> of "
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
    "host": "before the launch call began (CPU late)",
    "launch_call": "during the launch call (CPU late)",
    "between_kernels": "in gaps between kernels",
    "inside_graph": "inside CUDA graphs",
    "dependency": "after the launch, held back on the GPU",
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
    return {
        "who": f"GPU of rank {rank} is" if gpus == 1 else f"{gpus} GPUs are",
        "idle": share(idle_ns, span),
        "whole": ("the GPU span" if gpus == 1 else "their GPU spans") + inside,
        "idle_time": duration(idle_ns),
        "span": duration(span),
        "parts": ", ".join(parts) or None,
    } | over_steps(panel)


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
    said = "CUDA graphs of unknown content" if is_graph else leading
    texts: Texts = {
        "type": f"{said}{alone} take{'' if is_graph else 's'}",
        "busy": share(types["sum_ns"].iloc[0], types["sum_ns"].sum()),
        "kind": None if kernel_type == "CUDA_GRAPH" else str(kernel_type),
        "kernel": short_name(str(name)),
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
            f"ank {lane['rank']} spends {compute} of {duration(lane['span_ns'])} only computing, "
            f"{alone} only communicating, {graphs}{both} on both and {empty} without a kernel"
        )
    return {"lanes": "; r".join(said), "few": "ranks" if len(lanes) > 1 else None}


def usual_lanes(result: Any, _: Panel[Any]) -> Texts | None:
    lanes = lanes_of(result)
    of = [100 * lanes[name.replace("percent", "ns")] / lanes["span_ns"] for name in LANE_SHARES]
    if (result.outliers["verdict"] != "").any() and result.outliers["column"].isin(
        LANE_SHARES
    ).any():
        flagged = result.outliers[result.outliers["column"].isin(LANE_SHARES)]
        if (flagged["verdict"] != "").any():
            return None
    compute, alone, both, graph, empty = (percent(each.median()) for each in of)
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
    flagged = result.outliers[
        result.outliers["column"].isin(LANE_SHARES) & (result.outliers["verdict"] != "")
    ]
    if flagged.empty:
        return None
    robust = flagged["compared"] >= 5
    certain = flagged[flagged["verdict"] == "Outlier"]
    rows = certain if len(certain) else flagged
    score = rows["modified_z"].where(robust[rows.index], rows["leave_one_out_t"]).abs().round(9)
    most = rows.loc[score.idxmax()]
    return {
        "value": percent(most["value"]),
        "direction": str(most["direction"]),
        "median": percent(most["median"]),
    }


# Operators, modules and what else time is divided by.


def largest(table: pd.DataFrame, by: str, of: str) -> tuple[str, int]:
    sums = table.groupby(by, sort=False)[of].sum()
    return str(sums.idxmax()), int(sums.max())


def operators(result: Any, _: Panel[Any]) -> Texts | None:
    rows = result.operators if len(result.operators) else result.launch_calls
    on_gpu = bool(rows["gpu_self_ns"].any())
    column = "gpu_self_ns" if on_gpu else "cpu_self_ns"
    (whole,) = summed(result.ranks, "gpu_ns") if on_gpu else summed(rows, column)
    if not whole:
        return None
    name, own = largest(rows, "operator", column)
    of_name = rows[rows["operator"] == name]
    which = [each for text in of_name["collectives"].unique() for each in text.split(", ") if each]
    suffix = f" ({', '.join(dict.fromkeys(which))})" if which else ""
    said = {
        f"{short_name(name, NAME_WIDTH)}{suffix} takes the most: {duration(own)} "
        f"({share(own, whole)}) in {counted(int(of_name['calls'].sum()), 'call')}": own
    }
    clauses = {}
    if on_gpu and len(result.operators):
        lost, outside = summed(result.ranks, "launch_not_recorded_ns", "outside_operators_ns")
        clauses = {
            f"{share(ns, whole)} {words}": ns
            for words, ns in (
                ("has no recorded launch", lost),
                ("was launched outside operators", outside),
            )
            if ns >= 0.1 * whole
        }
    first = clauses if max(clauses.values(), default=0) > own else said
    return {
        "whole": duration(whole),
        "device": "GPU" if on_gpu else "CPU",
        "said": "; ".join(dict.fromkeys([*first, *said, *clauses])),
    }


def modules(result: Any, _: Panel[Any]) -> Texts | None:
    table, outside = result.modules, result.outside
    own, rest = *summed(table, "gpu_self_ns"), *summed(outside, "gpu_ns")
    if table.empty or not own:
        return None
    classes = table["name"].str.replace(r"(?<=.)_\d+$", "", regex=True)
    by_class = table.groupby(classes)["gpu_self_ns"].sum()
    name, most = str(by_class.idxmax()), int(by_class.max())
    paths = table[(classes == name) & (table["gpu_self_ns"] > 0)]["path"].nunique()
    unknown = int(outside.loc[outside["phase"] == "unknown", "gpu_ns"].sum())
    whole, noun = own + rest, result.source.removesuffix("s")
    is_said = {"outside": rest - unknown, "unknown": unknown}
    said = {key: share(ns, whole) if ns >= 0.01 * whole else None for key, ns in is_said.items()}
    return said | {
        "part": share(most, whole),
        "name": short_name(name, NAME_WIDTH),
        "time": duration(most),
        "paths": f"{paths} {noun}s" if paths > 1 else None,
        "noun": noun if said["outside"] else None,
    }


def flame(result: Any, panel: Panel[Any]) -> Texts | None:
    root = result.nodes.iloc[0]
    weight = panel.weight
    if result.root or not int(root[f"total_{result.unit}"]):
        return None
    size = data_size if weight == "bytes" else duration
    words = {
        "gpu": "of GPU work",
        "cpu": "of CPU time",
        "idle": "of idle GPU time",
        "bytes": "allocated in all",
    }
    (own,) = summed(result.nodes, f"own_{result.unit}")
    assert own == int(root[f"total_{result.unit}"])
    return {
        "size": size(own),
        "what": words[weight],
        "rank": str(panel.ranks[0] if panel.ranks else panel.job.ranks[0]),
    }


def annotations(result: Any, _: Panel[Any]) -> Texts | None:
    table = result.annotations
    whole, outside = summed(result.ranks, "gpu_ns", "outside_annotations_ns")
    if table.empty or not table["gpu_ns"].any():
        return None
    name, most = largest(table, "annotation", "gpu_ns")
    calls = int(table.loc[table["annotation"] == name, "calls"].sum())
    return {
        "whole": duration(whole),
        "time": duration(most),
        "part": share(most, whole),
        "name": short_name(name, NAME_WIDTH),
        "calls": counted(calls, "call"),
        "outside": share(outside, whole) if outside else None,
    }


def longest_annotation(result: Any, panel: Panel[Any]) -> Texts | None:
    table = result.annotations
    if panel.on != "cpu" or not table["cpu_sum_ns"].any():
        return None
    name, most = largest(table, "annotation", "cpu_sum_ns")
    calls = int(table.loc[table["annotation"] == name, "calls"].sum())
    return {
        "name": short_name(name, NAME_WIDTH),
        "calls": counted(calls, "call"),
        "time": duration(most),
    }


def idle_causes(result: Any, panel: Panel[Any]) -> tuple[Texts, dict[str, int], int]:
    """What both forms begin with, the idle time of each known cause, and the unknown."""
    idle_ns, window = summed(result.devices, "idle_ns", "window_ns")
    has_steps = bool((result.causes["step"] >= 0).any())
    whole = "the analysed time" if has_steps else "the recording"
    texts: Texts = {
        "idle": duration(idle_ns),
        "gpus": f" on {len(result.devices)} GPUs" if len(result.devices) > 1 else None,
        "part": share(idle_ns, window),
        "whole": "the selected time" if panel._time() else whole,
    }
    by_cause = result.causes.groupby("cause", observed=True)["idle_ns"].sum()
    known = {str(cause): int(ns) for cause, ns in by_cause.items() if ns}
    unknown = known.pop("launch_not_recorded", 0)
    return texts, known, unknown


def idle_owner(result: Any, panel: Panel[Any]) -> Texts | None:
    texts, known, unknown = idle_causes(result, panel)
    idle_ns = sum(known.values()) + unknown
    if not known or unknown > sum(known.values()):
        return None
    cause = next(each for each in IDLE_CAUSES if each.name == max(known, key=lambda x: known[x]))
    texts["said"] = cause.phrase.format(share(known[cause.name], idle_ns))
    owners = result.owners
    of_cause = owners[(owners["cause"] == cause.name) & (owners["path"] >= 0)]
    if cause.share is not Share.GPU and of_cause["idle_ns"].any():
        owner, most = largest(of_cause, "owner", "idle_ns")
        texts |= {"owner": short_name(owner, NAME_WIDTH), "time": duration(most)}
    if unknown >= 0.1 * idle_ns:
        texts["unknown"] = share(unknown, idle_ns)
    lines = owners_by_line(owners, result.paths)
    lines = lines[lines["line"] != ""]
    line, most = largest(lines, "line", "idle_ns") if len(lines) else ("", 0)
    if most and most >= 0.05 * idle_ns:
        texts |= {"line": short_name(line, NAME_WIDTH), "line_time": duration(most)}
    return texts


def unknown_owner(result: Any, panel: Panel[Any]) -> Texts | None:
    texts, known, unknown = idle_causes(result, panel)
    if known and unknown <= sum(known.values()):
        return None
    return texts | {"unknown": share(unknown, unknown + sum(known.values()))}


def no_idle_time(result: Any, _: Panel[Any]) -> bool:
    idle_ns, window = summed(result.devices, "idle_ns", "window_ns")
    return idle_ns == 0 or idle_ns < 0.03 * window


# Collectives, launches, copies, memory.


def waiting(result: Any, _: Panel[Any]) -> Texts | None:
    split = result.kernels[result.kernels["wait_ns"].notna()]
    total, split_ns = (int(each["duration_ns"].sum()) for each in (result.kernels, split))
    if not split_ns:
        return None
    transfer = int(split["transfer_ns"].sum())
    return {
        "waiting": share(split_ns - transfer, split_ns),
        "split": duration(split_ns),
        "transfer": percent(100 - 100 * (split_ns - transfer) / split_ns),
        "matched": share(split_ns, total) if split_ns != total else None,
    }


def unsplit(result: Any, _: Panel[Any]) -> Texts | None:
    if result.kernels.empty or result.kernels["wait_ns"].notna().any():
        return None
    return {"total": duration(*summed(result.kernels, "duration_ns"))}


def roofline(result: Any, _: Panel[Any]) -> Texts | None:
    devices, rest = result.devices, result.uncounted
    kernel, flop, flop_ns, uncounted = (
        *summed(devices, "kernel_ns", "flop", "flop_ns"),
        *summed(rest, "gpu_ns"),
    )
    if not flop_ns:
        return None
    assert flop == int(result.operators["flop"].sum())
    texts: Texts = {"rate": number(flop / flop_ns / 1000), "part": share(flop_ns, kernel)}
    is_said = uncounted and 100 * uncounted >= 3 * kernel
    if is_said:
        reason, most = largest(rest, "reason", "gpu_ns")
        texts |= {
            "uncounted": share(uncounted, kernel),
            "most": share(most, kernel),
            "reason": reason,
        }
        mine = rest[(rest["reason"] == reason) & (rest["operator"] != "")]
        if len(mine):
            by_operator = mine.groupby("operator")["gpu_ns"].sum()
            texts["operator"] = short_name(str(by_operator.idxmax()), NAME_WIDTH)
    if devices["mfu_percent"].notna().all():
        weighted = (devices["mfu_percent"] * devices["window_ns"]).sum()
        names = sorted(set(devices["name"]))
        texts["mfu"] = ("at least " if is_said else "") + percent(
            weighted / devices["window_ns"].sum()
        )
        texts["peak"] = f"the peak of {names[0]}" if len(names) == 1 else "the peaks of the devices"
    return texts


def launches(result: Any, _: Panel[Any]) -> Texts | None:
    ranks = result.ranks
    calls, operations, short, long, late, free = summed(
        ranks,
        *("calls", "operations", "short_kernels", "runtime_outliers"),
        *("launch_delay_outliers", "free_stream_outliers"),
    )
    if not operations:
        return None
    run, delay = (duration(ns) for ns in (result.runtime_cutoff_ns, result.launch_delay_cutoff_ns))
    part = f" ({share(short, calls - long)})" if short else ""
    if long == calls:
        of_calls = f"{'It' if calls == 1 else 'All of them'} took more than {run}."
    elif long:
        others = f"{short:,} of the others" if short else "none of the others"
        of_calls = (
            f"{counted(long, 'call')} took more than {run}; {others}{part} took longer than the "
            "work launched."
        )
    else:
        of_calls = (
            f"{f'{short:,}' if short else 'None'}{part} took longer than the work launched, and "
            f"none took more than {run}."
        )
    of_delays = f"No work started more than {delay} after its call."
    if late:
        why = f", {free:,} of them although the stream was free, the others behind earlier work."
        why = ", although its stream was free." if free == late else why
        why = ", behind earlier work of its stream: the CPU runs ahead." if not free else why
        of_delays = (
            f"The work of {counted(late, 'call')} ({share(late, calls)}) started more than {delay} "
            f"after the call{why}"
        )
    where = f"rank {ranks['rank'].iloc[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks"
    return {
        "where": where,
        "calls": counted(calls, "call"),
        "operations": counted(operations, "operation"),
        "said": f"{of_calls} {of_delays}",
    }


def tails(result: Any, panel: Panel[Any]) -> Texts | None:
    sides = {"device": "device", "host": "host"}
    table = result.categories[result.categories["rank"] == "all"].set_index("category")
    side = getattr(panel, "side", "all")
    shown = [name for name in table.index if side not in sides or table["side"][name] == side]
    rows = result.tails[
        (result.tails["rank"] == "all")
        & (result.tails["percent"] == result.percent)
        & result.tails["category"].isin(shown)
    ].dropna(subset=["share_percent"])
    if rows.empty:
        return None
    most = rows.loc[rows["share_percent"].astype(float).idxmax()]
    of = table.loc[most["category"]]
    nouns = {
        "kernel": "kernels",
        "memcpy": "copies",
        "memset": "memsets",
        "graph": "CUDA graphs",
        "runtime": "runtime API calls",
        "driver": "driver API calls",
    }
    return {
        "share": percent(result.percent),
        "category": nouns[most["category"]],
        "k": f"{most['k']:,}",
        "count": f"{of['count']:,}",
        "part": percent(float(most["share_percent"])),
        "mean": duration(most["mean_ns"]),
        "longest": duration(of["max_ns"]),
    }


def hidden_launches(result: Any, _: Panel[Any]) -> Texts | None:
    ranks = result.ranks
    count, over, call, exposed = summed(
        ranks, "launches", "overlapping", "call_time_ns", "exposed_ns"
    )
    if not count:
        return None
    least, most = (duration(ns) for ns in (ranks["exposed_ns"].min(), ranks["exposed_ns"].max()))
    return {
        "where": f"rank {ranks['rank'].iloc[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks",
        "over": share(over, count),
        "count": counted(count, "launch", "launches"),
        "exposed": share(exposed, call) if call else None,
        "exposed_time": duration(exposed) if call else None,
        "call": duration(call) if call else None,
        "least": least if least != most else None,
        "most": most if least != most else None,
    }


def queues(result: Any, _: Panel[Any]) -> Texts | None:
    streams = result.streams
    if streams.empty:
        return None
    waited = (streams["mean_over_time"].fillna(0) * streams["observed_ns"]).to_numpy()
    row = streams.iloc[int(waited.argmax())]
    full, observed = int(row["full_ns"]), int(row["observed_ns"])
    return {
        "stream": str(int(row["stream"])),
        "rank": str(int(row["rank"])),
        "mean": counted(row["mean_over_time"], "operation"),
        "most": f"{row['max']:,.0f}",
        "empty": share(row["empty_ns"], observed) if observed else "0 %",
        "full": share(full, observed) if full else None,
        "full_time": duration(full) if full else None,
        "calls": counted(row["blocked_calls"], "launch call") if full else None,
        "blocked": duration(row["blocked_ns"]) if full else None,
    }


def transfers(result: Any, _: Panel[Any]) -> Texts | None:
    table = result.transfers
    (moved,) = summed(table, "bytes")
    if not moved:
        return None
    sums = table.groupby("name")[["busy_ns", "bytes"]].sum().sort_values(["busy_ns", "bytes"])
    name, busy, size = sums.index[-1], int(sums["busy_ns"].iloc[-1]), int(sums["bytes"].iloc[-1])
    alone = len(sums) == 1
    return {
        "count": counted(*summed(table, "operations"), "copy or memset", "copies and memsets"),
        "only": str(name) if alone else None,
        "moved": data_size(moved),
        "only_time": duration(busy) if alone else None,
        "name": None if alone else str(name),
        "time": None if alone else duration(busy),
        "share": None if alone or not size else share(size, moved),
    }


def unsized(result: Any, _: Panel[Any]) -> Texts | None:
    count, moved = summed(result.transfers, "operations", "bytes")
    if not count or moved:
        return None
    return {"count": counted(count, "copy or memset", "copies and memsets")}


MEMORY_NOUNS: Final = {
    "temporary": "is freed by the operator that allocated it",
    "activation": "are activations",
    "gradient": "are gradients",
    "optimizer state": "is optimizer state",
}


def memory(result: Any, _: Panel[Any]) -> Texts | None:
    peak = result.peak
    if peak.empty:
        return None
    table = peak[peak["device_type"] != "CPU"] if (peak["device_type"] != "CPU").any() else peak
    top = table.loc[table["bytes"].idxmax()]
    alive = of_device(result.alive_at_peak, top)
    assert int(alive["bytes"].sum()) == int(top["bytes"])
    sums = alive.groupby("category")["bytes"].sum()
    named = sums[[name for name in MEMORY_NOUNS if name in sums.index]]
    owners = alive[alive["caller"] != ""].groupby("caller")["bytes"].sum()
    texts: Texts = {
        "device": device_in_words(top, peak),
        "peak": data_size(int(top["bytes"])),
        "reserved": data_size(int(top["reserved_bytes"])) if top["reserved_bytes"] > 0 else None,
    }
    if len(named) and named.max() >= 0.1 * top["bytes"]:
        texts["category"] = share(named.max(), top["bytes"])
        texts["noun"] = MEMORY_NOUNS[str(named.idxmax())]
    if len(owners) and owners.max() >= 0.1 * top["bytes"]:
        texts["owned"] = data_size(int(owners.max()))
        texts["owner"] = short_name(str(owners.idxmax()), NAME_WIDTH)
    return texts | growing(result)


def growing(result: Any) -> Texts:
    """What grows in every step by more than a thousandth, and a megabyte."""
    worst: tuple[int, pd.DataFrame] | None = None
    for _, steps in result.steps.groupby(["rank", "device_type", "device"], sort=False):
        ends = steps["allocated_at_end_bytes"].tolist()
        grows = [now - was > max(1_000_000, 0.001 * was) for was, now in pairwise(ends)]
        if len(ends) >= 4 and all(grows) and (worst is None or ends[-1] - ends[0] > worst[0]):
            worst = ends[-1] - ends[0], steps
    if worst is None:
        return {}
    grown, steps = worst
    texts: Texts = {
        "leaking": device_in_words(steps.iloc[0], result.peak),
        "steps": counted(len(steps), "step"),
        "growth": data_size(grown / (len(steps) - 1)),
    }
    staying = of_device(result.survivors, steps.iloc[0])
    if len(staying) and staying["caller"].iloc[0]:
        first = staying.iloc[0]
        module = f" in {short_name(first['module'], NAME_WIDTH)}" if first["module"] else ""
        texts["keeper"] = short_name(first["caller"], NAME_WIDTH) + module
        texts["kept"] = data_size(first["bytes"])
    return texts


def of_device(table: pd.DataFrame, row: Any) -> pd.DataFrame:
    keys = ["rank", "device_type", "device"]
    return table[(table[keys] == [row[key] for key in keys]).all(axis=1)]


def device_in_words(row: Any, peak: pd.DataFrame) -> str:
    of_rank = f" of rank {row['rank']}" if peak["rank"].nunique() > 1 else ""
    if row["device_type"] == "CPU":
        return f"the CPU{of_rank}"
    kind = f"{row['device_type']} device" if row["device_type"].startswith("type") else "GPU"
    return f"{kind} {row['device']}{of_rank}"


def sequences(result: Any, _: Panel[Any]) -> Texts | None:
    patterns = result.patterns
    if patterns.empty:
        return None
    top = patterns.iloc[0]
    of_top = result.occurrences[result.occurrences["pattern"] == 0]
    assert len(of_top) == top["count"]
    several = len(patterns) > 1
    return {
        "count": counted(len(result.every.pattern), "occurrence"),
        "name": result.operator_name,
        "rank": str(result.rank),
        "different": f"{len(patterns):,}" if several else None,
        "often": "once" if top["count"] == 1 else f"{top['count']:,} times",
        "gpu": duration(of_top["gpu_time_ns"].sum()),
        "cpu": duration(of_top["cpu_time_ns"].sum()),
    }


def counters(result: Any, panel: Panel[Any]) -> Texts | None:
    table = result.ranges
    top = table["top_level_op"].dropna()
    if top.nunique() < 2:
        return None
    by_operator = top.value_counts()
    ranks = panel.job.select_ranks(panel.ranks or None)
    return {
        "counters": counted(len(result.counters), "counter"),
        "kernels": counted(len(table), "kernel"),
        "ranks": f"rank{'s' * (len(ranks) > 1)} {number_ranges(ranks)}",
        "operators": f"{len(by_operator):,}",
        "matched": f"{len(top):,}",
        "top": str(by_operator.index[0]),
        "most": f"{by_operator.iloc[0]:,}",
    }


def coverage(result: Any, _: Panel[Any]) -> Texts | None:
    table = result.coverage
    (whole,) = summed(table, "period_ns")
    if not whole:
        return None
    labels = {f"{each.name}_ns": each.label for each in BUDGET}
    sums = {name: int(table[name].sum()) for name in labels}
    assert sum(sums.values()) == whole
    compute = sums.pop("compute_ns")
    most = max(sums, key=lambda name: sums[name])
    has_steps = bool((result.steps["step"] >= 0).any())
    texts: Texts = {
        "compute": share(compute, whole),
        "whole": "the steps" if has_steps else "the GPU span",
        "ranks": counted(len(table), "rank"),
    }
    if sums[most]:
        texts |= {
            "label": labels[most],
            "rest": share(sums[most], whole),
            "mean": duration(sums[most] / len(table)),
        }
    return texts


NOTHING_HERE: Final = "on the selected ranks"
NO_COMMUNICATION: Final = (
    "No communication kernels were recognised on the selected ranks[[<_time> selected time]]. If "
    "there are any, add a rule: kernel_rules={'COMMUNICATION': ['part_of_the_name']}."
)

FORMS: Final[dict[str, list[Form]]] = {
    "temporal_breakdown": [
        (
            "No GPU work was recorded on the selected ranks[[<_time> selected time]].",
            plain(lambda found, _: not found.ranks["kernel_time_ns"].any()),
        ),
        (
            "The <who> idle <idle> of <whole> (<idle_time> of <span>), computing <computing>"
            "[[, in CUDA graphs of unknown content <graph>]]"
            "[[, communicating (not hidden) <communicating>]][[, copying <copying>]]"
            "[[, in other work <other>]][[; the idle share ranges from <least> (rank <least_rank>) "
            f"to <most> (rank <most_rank>)]].{OVER_STEPS}",
            temporal,
        ),
    ],
    "idle_time": [
        ("", plain(lambda found, panel: not is_idle(found) and not over_steps(panel))),
        (
            f"No GPU work was recorded {NOTHING_HERE}.",
            plain(lambda found, _: found.device_split.empty),
        ),
        (
            f"The <who> idle <idle> of <whole> (<idle_time> of <span>)[[: <parts>]].{OVER_STEPS}",
            idle,
        ),
    ],
    "kernel_breakdown": [
        (
            "No kernels were recorded on the selected ranks[[<_time> selected time]].",
            plain(lambda found, _: found.every_kernel.empty),
        ),
        (
            "<type> <busy> of the busy time. [[The top <_noun>, ]]<kernel>[[ (<kind>),]] takes "
            "<part> of the <whole>: <time> in <launches>.[[ The busy time is <of_span> of the GPU "
            "span (<span>), but <of_steps> of the analysed time (<steps>).]]",
            kernels,
        ),
    ],
    "overlap": [
        (
            "No kernels were recorded on the selected ranks[[<_time> selected time]].",
            plain(lambda found, _: not found.ranks["computation_time_ns"].any()),
        ),
        (
            NO_COMMUNICATION,
            plain(lambda found, _: not found.ranks["communication_time_ns"].any()),
        ),
        (
            "No communication kernels were recognised on the selected ranks[[<_time> selected "
            "time]]. Whether the CUDA graphs that were recorded as a whole (<graphs>) communicate "
            "is not known.",
            lambda found, _: {"graphs": duration(*summed(found.ranks, "cuda_graph_time_ns"))},
        ),
        (
            "<where>, <exposed> of the communication time is not hidden (<exposed_time> of "
            "<total>)[[ and <beside> runs beside CUDA graphs of unknown content (<beside_time>)]]"
            "[[, <least> to <most> on each]].[[ Whether the CUDA graphs that were recorded as a "
            "whole (<graphs>) communicate is not known.]]",
            overlapping,
        ),
    ],
    "rank_overlap": [
        (f"No kernels {NOTHING_HERE}.", plain(lambda found, _: lanes_of(found).empty)),
        ("R<lanes>[[ (two <few> are too few to compare with their median)]].", lane_by_lane),
        (
            "None of <count> ranks is far from the median: only computing <compute>, only "
            "communicating <alone>, [[CUDA graphs of unknown content <graph>, ]]both <both> and no "
            "kernel <empty> of the time.",
            usual_lanes,
        ),
        (
            "<_who>: <_what> takes <value> of its span, <direction> than the median of <median>"
            "[[, and it<_less>]].",
            far_lane,
        ),
    ],
    "idle_owners": [
        ("", plain(no_idle_time)),
        (f"No GPU work was recorded {NOTHING_HERE}.", plain(lambda found, _: found.devices.empty)),
        (
            "Of <idle> idle[[<gpus>]] (<part> of <whole>), the cause of <unknown> is unknown: the "
            "launch of the next work is not in the trace.",
            unknown_owner,
        ),
        (
            "Of <idle> idle[[<gpus>]] (<part> of <whole>), <said>[[, most in <owner> (<time>)]]"
            "[[; <unknown> is of unknown cause (launch not recorded)]]"
            "[[; the line of Python with the most is <line> (<line_time>)]].",
            idle_owner,
        ),
    ],
    "collectives": [
        (NO_COMMUNICATION, plain(lambda found, _: found.kernels.empty)),
        (
            "<total> of communication on the selected ranks; waiting and transfer cannot be told "
            "apart, because no collective was matched with another rank.",
            unsplit,
        ),
        (
            "<waiting> of the <split> in collectives is waiting for ranks that arrive later, "
            "<transfer> is transfer[[ (<matched> of the communication was matched)]].",
            waiting,
        ),
    ],
    "operators": [
        ("", plain(lambda found, _: not found.rows[["gpu_self_ns", "cpu_self_ns"]].any(axis=None))),
        (
            "No operators or launch calls were recorded on the selected ranks"
            "[[<_time> selected time]].",
            plain(lambda found, _: found.rows.empty),
        ),
        ("Of <whole> of <device> time, <said>.", operators),
    ],
    "modules": [
        (
            "",
            plain(lambda found, _: found.modules.empty or not found.modules["gpu_self_ns"].any()),
        ),
        (
            "<part> of the GPU time belongs to <name> itself (<time>[[ in <paths>]])[[; <outside> "
            "runs outside of every <noun>]][[; of <unknown> the launch is not recorded]].",
            modules,
        ),
    ],
    "flame": [
        ("", plain(lambda found, _: not found.total_ns and not found.total_bytes)),
        ("<size> <what> on rank <rank>.", flame),
    ],
    "gpu_annotations": [
        ("", plain(lambda found, _: not found.annotations["gpu_ns"].any())),
        (
            "No user annotations were recorded on the selected ranks[[<_time> selected time]].",
            plain(lambda found, _: found.annotations.empty),
        ),
        (
            "Of <whole> of GPU time, <time> (<part>) is launched in <name> (<calls>)"
            "[[; <outside> is launched outside user annotations]].",
            annotations,
        ),
        (
            "The longest user annotation is <name> (<calls>): <time> on the CPU.",
            longest_annotation,
        ),
    ],
    "roofline": [
        (
            f"No kernels were recorded {NOTHING_HERE}.",
            plain(lambda found, _: not found.devices["kernel_ns"].any()),
        ),
        (
            "No products, convolutions or attention with recorded shapes ran on the selected ranks"
            "[[ (<_option> records them)]].",
            plain(lambda found, _: not found.devices["flop_ns"].any()),
        ),
        (
            "Products, convolutions and attention reach <rate> TFLOP/s in <part> of the kernel time"
            "[[; the MFU over the whole time is <mfu> of <peak>]]."
            "[[ <uncounted> of the kernel time is not counted: <most> for “<reason>”"
            "[[, most of it <operator>]].]]",
            roofline,
        ),
    ],
    "launch_stats": [
        (
            f"No launches of GPU work were recorded {NOTHING_HERE}.",
            plain(lambda found, _: not found.ranks["operations"].any()),
        ),
        ("On <where>, <calls> launched <operations>. <said>", launches),
    ],
    "duration_tails": [
        (
            f"No <_events> were recorded {NOTHING_HERE}.",
            plain(lambda found, _: found.categories.empty),
        ),
        (
            "No category has the <_count> needed for <_share> to be at least one event.",
            plain(lambda found, panel: tails(found, panel) is None),
        ),
        (
            "The longest <share> of the <category> (<k> of <count>) took <part> of their time, "
            "<mean> on average and <longest> at most.",
            tails,
        ),
    ],
    "launch_overlap": [
        (
            f"No kernel launches were recorded {NOTHING_HERE}.",
            plain(lambda found, _: not found.ranks["launches"].any()),
        ),
        (
            "On <where>, <over> of <count> started before an earlier kernel had ended"
            "[[; <exposed> of the launch time was not hidden behind a kernel (<exposed_time> of "
            "<call>)]][[, <least> to <most> on each rank]].",
            hidden_launches,
        ),
    ],
    "queue_length": [
        (
            f"No GPU work was recorded {NOTHING_HERE}.",
            plain(lambda found, _: found.streams.empty),
        ),
        (
            f"No GPU operation {NOTHING_HERE} has its launch in the trace.",
            plain(lambda found, _: found.streams.empty),
        ),
        (
            "Stream <stream> of rank <rank> has the longest queue: <mean> on average over time, "
            "<most> at most. The queue is empty <empty> of the time and [[never full]][[full <full> "
            "(<full_time>): <calls> had to wait, <blocked> in all]].",
            queues,
        ),
    ],
    "memory_bandwidth": [
        (
            f"No copies or memsets were recorded {NOTHING_HERE}.",
            plain(lambda found, _: found.transfers.empty),
        ),
        ("The trace has <count> but no transfer sizes.", unsized),
        (
            "<count>[[ (<only>)]] moved <moved>[[ in <only_time>]][[. <name> took the most time "
            "(<time>)[[, for <share> of the data]]]][[<_rest>]].",
            transfers,
        ),
    ],
    "memory_use": [
        ("No memory events were recorded<_how>.", plain(lambda found, _: found.peak.empty)),
        (
            "The memory of <device> peaks at <peak>[[ of <reserved> reserved]][[:]]"
            "[[ <_before> was allocated before the recording]][[;]]"
            "[[ <category> [[<noun>]]]][[;]][[ <owned> was allocated by <owner>]]."
            "[[ What is allocated on <leaking> grows in each of <steps>, by <growth> a step"
            "[[; most of what stays was allocated by <keeper> (<kept>)]].]]",
            memory,
        ),
    ],
    "kernel_sequences": [
        (
            "No call on rank <_rank> matches '<_name>'[[; similar names: <_names>]].",
            plain(lambda found, _: found.patterns.empty),
        ),
        (
            "The <_count> of <_name> on rank <_rank> launched no sequence of at least <_least>.",
            plain(lambda found, _: found.patterns.empty),
        ),
        (
            "The <count> of <name> on rank <rank> launched [[1 sequence]][[<different> different "
            "sequences; the most frequent one]], <_sequence>,[[ which]] occurs <often> and takes "
            "<gpu> of GPU time and <cpu> of CPU time.",
            sequences,
        ),
    ],
    "cupti_counters": [
        (
            "The trace of <_ranks> has no performance counters<_how>.",
            plain(lambda found, _: found.ranges.empty),
        ),
        ("No measured kernel was launched<_when>.", plain(lambda found, _: found.ranges.empty)),
        (
            "The profiler measured <counters> for <kernels> on <ranks>[[; <operators> top-level "
            "operators launched <matched> of these, most of all <top> (<most>)]].",
            counters,
        ),
    ],
    "timeline": [
        (
            f"No GPU work was recorded {NOTHING_HERE}.",
            plain(lambda found, _: not found.coverage["period_ns"].any()),
        ),
        (
            "The GPUs compute <compute> of <whole> of <ranks>[[; most of the rest is <label>: "
            "<rest>, <mean> a rank]].",
            coverage,
        ),
    ],
    "ranks": [("", plain(lambda *_: True))],
    "steps": [("", plain(lambda *_: True))],
}
"""The forms of the sentence of each panel of a dashboard."""


# What a diagnosis says.

COST: Final = (
    "[[: [[at least ]]<price> of [[each <period> step]][[the <span> GPU span]] (<percent>)]]."
)
STEPS: Final = "[[ in <_steps>]]"


def explain_finding(found: Finding, whole: Diagnosis) -> str:
    """Say what is wrong with the sentence of a finding, or nothing."""
    forms = FORMS_OF_CAUSES.get(found.cause, [])
    return checked(forms, found.cause, found.sentence, found, whole)


def cost_of(found: Finding, whole: Diagnosis) -> Texts:
    if not found.recoverable_ms > 0:
        return {}
    length = duration(whole.period_ns)
    has_steps = bool((whole.steps["step"] >= 0).any())
    return {
        "price": duration(found.recoverable_ms * NS_PER_MS),
        "period": length if has_steps else None,
        "span": None if has_steps else length,
        "percent": share(found.recoverable_ms * NS_PER_MS, whole.period_ns),
    }


def launching(found: Finding, whole: Diagnosis) -> Texts:
    table = found.evidence["launching"]
    worst = table.loc[table["idle_ms"].idxmax()]
    texts = {
        "kernels": counted(worst["kernels_per_step"], "kernel"),
        "median": duration(worst["median_kernel_us"] * NS_PER_US),
    }
    mine = whole.steps[whole.steps["rank"] == worst["rank"]]
    assert {*mine["step"]} > {*found.steps} or mine["kernels"].mean() == worst["kernels_per_step"]
    if not worst["region"]:
        texts["call"] = duration(worst["median_launch_us"] * NS_PER_US)
        return texts | cost_of(found, whole)
    texts["part"] = percent(worst["region_percent"])
    texts["region"] = short_name(worst["region"], RULE_WIDTH)
    if worst["region_kernels_per_step"]:
        texts["of_region"] = counted(worst["region_kernels_per_step"], "kernel")
        texts["each"] = duration(worst["region_median_kernel_us"] * NS_PER_US)
    return texts | cost_of(found, whole)


def initialising(found: Finding, whole: Diagnosis) -> Texts:
    calls = found.evidence["calls"]
    owner = calls["owner"].iloc[0] if len(calls) else ""
    return {"owner": owner or None} | cost_of(found, whole)


def pausing(found: Finding, whole: Diagnosis) -> Texts:
    pauses = found.evidence["pauses"]
    longest = pauses.loc[pauses["idle_ms"].idxmax()]
    before, after = longest["operator_before"], longest["operator_after"]
    texts = {"longest": duration(longest["idle_ms"] * NS_PER_MS)}
    if before and after:
        texts |= {"from": short_name(before, 30), "to": short_name(after, 30)}
    elif after:
        texts["before"] = short_name(after, 30)
    return texts | cost_of(found, whole)


def loading(found: Finding, whole: Diagnosis) -> Texts:
    longest_ms = found.evidence["longest_wait_ms"]
    assert longest_ms == found.evidence["steps"]["idle_ms"].max()
    return {"longest": duration(longest_ms * NS_PER_MS)} | cost_of(found, whole)


def without_tensor_cores(found: Finding, whole: Diagnosis) -> Texts:
    return {"part": percent(found.evidence["share_percent"])} | cost_of(found, whole)


def chained(found: Finding, whole: Diagnosis) -> Texts:
    return {
        "part": percent(found.evidence["share_percent"]),
        "longest": str(found.evidence["chains"]["kernels"].max()),
    } | cost_of(found, whole)


def unfused(found: Finding, whole: Diagnosis) -> Texts:
    table, steps = found.evidence["attention"], whole.steps
    count = steps["step"].nunique()
    return {
        "time": duration(table[["products_ms", "others_ms"]].sum(axis=None) * NS_PER_MS / count),
        "computing": duration(steps[steps["rank"].isin(found.ranks)]["compute_ns"].mean()),
    } | cost_of(found, whole)


def slow_gpu(found: Finding, whole: Diagnosis) -> Texts:
    ratios = found.evidence["factor_by_rank_and_step"]
    mine = ratios[ratios["rank"].isin(found.ranks)]["factor"]
    factor = found.evidence["factor"]
    assert mine.min() <= factor <= mine.max()
    return {
        "who": f"Rank{'s' * (len(found.ranks) > 1)} {number_ranges(found.ranks)}",
        "factor": number(factor),
    } | cost_of(found, whole)


def copying(found: Finding, whole: Diagnosis) -> Texts:
    table = found.evidence["copies"]
    most = table.loc[table["exposed_ms"].idxmax()]
    size, count = most["size_mb"] * 1e6, whole.steps["step"].nunique()
    return {
        "size": data_size(size / count),
        "speed": number(size / (most["duration_ms"] * NS_PER_MS)),
        "name": short_name(most["name"], RULE_WIDTH),
    } | cost_of(found, whole)


FORMS_OF_CAUSES: Final[dict[str, list[Form]]] = {
    "launch_bound": [
        (
            f"<_who> launch[[es]] <kernels>[[ per step]] (median <median>) too slowly{STEPS}"
            "[[, <part> of it in <region>[[ (<of_region> of <each>)]]]][[, <call> a launch call]]"
            f"{COST}",
            launching,
        )
    ],
    "warm_up": [
        (
            "<_who> initialise[[s]] while the GPU is idle (contexts, modules, first allocations"
            f"[[, <owner> most]]){COST}",
            initialising,
        )
    ],
    "host_pause": [
        (
            f"<_who> launch[[es]] nothing for up to <longest>{STEPS}"
            f"[[, between <from> and <to>]][[, before <before>]][[<_where>]]{COST}",
            pausing,
        )
    ],
    "input_starvation": [
        (
            f"<_who> load[[s]] data{STEPS} while the GPU is idle, up to <longest>[[, <_where>]]"
            f"{COST}",
            loading,
        )
    ],
    "no_tensor_cores": [
        (
            "<part> of the time in matrix products[[ on <_ranks>]] is in <_kernels> that use no "
            f"tensor cores[[ for <_uneven>]][[, <_where>]]{COST}",
            without_tensor_cores,
        )
    ],
    "unfused_elementwise": [
        (
            "<part> of the computing time[[ on <_ranks>]] is in elementwise kernels, in chains of "
            f"up to <longest>; fusing them would save time{COST}",
            chained,
        ),
        (
            "Unfused attention (bmm + softmax + bmm) takes <time> of <computing> computing"
            "[[ per step]][[ on <_ranks>]][[, <_where>]]; a fused kernel[[ and fused elementwise "
            f"chains]] would save time{COST}",
            unfused,
        ),
    ],
    "slow_gpu": [
        (
            "<who> compute[[s]] <factor> times as long as the median[[ in <_steps>]] with the same "
            f"work[[; <_others>]]{COST}",
            slow_gpu,
        )
    ],
    "slow_host_copies": [
        (
            "<_who> cop<_ies> <size>[[ per step]] at <speed> GB/s (<name>)[[ in <_steps>]] with no "
            f"kernel beside[[, <_where>]]{COST}",
            copying,
        )
    ],
}
"""The forms of the sentence of each cause that occurs in the jobs."""


def no_finding(_: object, whole: Diagnosis) -> Texts | None:
    if len(whole) or whole.cpu_work is not None:
        return None
    texts: Texts = {"causes": str(len(CAUSES))}
    computing, period = summed(whole.steps, "compute_ns", "period_ns")
    if computing >= 0.9 * period:
        kernels = kernel_breakdown(whole.job, whole.ranks).every_kernel
        kernels = kernels[kernels["kernel_type"] == "COMPUTATION"]
        name, most = largest(kernels, "name", "sum_ns")
        has_steps = bool((whole.steps["step"] >= 0).any())
        texts["time"] = "each step" if has_steps else "the GPU span"
        texts["computing"] = share(computing, period)
        texts["kernel"] = short_name(name)
        texts["of_kernel"] = share(most, kernels["sum_ns"].sum())
    return texts


def on_the_cpu(_: object, whole: Diagnosis) -> Texts | None:
    work = whole.cpu_work
    if work is None or not work.operators:
        return None
    own_ns, calls = work.operators[0][1:]
    return {
        "whole": duration(work.operators_ns),
        "name": short_name(work.operators[0][0], NAME_WIDTH),
        "time": duration(own_ns),
        "part": share(own_ns, work.operators_ns),
        "calls": counted(calls, "call"),
    }


VERDICTS: Final[list[Form]] = [
    (
        "No cause found that costs more than its limit (3 to 15 % of a step, by cause); looked for "
        "<causes>[[; <_unseen>]].[[ The GPUs compute <computing> of <time>: only faster kernels "
        "help, most of all <kernel> (<of_kernel>[[, <_peak>]])[[, <_others>]].]]",
        no_finding,
    ),
    (
        "No GPU work was recorded: <_how> Of <whole> of CPU time in operators[[ in <_steps>]], "
        "<name> takes the most: <time> (<part>) in <calls>.[[ <_others>]]",
        on_the_cpu,
    ),
]


def explain_verdict(whole: Diagnosis) -> str:
    """Say what is wrong with the sentence of a diagnosis, or nothing."""
    if len(whole):
        is_first = whole.finding == whole.findings[0].sentence
        return "" if is_first else f"the verdict is not the first finding: {whole.finding!r}"
    return checked(VERDICTS, "diagnosis", whole.finding, None, whole)


OF_DIAGNOSIS: Final = ("diagnosis",)
"""Panels whose sentences are explained by `explain_verdict` and `explain_finding`."""
