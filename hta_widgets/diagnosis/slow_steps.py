"""What is lost in steps that no price is found in: a slow first step, and the last.

Priced as if each step lost it, it accused two healthy jobs; unsaid, it hid 190 ms in which a job
loaded its first batch, a quarter of what was recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.arrays import Float64Array
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.finding import Finding
from hta_widgets.diagnosis.job.steps import Steps
from hta_widgets.diagnosis.rules.host_evidence import within_gap
from hta_widgets.errors import number_ranges
from hta_widgets.quantities import duration, percent

MOST_OF_IT: Final = 0.5
"""Part of what a slow step takes more from which one kind of time is said to be what it is."""


class _Kind(NamedTuple):
    columns: tuple[str, ...]
    words: str


_KINDS: Final = (
    _Kind(("gap_loader",), "while the host loads data"),
    _Kind(("gap_init", "gap_alloc"), "while the host initialises or allocates"),
    _Kind(("gap_step",), "while a server's host prepares the next step"),
    _Kind(("gap_pause",), "while the host launches nothing"),
    _Kind(("gap_op", "gap_sync"), "while the host launches too slowly"),
    _Kind(("gap_profiler",), "while the profiler works"),
    _Kind(("gap_depend",), "idle, waiting for what the trace does not show"),
    _Kind(("compute",), "computing"),
    _Kind(("memory",), "copying"),
    _Kind(("transfer", "transfer_p2p", "undivided"), "communicating"),
)


def slow_step_notices(
    context: Context, kept: Steps, findings: Sequence[Finding], unsound: Collection[int]
) -> tuple[str, ...]:
    """What is lost in steps that are left out, and in no finding.

    Parameters
    ----------
    context : Context
        Of all analysed steps.
    kept : Steps
        Those that prices are found in.
    findings : sequence of Finding
    unsound : collection of int
        Numbers of the steps that are left out as their recording has faults.
    """
    if not kept.period_ns:
        return ()
    named = {step for finding in findings for step in finding.steps} | {*unsound}
    left_out = [each for each in context.all_steps.numbers if each not in kept.numbers]
    silent = [each for each in left_out if each not in named]
    return (*_first(context, kept, silent), *_last(context, kept))


def _first(context: Context, kept: Steps, silent: Sequence[int]) -> Iterator[str]:
    together = context.all_steps
    if not silent:
        return
    lost = together.without([each for each in together.numbers if each not in silent])
    excess_ns = lost.period_ns - kept.period_ns
    which = f"{'step' if len(silent) == 1 else 'steps'} {number_ranges(silent)}"
    share = len(silent) * excess_ns / (len(together.numbers) * together.period_ns)
    of_it = f"{duration(excess_ns)} more{_what(context, lost, kept)}"
    yield (
        f"{which} took {duration(lost.period_ns)}, the others {duration(kept.period_ns)} on "
        f"average, {of_it}: {percent(100 * share)} of the analysed time is lost there, and causes "
        "are looked for in the others only"
    )


def _what(context: Context, lost: Steps, kept: Steps) -> str:
    """What most of the time is that slow steps take more, on the rank that needs most of it."""
    own_ns = lost.own.mean(axis=1) - kept.own.mean(axis=1)
    rank = int(np.argmax(own_ns))
    whole_ns = float((lost["period"].mean(axis=1) - kept["period"].mean(axis=1))[rank])
    more = {each: float(_more_ns(each, lost, kept)[rank]) for each in _KINDS}
    kind = max(more, key=lambda each: more[each])
    if more[kind] <= MOST_OF_IT * whole_ns:
        return ""
    number = context.ranks[rank]
    where = f" on rank {number}" if len(context.ranks) > 1 else ""
    return f" ({duration(more[kind])} of it {kind.words}{where}{_owner(context, kind, lost, rank)})"


def _more_ns(kind: _Kind, lost: Steps, kept: Steps) -> Float64Array:
    """What the mean slow step of each rank has more of a kind than the mean of the others."""
    more = [lost[name].mean(axis=1) - kept[name].mean(axis=1) for name in kind.columns]
    return np.asarray(sum(more))


def _owner(context: Context, kind: _Kind, lost: Steps, rank: int) -> str:
    """The call that owns the time of a kind, where most of it passes in the slow steps."""
    name = max(kind.columns, key=lambda each: float(lost[each][rank].sum()))
    every_ns = float(context.all_steps[name][rank].sum())
    least_ns = context.limits.owner_percent / 100 * every_ns
    if not name.startswith("gap_") or float(lost[name][rank].sum()) < max(least_ns, 1):
        return ""
    found = within_gap(context, (context.ranks[rank],), name)
    return found.words if found else ""


def _last(context: Context, kept: Steps) -> Iterator[str]:
    """A slow last step, which is left out; if the recording ends before it, it takes even more."""
    facts = [context.facts[rank].last_step for rank in context.ranks]
    known = [each for each in facts if each is not None]
    if not known or len({each.number for each in known}) > 1 or len(known) < len(facts):
        return
    length_ns = float(np.median([each.length_ns for each in known]))
    usual_ns = kept.period_ns
    if length_ns <= (1 + context.limits.longer_first_step_percent / 100) * usual_ns:
        return
    together = context.all_steps
    recorded_ns = len(together.numbers) * together.period_ns + length_ns
    excess_ns, least = (
        length_ns - usual_ns,
        "" if all(e.is_complete for e in known) else "at least ",
    )
    yield (
        f"step {known[0].number}, the last, took {least}{duration(length_ns)}, the others "
        f"{duration(usual_ns)} on average, {least}{duration(excess_ns)} more: "
        f"{percent(100 * excess_ns / recorded_ns)} of the time of all recorded steps is lost "
        "there, and no cause is looked for in it (include_last_profiler_step=True analyses it)"
    )
