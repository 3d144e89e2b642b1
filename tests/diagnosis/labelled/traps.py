"""Jobs that look as if something were wrong, and lose nothing by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.diagnosis.labelled.job import Kind, LabelledJob, true_without_a_cause
from tests.simulator.causes import healthy_plan
from tests.simulator.communication import Network
from tests.simulator.plan import LateBatches, Pause, Plan

STEPS = 6
MS = 1_000_000

Trap = tuple[str, Plan, Callable[[Plan], Plan]]


def trap_jobs() -> list[LabelledJob]:
    """Return the traps."""
    return [
        LabelledJob(
            name, Kind.TRAP, plan.layout, "full", trap(plan), plan, true_without_a_cause(plan)
        )
        for name, plan, trap in _traps()
    ]


def _traps() -> list[Trap]:
    plain = healthy_plan(steps=STEPS, seed=3)
    ahead = replace(plain, read_loss_late=True)
    sharded = healthy_plan("sharded", steps=STEPS, seed=4)
    everybody = tuple(range(plain.ranks))
    big = replace(plain, tokens=16_384, network=Network(110))
    return [
        ("syncs that drain nothing", plain, lambda p: replace(p, idle_syncs=4)),
        (
            "a loader hidden behind the GPU",
            ahead,
            lambda p: replace(p, late_batches=LateBatches(everybody, 9 * MS, 2)),
        ),
        (
            "one rank's loader hidden behind the GPU",
            ahead,
            lambda p: replace(p, late_batches=LateBatches((2,), 8 * MS, 2)),
        ),
        ("a slow first step alone", plain, lambda p: replace(p, first_step_ns=7 * MS)),
        (
            "a long blocking copy whose work was launched earlier",
            ahead,
            lambda p: replace(p, host_copy_bytes=4_096, pageable=True),
        ),
        ("GPUs that differ by 2 %", plain, lambda p: replace(p, gpu_factors={1: 1.02, 3: 0.99})),
        ("GPUs that differ by 1 %", sharded, lambda p: replace(p, gpu_factors={0: 1.01})),
        ("a checkpoint before the steps", plain, lambda p: replace(p, checkpoint_ns=250 * MS)),
        (
            "a checkpoint in the last step, which is left out",
            plain,
            lambda p: replace(p, pauses=(Pause(0, STEPS - 1, 300 * MS),)),
        ),
        ("autotuning before the steps", plain, lambda p: replace(p, autotuned_before=True)),
        (
            "a garbage collection hidden behind the GPU",
            plain,
            lambda p: replace(
                p,
                pauses=tuple(Pause(2, step, 7 * MS, 2, in_backward=True) for step in range(1, 5)),
            ),
        ),
        (
            "a short garbage collection in another rank each step",
            ahead,
            lambda p: replace(
                p, pauses=tuple(Pause(step % 4, step, 5 * MS, 2) for step in range(STEPS))
            ),
        ),
        ("a stream that is nearly always idle", plain, lambda p: replace(p, idle_stream=True)),
        (
            "long all-reduces that backward hides",
            replace(big, network=Network(1_000)),
            lambda p: replace(p, network=Network(110)),
        ),
        (
            "a slow link that backward hides",
            big,
            lambda p: replace(p, network=Network(110, {(1, 2): 1.3})),
        ),
        (
            "big copies from pinned memory, hidden",
            plain,
            lambda p: replace(p, host_copy_bytes=700 << 20),
        ),
        (
            "Python functions recorded by a process far ahead of the GPU",
            plain,
            lambda p: replace(p, recording=replace(p.recording, stacks=True, memory=True)),
        ),
        (
            "batches that differ by 1 %",
            plain,
            lambda p: replace(
                p,
                token_factors={
                    (rank, step): 1 + 0.005 * ((rank * 3 + step * 5) % 5 - 2)
                    for rank in everybody
                    for step in range(STEPS)
                },
            ),
        ),
        ("half of the ranks", plain, lambda p: replace(p, recorded_ranks=(0, 2))),
        ("host work between layers, hidden", plain, lambda p: replace(p, host_work=True)),
        (
            "experts with shares that differ by 3 %",
            healthy_plan("experts", steps=STEPS, seed=5),
            lambda p: replace(
                p, expert_load=dict.fromkeys(range(STEPS), (0.257, 0.25, 0.243, 0.25))
            ),
        ),
        (
            "tensor-parallel decoding by a graph",
            healthy_plan("decode", steps=STEPS, seed=6),
            lambda p: replace(p, idle_stream=True),
        ),
        (
            "a pipeline of two stages with sixteen micro-batches",
            healthy_plan("pipeline", steps=3, seed=7, pipelines=2, micro_batches=16),
            lambda p: replace(p, idle_syncs=1),
        ),
    ]
