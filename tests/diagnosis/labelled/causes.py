"""Jobs with one cause: every layout, two seeds, and every way to record less."""

from __future__ import annotations

from collections.abc import Iterator

from tests.diagnosis.labelled.job import Kind, LabelledJob, either
from tests.diagnosis.labelled.recordings import RECORDINGS, recorded
from tests.simulator.causes import CAUSES, Cause, slow_link
from tests.simulator.plan import Layout, Plan

SEED_OF_RECORDINGS = 2
SEED_OF_PIPELINES = 3
"""Odd: two short pipelines have fewer events than a long one."""
EVERYBODYS = frozenset(
    {
        "input_starvation",
        "launch_bound",
        "blocking_sync",
        "autotuning",
        "warm_up",
        "unfused_elementwise",
        "no_tensor_cores",
        "slow_shape",
        "layout_transposes",
        "slow_host_copies",
        "profiler_overhead",
    }
)
"""Causes that each rank shows by itself."""
OWN = frozenset({"gpu_throttling", "host_pause", "allocator_retries"})
"""Causes that the rank to blame shows by itself."""
NEXT_BEST = {
    ("slow_link", "no fields"): ("exposed_communication",),
    ("slow_link", "no operators"): ("exposed_communication",),
    ("expert_imbalance", "no fields"): ("workload_imbalance",),
    ("expert_imbalance", "no operators"): ("workload_imbalance",),
    ("stage_imbalance", "no fields"): ("workload_imbalance",),
    ("stage_imbalance", "no operators"): ("workload_imbalance",),
    ("pipeline_bubble", "no fields"): ("exposed_communication",),
    ("pipeline_bubble", "no operators"): ("exposed_communication",),
    ("host_pause", "no operators"): (),
    ("slow_shape", "no operators"): (),
    ("missing_rank", "no fields"): ("exposed_communication",),
    ("missing_rank", "no operators"): ("exposed_communication",),
    ("exposed_communication", "one rank"): (),
}
"""What cannot be told from these recordings: which words are no worse than silence."""
IMPOSSIBLE = frozenset({("profiler_overhead", "no operators"), ("missing_rank", "one rank")})


def sick_jobs() -> list[LabelledJob]:
    """Return the jobs with a cause."""
    return [*_fully_recorded(), *_less_recorded()]


def seeds(cause: Cause, layout: Layout) -> tuple[int, int]:
    """Return two seeds, which are others in each layout of a cause: they change what is planted."""
    first = 2 * cause.layouts.index(layout)
    return first, first + 1


def _fully_recorded() -> Iterator[LabelledJob]:
    for cause in CAUSES.values():
        for layout in cause.layouts:
            for seed in seeds(cause, layout):
                yield _job(cause, layout, seed, "full")


def _less_recorded() -> Iterator[LabelledJob]:
    for number, cause in enumerate(CAUSES.values()):
        for how in RECORDINGS:
            if (cause.name, how) not in IMPOSSIBLE:
                layout = cause.layouts[number % len(cause.layouts)]
                seed = SEED_OF_PIPELINES if layout == "pipeline" else SEED_OF_RECORDINGS
                yield _job(cause, layout, seed, how)


def _job(cause: Cause, layout: Layout, seed: int, how: str) -> LabelledJob:
    twin = healthy_twin(cause, layout, seed, how)
    plan = cause.plant(twin)
    alone = how == "one rank"
    tells_alone = cause.name in EVERYBODYS | OWN
    is_hint = (cause.name, how) in NEXT_BEST or (alone and not tells_alone)
    accepted = [frozenset(cause.culprits(plan))]
    next_best = NEXT_BEST.get((cause.name, how), ())
    if cause.name == "slow_link":
        accepted += either(slow_link(plan))
        if layout != "pipeline" and plan.replicas == 1:  # one ring has no other to compare with
            next_best = ("exposed_communication",)
            accepted.append(frozenset(plan.files))
    return LabelledJob(
        name=f"{cause.name}, {layout}, {how}, seed {seed}",
        kind=Kind.HINT if is_hint else Kind.CAUSE,
        layout=layout,
        recording=how,
        plan=plan,
        twin=twin,
        causes=(cause.name, *next_best),
        ranks=(frozenset(plan.files),)
        if alone and cause.name in EVERYBODYS
        else tuple(dict.fromkeys(accepted)),
    )


def healthy_twin(cause: Cause, layout: Layout, seed: int, how: str) -> Plan:
    """Return the job that a cause is planted in."""
    given: dict[str, object] = {"steps": 3 if layout == "pipeline" else 6}
    if layout == "sharded" and seed % 4 == 2:
        given |= {"ranks": 8, "replicas": 2}
    return recorded(cause.healthy_plan(layout, seed=seed, **given), how)
