"""What the modules of a job mean, in a sentence, and what is not recorded of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import pandas as pd

from hta_widgets.analyses.modules.rank_sums import RankModules
from hta_widgets.analyses.modules.sums_by_node import UNKNOWN
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.nsys.format import NSYS

WORTH_SAYING: Final = 0.01
"""Share of the GPU time from which what is outside of modules is in the sentence."""

NAME_WIDTH: Final = 60

NO_RANGES: Final = (
    "no NVTX ranges were recorded, which stand in for modules (nsys profile --trace=cuda,nvtx "
    "records those that torch.cuda.nvtx.range or torch.autograd.profiler.emit_nvtx makes)"
)

_NUMBER: Final = re.compile(r"(?<=.)_\d+$")


def module_finding(table: pd.DataFrame, outside: pd.DataFrame, source: str) -> str:
    """Sentence on the class of modules that takes most GPU time itself."""
    gpu_ns = int(table["gpu_self_ns"].sum())
    whole_ns = gpu_ns + int(outside["gpu_ns"].sum())
    if table.empty or not gpu_ns:
        return ""
    names = table["name"].str.replace(_NUMBER, "", regex=True)
    by_class = table.groupby(names)["gpu_self_ns"].sum()
    most, most_ns = str(by_class.idxmax()), int(by_class.max())
    paths = table.loc[(names == most) & (table["gpu_self_ns"] > 0), "path"].nunique()
    one, several = ("region", "regions") if source == "regions" else ("module", "modules")
    where = f" in {paths} {several}" if paths > 1 else ""
    own = (
        f"{percent(100 * most_ns / whole_ns)} of the GPU time belongs to "
        f"{short_name(most, NAME_WIDTH)} itself ({duration(most_ns)}{where})"
    )
    unknown = outside["phase"] == UNKNOWN
    unknown_ns, outside_ns = (int(outside.loc[x, "gpu_ns"].sum()) for x in (unknown, ~unknown))
    others = []
    if outside_ns >= WORTH_SAYING * whole_ns:
        others.append(f"{percent(100 * outside_ns / whole_ns)} runs outside of every {one}")
    if unknown_ns >= WORTH_SAYING * whole_ns:
        others.append(f"of {percent(100 * unknown_ns / whole_ns)} the launch is not recorded")
    return "; ".join([own, *others]) + "."


def module_notices(job: Job, each: Sequence[RankModules]) -> list[str]:
    """What is missing of the modules, and how to record it."""
    notices = []
    without = [part for part in each if part.source == "regions" or part.modules.empty]
    may_have = [rank for rank in job.ranks if not job.sources[rank].format.lacks]
    if without and may_have:
        stand_in = any(len(part.modules) for part in without)
        said = "no modules were recorded; with_stack=True records them"
        if any(part.frames_expected for part in without):
            said = (
                "with_stack or with_modules was on, but no nn.Module was called in Python: "
                "TorchScript and compiled code leave no frames of modules"
            )
        regions = "; regions are the annotations of the program" if stand_in else ""
        notices.append(f"{said}{regions}")
    if not may_have and any(part.modules.empty for part in each) and _are_of_nsys(job):
        notices.append(NO_RANGES)
    missing = _missing([part for part in each if len(part.modules)]) if may_have else ""
    notices += [missing] if missing else []
    graphs_ns = sum(part.in_graphs_ns for part in each)
    if graphs_ns:
        notices.append(
            f"{duration(graphs_ns)} run inside CUDA graphs, of which layers are not recorded: they "
            "belong to the module that launches the graph"
        )
    return notices


def _are_of_nsys(job: Job) -> bool:
    return all(job.sources[rank].format is NSYS for rank in job.ranks)


def _missing(each: Sequence[RankModules]) -> str:
    """Why modules have no FLOP or memory, and how to record these; empty if they do."""
    lacks = [
        words
        for words, recorded in (
            (("FLOP", "shapes", "record_shapes=True"), [part.has_shapes for part in each]),
            (("memory", "GPU memory events", "profile_memory=True"), [p.has_memory for p in each]),
        )
        if not all(recorded)
    ]
    if not lacks:
        return ""
    what, fields, options = (" and ".join(words) for words in zip(*lacks, strict=True))
    records = "record them" if len(lacks) > 1 else "records them"
    return f"{what} by module: no {fields} were recorded ({options} {records})"
