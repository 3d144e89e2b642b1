"""What a step takes without all ticked findings: prices overlap, so they are removed together."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from hta_widgets.diagnosis import Diagnosis
from hta_widgets.diagnosis.replay.critical_path import PRECEDING
from hta_widgets.quantities import NS_PER_MS, counted, duration, percent, signed

MORE_THAN_SUM: Final = 1.05
"""Ratio of what findings bring together to their sum above which the line says why: a host that
waits after each launch, and takes long from each wait to the next, gains 45 % and 11 % without one
of them, and 76 % without both."""


def tickable(found: Diagnosis) -> list[int]:
    """Positions of the findings that can be replayed."""
    prices = found.replayed.prices if found.replayed else {}
    return [place for place, each in enumerate(found) if each.cause in prices]


def together(found: Diagnosis, unticked: Collection[int]) -> str:
    """Say how long a step would take without the ticked findings; empty if none can be replayed.

    Parameters
    ----------
    found : Diagnosis
    unticked : collection of int
        Positions of the findings that stay.
    """
    places = tickable(found)
    ticked = [found[place] for place in places if place not in unticked]
    if not places:
        return ""
    if not ticked:
        return "Tick findings to see how long a step takes without them."
    result = found.together(ticked)
    before, after = (duration(found.step_ns - ms * NS_PER_MS) for ms in (0, result.gain_ms))
    count = "both findings" if len(ticked) == len(found) == 2 else counted(len(ticked), "finding")  # noqa: PLR2004
    whose = f"Without {'this finding' if len(places) == 1 else count}"
    at_best = ", at best" if any(each.bound == "at most" for each in ticked) else ""
    change = signed(-100 * result.gain_ms * NS_PER_MS / found.step_ns, percent)
    # if ranks start the first step apart, what the earlier ones wait for is not recorded
    then = (
        "; most of the rest precedes the recording: record more steps to see it"
        if PRECEDING in result.bound_by
        else f", then {result.bound_by.partition(' (')[0]}"
    )
    is_more = result.gain_ms > MORE_THAN_SUM * sum(each.recoverable_ms for each in ticked)
    why = ", more than one by one, as each alone leaves the other" * is_more
    return f"{whose}{at_best}: {before} → {after} ({change}{why}){then}"
