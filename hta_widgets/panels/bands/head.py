"""What the header and the title of the verdict say of a job."""

from __future__ import annotations

from collections import Counter
from typing import Final

from hta_widgets.analyses.roofline.peaks import devices_of
from hta_widgets.analyses.time.window import window_of
from hta_widgets.diagnosis import Diagnosis
from hta_widgets.diagnosis.budget_table import budget
from hta_widgets.errors import number_ranges
from hta_widgets.names.shorten import cut_in_the_middle
from hta_widgets.quantities import counted, duration
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.rank import Rank

_LONGEST_NAME: Final = 40
_MOST_KINDS: Final = 2


def devices_in_words(job: Job) -> str:
    """How many GPUs of which kind did work, such as ``4 × NVIDIA H100``, and how many ranks."""
    by_rank = job.reduce(gpu_names, job.ranks).values()
    kinds = Counter(name for names in by_rank for name in names)
    if not kinds:
        return counted(len(job.ranks), "rank")
    said = ", ".join(f"{count} × {kind}" for kind, count in kinds.most_common())
    if "" in kinds or len(kinds) > _MOST_KINDS:
        said = counted(kinds.total(), "GPU")
    return said if kinds.total() == len(job.ranks) else f"{counted(len(job.ranks), 'rank')}, {said}"


def gpu_names(rank: Rank) -> tuple[str, ...]:
    """Name of each GPU on which the rank did work; an empty text where it is not recorded."""
    known = devices_of(rank.trace.metadata)
    return tuple(
        cut_in_the_middle(known[device].name, _LONGEST_NAME) for device in rank.gpu_work.devices
    )


def facts(job: Job, found: Diagnosis) -> list[str]:
    """Devices, analysed steps, and the time of one."""
    said = [devices_in_words(job)]
    steps = found.steps["step"].unique().tolist()
    has_steps = bool(steps) and steps != [-1]
    if has_steps:
        said.append(f"{'steps' if len(steps) > 1 else 'step'} {number_ranges(steps)}")
    if found.cpu_work is not None:
        analysed_ns = job.reduce(_analysed_ns, found.ranks).values()
        said += ["no GPU work", f"{duration(sum(analysed_ns) / len(found.ranks))} analysed"]
    if found.period_ns > 0:
        time = duration(found.period_ns)
        said.append(f"{time} per step" if has_steps else f"GPU span of {time}")
    return said


def _analysed_ns(rank: Rank) -> int:
    window = window_of(rank)
    return window.end_ns - window.start_ns


def verdict(found: Diagnosis) -> str:
    """How much of a step computes nothing; empty where that is not known."""
    if found.steps.empty:
        return ""
    table = budget(found.steps)
    whole_ns = float(table["period_ns"].mean())
    idle_ns = whole_ns - float(table["compute_ns"].mean())
    what = "per step" if (table["step"] >= 0).any() else "of the GPU span"
    return f"no computation in {duration(idle_ns)} of {duration(whole_ns)} {what}"
