"""Ranks that the others wait for, as HTA lists them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.analyses.clocks import clocks
from hta_widgets.diagnosis import diagnosis
from hta_widgets.diagnosis.limits import Limits
from hta_widgets.quantities import NS_PER_US
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.iterations import iterations

IN_STEPS: Final = 0.5
"""Part of the steps in which a straggler needs longer than the others."""


def stragglers(job: Job, steps: Collection[int], num_candidates: int) -> tuple[list[int], str]:
    """Ranks that need longer than the others, and why there are none or fewer than it seems.

    Returns
    -------
    list of int
        At most `num_candidates`, most time first.
    str
        What limits the answer; empty if nothing does.
    """
    if len(job.ranks) < 2:  # noqa: PLR2004
        return [], "one rank has nobody to wait for it"
    components = clocks(job).ranks["component"].tolist()
    if len(set(components)) > 1:
        return [], (
            "the collectives of the ranks do not end together or cannot be matched: who waits for "
            "whom cannot be told"
        )
    found = diagnosis(job, steps=steps or None)
    own = found.steps.pivot_table(index="rank", columns="step", values="own_ns").astype(float)
    excess = own - own.median(axis=0)
    limit_ns = Limits().least_percent / 100 * found.period_ns
    often = (excess > limit_ns).mean(axis=1) >= IN_STEPS
    usual = excess.mean(axis=1)[often].sort_values(ascending=False, kind="stable")
    few = own.shape[1] == 1 and len(usual)
    said = "one recorded step is too few to tell a slow rank from a slow moment" if few else ""
    return [int(rank) for rank in usual.index[:num_candidates]], said


def candidate_frame(job: Job, ranks: Collection[int]) -> tuple[pd.DataFrame, list[str]]:
    """GPU work of all ranks for an implementation of the user's own, and the names by code."""
    frames: list[pd.DataFrame] = []
    names: dict[str, int] = {}
    for number in ranks:
        rank = job.rank(number)
        work = rank.gpu_work
        texts = [work.names[code] for code in work.name.tolist()]
        codes = [names.setdefault(text, len(names)) for text in texts]
        shift = job.offset_ns(number)
        frames.append(
            pd.DataFrame(
                {
                    "rank": number,
                    "name": np.array(codes, dtype=np.int64),
                    "s_name": np.array(texts, dtype=object),
                    "stream": work.stream,
                    "device": work.device,
                    "iteration": iterations(rank)[work.rows],
                    "ts": (work.start_ns + shift) / NS_PER_US,
                    "dur": work.duration_ns / NS_PER_US,
                }
            )
        )
    return pd.concat(frames, ignore_index=True), [*names]
