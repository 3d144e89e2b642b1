"""Operators, modules and what else time belongs to."""

from __future__ import annotations

from typing import Any

from hta_widgets.analyses.budget.classes import CLASS_LABELS, CLASS_OF
from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.idle_owners.paths import owners_by_line
from hta_widgets.analyses.time.causes import IDLE_CAUSES, Share
from hta_widgets.names.shorten import short_name
from hta_widgets.panels.base.panel import Panel
from hta_widgets.quantities import counted, data_size, duration
from hta_widgets.trace.model.formats import Recorded
from tests.explained.forms import (
    NAME_WIDTH,
    Texts,
    largest,
    share,
    summed,
)


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
    calls = int(of_name["calls"].sum())
    began = f" in {counted(calls, 'call')}" if calls else ""
    said = {
        f"{short_name(name, NAME_WIDTH)}{suffix} takes the most: {duration(own)} "
        f"({share(own, whole)}){began}": own
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
        "noun": noun.replace("region", "annotation") if said["outside"] else None,
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
        "bytes": "allocated in total",
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
        "calls": counted(calls, "call") if calls else None,
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
        "calls": counted(calls, "call") if calls else None,
        "time": duration(most),
    }


def _as_counted(table):
    first = table["initialises"] & (table["cause"] != "compiling")
    return table.assign(
        cause=["initialising" if f else c for f, c in zip(first, table["cause"], strict=True)]
    )


def idle_causes(result: Any, panel: Panel[Any]) -> tuple[Texts, dict[str, int], int]:
    """What both forms begin with, the idle time of each known cause, and the unknown."""
    idle_ns, window = summed(result.devices, "idle_ns", "window_ns")
    each = "ranks" if result.devices["rank"].is_unique else "GPUs"
    every = idle_owners(panel.job, panel.ranks)
    has_steps = bool((every.causes["step"] >= 0).any())
    outside = every.causes[every.causes["class"] == ""]["idle_ns"].sum()
    is_left_out = 0 < outside < every.causes["idle_ns"].sum()
    whole = "the analysed time" if has_steps else "the GPU span"
    texts: Texts = {
        "idle": duration(idle_ns),
        "gpus": f" on {len(result.devices)} {each}" if len(result.devices) > 1 else None,
        "part": share(idle_ns, window),
        "whole": whole if is_left_out or has_steps else "the recording",
    }
    if panel._time():
        texts["whole"] = "the selected time"
    elif is_left_out and outside >= 0.03 * window:
        texts["outside"] = f"{duration(outside)} outside of {'its steps' if has_steps else 'it'}"
    by_cause = _as_counted(result.causes).groupby("cause")["idle_ns"].sum()
    known = {str(cause): int(ns) for cause, ns in by_cause.items() if ns}
    unknown = known.pop("launch_not_recorded", 0)
    return texts, known, unknown


def doubtful_pace(_: Any, panel: Panel[Any]) -> Texts | None:
    health = [panel.job.rank(rank).health for rank in panel.ranks or panel.job.ranks]
    why = {
        "most events were taken out of the traces": any(each.taken_out.left for each in health),
        "the traces are merged from several ranks": any(each.is_merged for each in health),
    }
    return next(({"why": words} for words, holds in why.items() if holds), None)


def doubtful_idle_time(result: Any, panel: Panel[Any]) -> Texts | None:
    why = doubtful_pace(result, panel)
    return why and idle_causes(result, panel)[0] | why


def idle_owner(result: Any, panel: Panel[Any]) -> Texts | None:
    texts, known, unknown = idle_causes(result, panel)
    idle_ns = sum(known.values()) + unknown
    if not known or unknown > sum(known.values()):
        return None
    cause = next(each for each in IDLE_CAUSES if each.name == max(known, key=lambda x: known[x]))
    has_none = panel.job.lacking(panel.ranks, Recorded.OPERATORS)
    is_any_code = cause.name == "host_code" and has_none
    phrase = "the CPU spent {} outside recorded API calls" if is_any_code else cause.phrase
    texts["said"] = phrase.format(share(known[cause.name], idle_ns))
    causes = _as_counted(result.causes)
    classes = causes[causes["cause"] == cause.name]
    counted_as, _ = largest(classes, "class", "idle_ns")
    if counted_as not in ("", CLASS_OF[cause.gap or "gap_op"]):
        texts["class"] = CLASS_LABELS[counted_as]
    owners = _as_counted(result.owners)
    of_cause = owners[(owners["cause"] == cause.name) & (owners["path"] >= 0)]
    if cause.share is not Share.GPU and of_cause["idle_ns"].any():
        owner, most = largest(of_cause, "owner", "idle_ns")
        outside = owners[(owners["cause"] == cause.name) & (owners["path"] < 0)]["idle_ns"].sum()
        if outside > most:
            owner, most = "no recorded call", outside
        whole = owners.loc[owners["cause"] == cause.name, "idle_ns"].sum()
        part = "most" if most > whole - most else "the largest part"
        texts |= {"owner": short_name(owner, NAME_WIDTH), "time": duration(most), "most": part}
    if unknown >= 0.1 * idle_ns:
        texts["unknown"] = share(unknown, idle_ns)
    lines = owners_by_line(owners, result.paths)
    noun, lines = "line of Python with the most", lines[lines["line"] != ""]
    if not lines["idle_ns"].any():
        on_gpu = [each.name for each in IDLE_CAUSES if each.share is Share.GPU]
        lines = owners[(owners["path"] >= 0) & ~owners["cause"].isin(on_gpu)]
        noun = "call in which the CPU spent the most"
        lines = lines.rename(columns={"owner": "line"})
    line, most = largest(lines, "line", "idle_ns") if len(lines) else ("", 0)
    line = short_name(line, NAME_WIDTH)
    if most and most >= 0.05 * idle_ns and line != texts.get("owner"):
        texts |= {"noun": noun, "line": line, "line_time": duration(most)}
    return texts


def unknown_owner(result: Any, panel: Panel[Any]) -> Texts | None:
    texts, known, unknown = idle_causes(result, panel)
    if known and unknown <= sum(known.values()):
        return None
    return texts | {"unknown": share(unknown, unknown + sum(known.values()))}


def no_idle_time(result: Any, _: Panel[Any]) -> bool:
    idle_ns, window = summed(result.devices, "idle_ns", "window_ns")
    return idle_ns == 0 or idle_ns < 0.03 * window
