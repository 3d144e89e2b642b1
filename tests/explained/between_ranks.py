"""Findings on ranks beside each other, and on what they exchange."""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.diagnosis import Diagnosis, Finding
from hta_widgets.diagnosis.facts.communication_facts import Reason
from hta_widgets.quantities import counted, data_size, duration, number, number_ranges, percent
from tests.explained.costs import (
    COST,
    MODULE,
    PER_STEP,
    WHEN_IDLE,
    cost_of,
    in_module,
    share_of,
    when_idle,
)
from tests.explained.forms import NS_PER_MS, Form, Texts, ranges_in_words

OTHERS: Final = "[[; the other waits for <_it>]][[; the <others> others wait for <_them>]]"
WHEN: Final = "[[ in every <_step>]][[ in <hot> of <steps>]]"
SLOWER: Final = 1.04


def who(found: Finding) -> str:
    return f"Rank{'s' * (len(found.ranks) > 1)} {ranges_in_words(found.ranks)}"


def others_of(found: Finding, whole: Diagnosis) -> Texts:
    others = whole.steps["rank"].nunique() - len(found.ranks)
    return {"others": str(others) if " others wait" in found.sentence else None}


def by_step(table: pd.DataFrame) -> pd.DataFrame:
    """The factors of the ranks in each step."""
    return table.pivot_table(index="rank", columns="step", values="factor")


def when(hot: pd.Series, whole: Diagnosis) -> Texts:
    """In how many steps it is so, unless in all."""
    has_steps = bool((whole.steps["step"] >= 0).any())
    if hot.all() or not has_steps:
        return {}
    return {"hot": str(int(hot.sum())), "steps": counted(len(hot), "step")}


def slow_gpu(found: Finding, whole: Diagnosis) -> Texts:
    mine = by_step(found.evidence["factor_by_rank_and_step"]).loc[[*found.ranks]]
    hot = (mine > SLOWER).any(axis=0)
    factor = float(np.median(mine.loc[:, hot]))
    assert factor == found.evidence["factor"]
    said = {"who": who(found), "factor": number(factor)}
    return said | when(hot, whole) | others_of(found, whole) | cost_of(found, whole)


def throttled(found: Finding, whole: Diagnosis) -> Texts:
    mine = by_step(found.evidence["factor_by_rank_and_step"]).loc[[*found.ranks]]
    hot = (mine > SLOWER).any(axis=0)
    said = {"who": who(found), "factor": number(float(np.median(mine.max(axis=0)[hot])))}
    return said | when(hot, whole) | others_of(found, whole) | cost_of(found, whole)


def imbalanced(found: Finding, whole: Diagnosis) -> Texts:
    factors = by_step(found.evidence["factor"])
    uneven = factors.max(axis=0) > SLOWER
    factor = float(np.median(factors.loc[[*found.ranks], uneven]))
    said = {"who": who(found), "factor": number(factor)}
    return said | when(uneven, whole) | others_of(found, whole) | cost_of(found, whole)


def stages(found: Finding, whole: Diagnosis) -> Texts:
    table = found.evidence["stages"].set_index("stage")["compute_ms"]
    worst = table.idxmax()
    usual = table.drop(worst).median()
    return {"stage": str(worst), "factor": number(table[worst] / usual)} | cost_of(found, whole)


def experts(found: Finding, whole: Diagnosis) -> Texts:
    elements = found.evidence["elements"].set_index("rank")["elements"]
    most = elements.loc[[*found.ranks]].max() / elements.mean()
    said = {"who": who(found), "most": number(most)}
    return said | others_of(found, whole) | cost_of(found, whole)


def bubble(found: Finding, whole: Diagnosis) -> Texts:
    steps, evidence = whole.steps, found.evidence
    waits = (steps["wait_ns"] + steps["wait_p2p_ns"]).groupby(steps["rank"]).mean().median()
    count, batches = evidence["stages"], evidence.get("micro_batches")
    said = {"stages": str(count), "time": duration(waits)}
    if batches:
        said["batches"] = counted(batches, "micro-batch", "micro-batches")
        said["least"] = percent(100 * (count - 1) / (batches + count - 1))
    return said | cost_of(found, whole)


def slow_link(found: Finding, whole: Diagnosis) -> Texts:
    groups = found.evidence["groups"]
    slow = groups.loc[groups["ranks"] == number_ranges(found.ranks)].iloc[0]
    return {
        "who": who(found),
        "speed": number(slow["gb_per_s"]),
        "size": data_size(slow["bytes"]),
        "factor": number(found.evidence["factor"]),
    } | cost_of(found, whole)


def exposed(found: Finding, whole: Diagnosis) -> Texts:
    groups = found.evidence["groups"]
    said: Texts = {"transfer": duration(found.evidence["transfer_ms"] * NS_PER_MS)}
    if len(groups):
        most = groups.loc[groups["exposed_ms"].idxmax()]
        speed = most["busbw_gb_per_s"]
        is_of_one = most["count_per_step"] >= 1.5 and most["longest_ms"] > most["exposed_ms"] / 2
        said |= {
            "count": f"{most['count_per_step']:.3g}",
            "time": duration(most["exposed_ms"] * NS_PER_MS),
            "speed": None if np.isnan(speed) else number(speed),
            "longest": duration(most["longest_ms"] * NS_PER_MS) if is_of_one else None,
        }
    return said | in_module(found) | because(found) | cost_of(found, whole)


def because(found: Finding) -> Texts:
    """Why nothing computes meanwhile, if the sentence has room for it."""
    reasons = found.evidence["reasons"]
    assert reasons["percent"].is_monotonic_decreasing
    words = next((each for each in Reason if f" of it {each.value}" in found.sentence), None)
    if words is None:
        return {}
    assert words.name == reasons["reason"][0]
    return {"part": share_of(reasons["percent"][0])}


def not_found(found: Finding, whole: Diagnosis) -> Texts:
    longest_ms = found.evidence["lost"].groupby("step")["lost_ms"].max()
    assert found.recoverable_ms <= longest_ms.mean() + 1e-9
    return cost_of(found, whole)


def shortest(found: Finding, whole: Diagnosis) -> Texts:
    times = {"least": found.evidence["shortest_ms"], "whole": found.evidence["communication_ms"]}
    said = {name: duration(ms * NS_PER_MS) for name, ms in times.items()}
    return not_found(found, whole) | said


def taking_turns(found: Finding, whole: Diagnosis) -> Texts:
    late = found.evidence["late"].set_index("rank")["waited_for_ms"]
    most = late.idxmax()
    wait_ms, transfer_ms = found.evidence["wait_ms"], found.evidence["transfer_ms"]
    assert wait_ms + transfer_ms <= found.evidence["lost"]["lost_ms"].mean() + 1e-9
    longest_ms = found.evidence["lost"].groupby("step")["lost_ms"].max()
    assert found.recoverable_ms <= longest_ms.mean() + 1e-9
    return cost_of(found, whole) | {
        "wait": duration(wait_ms * NS_PER_MS),
        "transfer": duration(transfer_ms * NS_PER_MS),
        "rank": str(most),
        "part": percent(100 * late[most] / late.sum()),
    }


def owned(found: Finding, whole: Diagnosis) -> Texts:
    return when_idle(found) | not_found(found, whole)


def before_compiled(found: Finding, whole: Diagnosis) -> Texts:
    """The idle time before the first kernel that Inductor wrote, from the events."""
    events = whole.job.events(whole.ranks[0])
    work = events[events["kind"].isin(["kernel", "memcpy", "memset"])]
    first = work[work["name"].str.startswith("triton_")]["start_ns"].min()
    earlier = work[work["start_ns"] < first]
    ns = first - (earlier["start_ns"] + earlier["duration_ns"]).max()
    assert found.evidence["before_compiled_ms"] == ns / NS_PER_MS
    return not_found(found, whole) | {"before": duration(ns)}


def touching(found: Finding, whole: Diagnosis) -> Texts:
    evidence = found.evidence
    return not_found(found, whole) | {
        "touching": percent(evidence["touching_percent"]),
        "copies": f"{evidence['copies']:,}",
        "copying": duration(evidence["copying_ms"] * NS_PER_MS),
    }


def missing(found: Finding, whole: Diagnosis) -> Texts:
    some, every = (found.evidence[name] for name in ("incomplete_collectives", "collectives"))
    return {
        "who": who(found),
        "some": f"{some:,}",
        "every": counted(every, "collective"),
    } | cost_of(found, whole)


FORMS_BETWEEN_RANKS: Final[dict[str, list[Form]]] = {
    "slow_gpu": [
        Form(
            f"<who> compute[[s]] <factor> times as long as the median{WHEN} with the same work"
            f"{OTHERS}{COST}",
            slow_gpu,
        )
    ],
    "gpu_throttling": [
        Form(
            f"<who> compute[[s]] [[up to ]]<factor> times as long as the median{WHEN} with the "
            f"same work[[, but not at all times]]{OTHERS}{COST}",
            throttled,
        )
    ],
    "workload_imbalance": [
        Form(
            f"<who> compute[[s]] <factor> times as long as the median{WHEN}[[ with <_work>]]"
            f"{OTHERS}{COST}",
            imbalanced,
        )
    ],
    "stage_imbalance": [
        Form(
            "<_who> (stage <stage> of the pipeline) compute[[s]] <factor> times as long as the "
            f"median of the other stages, which wait for <_it>{COST}",
            stages,
        )
    ],
    "expert_imbalance": [
        Form(
            "<who> get[[s]][[ up to]] <most> times the mean number of elements in the all-to-alls"
            f"{OTHERS}{COST}",
            experts,
        )
    ],
    "pipeline_bubble": [
        Form(
            "The <stages> stages of the pipeline wait <time> of <_each> for each other"
            f"[[; <batches> leave[[s]] <least> of it empty]]{COST}",
            bubble,
        )
    ],
    "slow_link": [
        Form(
            "<who> transfer at <speed> GB/s, other groups at <_usual> GB/s (<_what> of <size>, "
            f"<factor> times as long as in other groups){COST}",
            slow_link,
        )
    ],
    "exposed_communication": [
        Form(
            f"<transfer> of communication{PER_STEP} is exposed[[, mostly <count> "
            "<_what> (<time>[[, <speed> GB/s]][[; <longest> in the longest]])]]"
            "[[; part of it may be waiting for ranks <_which>]]"
            f"{MODULE}[[, <part> of it <_why>]]{COST}",
            exposed,
        ),
        Form(
            "The GPU[[ on <_ranks>]] communicates without overlapping compute[[, mostly <_most>]]; "
            f"[[cause not found: ]]waiting and transfer cannot be told apart[[ <_without>]]{COST}",
            not_found,
        ),
        Form(
            "The GPU[[ on <_ranks>]] communicates without overlapping compute[[, mostly <_most>]]; "
            "[[cause not found: ]]at most <least> of <whole> is transfer, by the shortest of each "
            f"in any step[[, if sizes are equal]]{COST}",
            shortest,
        ),
        Form(
            "The GPU[[ on <_ranks>]] communicates without overlapping compute: <transfer> of "
            f"transfer{PER_STEP}, <wait> of waiting for ranks that take turns being late (<part> "
            f"of it for rank <rank>){COST}",
            taking_turns,
        ),
        Form(
            "The GPU[[ on <_ranks>]] communicates without overlapping compute: <transfer>"
            f" of transfer{PER_STEP}, <wait> of waiting (<part> of it for rank <rank>), and why "
            f"it is late is not known{COST}",
            taking_turns,
        ),
    ],
    "host_pause": [
        Form(
            "The GPU[[ on <_ranks>]] is idle; cause not found: the trace does not show what the "
            f"host does meanwhile[[, but for calls of MPI (<_part> of the idle time)]]{COST}",
            not_found,
        ),
        Form(
            "The GPU[[ on <_ranks>]] is idle: for <touching> of <_time>, the host works on managed "
            "memory, whose pages move to it as it touches them (<copies> times, <copying> of "
            f"copying); page faults cannot be told from its own work{COST}",
            touching,
        ),
        Form(
            "The GPU[[ on <_ranks>]] is idle: <_part> of <_time> (<before>) precedes the first "
            f"kernel of compiled code, <_kernel>, as while torch.compile compiles{COST}",
            before_compiled,
        ),
        Form(
            f"The GPU[[ on <_ranks>]] is idle while the host works{WHEN_IDLE}{COST}",
            owned,
        ),
    ],
    "missing_rank": [
        Form(
            "<who> ha<_ve> no trace; <some> of <every> lack a member, so that waiting for <_it> "
            f"looks like transfer[[. Waiting that no recorded rank explains]]{COST}",
            missing,
        )
    ],
}
"""The forms of the sentence of each cause that compares ranks, or what they exchange."""
