"""How long a step would be if host, communication, ranks, kernels or data were different."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.tensor_cores import ATTENTION, ELEMENTWISE, is_product
from hta_widgets.diagnosis.rank_answers import replay
from hta_widgets.diagnosis.replay.binding import Solution
from hta_widgets.diagnosis.replay.critical_path import CriticalPath, bound_by
from hta_widgets.diagnosis.replay.edits import (
    CommunicationHidden,
    Edit,
    EqualWork,
    HostSpeed,
    KernelsFaster,
    WithoutHostWork,
    applied,
)
from hta_widgets.diagnosis.replay.replay import Replay, WhatIf
from hta_widgets.errors import ParameterError
from hta_widgets.quantities import NS_PER_MS, duration, percent, signed
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.events import Fits
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.facts import has_gpu_work

AS_RECORDED = 100.0
"""In percent of what is recorded."""

NOTHING_RAN = "No GPU work was recorded on these ranks: nothing can be replayed."

EqualRanks = Literal["recorded", "slower", "all"]
"""Whose kernels take as long as on the median rank: nobody's, those of slower ranks, or all."""

KernelClass = Literal["products", "elementwise", "attention", "copies", "selected"]


@dataclass(frozen=True, kw_only=True, eq=False)
class WhatIfSteps(Result):
    """A step as recorded, and as it would be.

    Neither includes what is known to be the profiler's own time.
    """

    answer: WhatIf
    """Its length (ms), the gain, and the bounds of the gain."""
    recorded_ms: float
    """Length of the mean step as recorded (ms), as `Replay.step_ms`."""
    classes: pd.DataFrame
    """What sets the time: ``what``, ``recorded_ms`` and ``ms`` (time on the critical path in the
    mean step)."""
    ranks: pd.DataFrame
    """``rank``, ``recorded_ms`` and ``ms``: when the last step of each rank ends, counted from the
    first start of any rank."""
    is_bound: bool
    """Whether the gain is known only to lie between two values, or may be larger."""


def what_if(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    steps: Iterable[int] | None = None,
    host_speed: float = 1.0,
    hidden_percent: float = 0.0,
    equal_ranks: EqualRanks = "recorded",
    kernels: KernelClass = "products",
    kernel_percent: float = 100.0,
    selected_kernel: str = "",
    without_loading: bool = False,
) -> WhatIfSteps:
    """Say how long a step would be if something were different.

    Parameters
    ----------
    job : Job
    ranks : iterable of int, optional
        Ranks whose steps count; all by default. All ranks are replayed.
    steps : iterable of int, optional
        ProfilerSteps that count; all analysed ones by default.
    host_speed : float
        How many times as fast the host launches; more than 0, and infinite for a host that needs no
        time. Its other work (loading, the profiler, allocating, pauses) takes as long as recorded.
    hidden_percent : float
        Percentage of all transfers that takes no time, 0 to 100; ranks still wait for late ones.
    equal_ranks : {"recorded", "slower", "all"}
        Whose kernels take as long as the same ones on the median rank.
    kernels : {"products", "elementwise", "attention", "copies", "selected"}
        Which kernels are faster: matrix products and convolutions; elementwise kernels; attention
        kernels, by name; copies between host and device; or the selected kernel.
    kernel_percent : float
        How long these take, in percent of the recorded time, 0 to 100.
    selected_kernel : str
        Name of the selected kernel.
    without_loading : bool
        Whether data is always ready when it is needed.

    Raises
    ------
    UnknownRankError
        If the job lacks a rank.
    UnknownStepError
        If a step was not recorded.
    ParameterError
        If a number is out of range.
    """
    _check("host_speed", host_speed, 0, np.inf, is_open=True)
    _check("hidden_percent", hidden_percent, 0, 100)
    _check("kernel_percent", kernel_percent, 0, 100)
    chosen = select_ranks(job, ranks)
    if why := why_not_replayed(job, chosen):
        return _nothing(job, chosen, why)
    found = replay(job, chosen, steps)
    edits: list[Edit] = []
    if host_speed != 1:
        edits.append(HostSpeed(host_speed))
    if without_loading:
        edits.append(WithoutHostWork(("loading",)))
    if equal_ranks != "recorded":
        edits.append(EqualWork("median", only_slower=equal_ranks == "slower"))
    names = frozenset(_names(found, kernels, selected_kernel))
    if kernel_percent != AS_RECORDED and names:
        edits.append(KernelsFaster(names, kernel_percent / 100))
    if hidden_percent:
        edits.append(CommunicationHidden(hidden_percent / 100))
    return _result(job, chosen, found, edits)


def _result(job: Job, ranks: tuple[int, ...], found: Replay, edits: list[Edit]) -> WhatIfSteps:
    answer = found.what_if(*edits)
    shares, path_ns = found.shares, found.path_ns
    if edits:
        solution = Solution(found.network, applied(found.job, edits))
        changed = CriticalPath.of(solution, found.steps)
        shares, path_ns = changed.shares, changed.length_ns
    steps = len(found.steps)
    classes = pd.DataFrame(
        {
            "what": list(found.shares),
            "recorded_ms": [_ms(share, found.path_ns, steps) for share in found.shares.values()],
            "ms": [_ms(shares[what], path_ns, steps) for what in found.shares],
        }
    )
    before = found.what_if().by_rank
    ends = pd.DataFrame(
        {
            "rank": list(answer.by_rank),
            "recorded_ms": [before[rank] for rank in answer.by_rank],
            "ms": list(answer.by_rank.values()),
        }
    )
    is_bound = answer.lower_ms < answer.upper_ms or not found.is_explained or not found.is_sound
    return WhatIfSteps(
        finding=_finding(found, answer, shares)
        if edits
        else f"{'Without the profiler' if found.without_profiler else 'As recorded'}: "
        f"{duration(found.step_ms * NS_PER_MS)}, {bound_by(found.shares)}.",
        notices=(*job.notices_for(ranks), *found.notices, *_limits(found)),
        answer=answer,
        recorded_ms=found.step_ms,
        classes=classes,
        ranks=ends,
        is_bound=is_bound,
    )


def why_not_replayed(job: Job, ranks: tuple[int, ...]) -> str:
    """Why a replay would say nothing of some ranks, in a sentence; empty if it does.

    Of a file with 2 of 1,000 calls, a step was "bound by the host (99.8 %)".
    """
    if not any(job.reduce(has_gpu_work, ranks).values()):
        return NOTHING_RAN
    doubt = job.doubt_of_idle_time(ranks)
    return f"What the bottleneck is cannot be told: {doubt}." if doubt else ""


def _nothing(job: Job, ranks: tuple[int, ...], why: str) -> WhatIfSteps:
    """The answer if nothing can be replayed."""
    answer = WhatIf(step_ms=0, gain_ms=0, lower_ms=0, upper_ms=0, by_rank={}, steps={})
    return WhatIfSteps(
        finding=why,
        notices=job.notices_for(ranks),
        answer=answer,
        recorded_ms=0.0,
        classes=pd.DataFrame({"what": [], "recorded_ms": [], "ms": []}),
        ranks=pd.DataFrame({"rank": [], "recorded_ms": [], "ms": []}),
        is_bound=False,
    )


def _ms(share: float, path_ns: int, steps: int) -> float:
    return share / 100 * path_ns / NS_PER_MS / steps


def _finding(found: Replay, answer: WhatIf, shares: Mapping[str, float]) -> str:
    before, after = (duration(ms * NS_PER_MS) for ms in (found.step_ms, answer.step_ms))
    change = 100 * (answer.step_ms / found.step_ms - 1) if found.step_ms else 0.0
    between = ""
    if answer.lower_ms < answer.upper_ms:
        least, most = (
            duration(ms * NS_PER_MS) for ms in (max(answer.lower_ms, 0), answer.upper_ms)
        )
        between = f"; as ranks are missing, the gain lies between {least} and {most}"
    if percent(abs(change)) == percent(0):
        (what, share), *_ = shares.items()
        pace = f"{what} is the bottleneck ({percent(share)} of the critical path)"
        return f"{before} → {after}: no change, as {pace}{between}."
    said = signed(change, percent)
    return f"{before} → {after} ({said}), then {bound_by(shares)}{between}."


def _limits(found: Replay) -> Iterator[str]:
    """Notices on what limits the answer."""
    if not found.is_explained:
        yield (
            "much of the critical path is waiting that nothing recorded explains, and stays as it "
            "is: the gain may be larger"
        )


def _names(found: Replay, kernels: KernelClass, selected: str) -> set[str]:
    """Names of the operations of a class."""
    names, code = found.job.names
    if kernels == "selected":
        return {selected} & {*names}
    copies = {names[each] for each in np.unique(code[found.job.type == KernelType.MEMORY])}
    if kernels == "copies":
        return copies
    fits: Mapping[str, Fits] = {
        "products": is_product,
        "elementwise": ELEMENTWISE.search,
        "attention": ATTENTION.search,
    }
    return {*filter(fits[kernels], names)} - copies


def _check(name: str, value: float, least: float, most: float, *, is_open: bool = False) -> None:
    fits = least < value <= most if is_open else least <= value <= most
    if not fits:
        msg = f"{name} is {value:g}: it must be {'more than' if is_open else 'from'} {least:g}"
        msg += "" if np.isinf(most) else f" to {most:g}"
        raise ParameterError(msg)
