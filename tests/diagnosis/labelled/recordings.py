"""What profilers leave out, and clocks that do not agree."""

from __future__ import annotations

from dataclasses import replace

from hta_widgets.sample.process import FIRST_MOMENT_NS
from hta_widgets.sample.recorder import Clock
from tests.simulator.plan import Plan

SECOND_NS = 1_000_000_000
_PROFILERS: dict[str, dict[str, bool]] = {
    "no fields": {"collective_fields": False},
    "no steps": {"steps": False},
    "no operators": {"operators": False, "collective_fields": False},
    "waits": {"synchronization": True},
}
RECORDINGS = (*_PROFILERS, "clocks apart", "one rank")


def recorded(plan: Plan, how: str) -> Plan:
    """Return the same job as recorded in another way."""
    if how in _PROFILERS:
        return replace(plan, recording=replace(plan.recording, **_PROFILERS[how]))
    if how == "clocks apart":
        return replace(plan, clocks={rank: _clock(rank, plan.seed) for rank in range(plan.ranks)})
    if how == "one rank":
        return replace(plan, recorded_ranks=(plan.culprit,))
    return plan


def _clock(rank: int, seed: int) -> Clock:
    """Differ by up to seven seconds, and by up to 15 microseconds more each second."""
    ahead_ns = ((rank * 5 + seed * 3) % 8 - 4) * SECOND_NS + 137_411 * rank
    return Clock(ahead_ns, (rank * 11) % 16, FIRST_MOMENT_NS)
