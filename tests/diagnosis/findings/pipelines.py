"""Programs of ranks that are stages of pipelines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.diagnosis.findings.training_jobs import US, Compute, Item, Meet, Program


def pipeline(
    stages: int,
    batches: int,
    forward_ns: Callable[[int, int], int],
    *,
    copies: int = 1,
    transfer_ns: Callable[[int, int], int] = lambda _sender, _receiver: 20 * US,
    shape: str = "[[64, 64]]",
) -> Program:
    """All micro-batches forwards, then all backwards; rank = stage * copies + copy.

    Parameters
    ----------
    forward_ns : callable
        From the rank and the step to how long a micro-batch takes; backward takes twice as long.
    transfer_ns : callable
        From sender and receiver.
    """

    def program(rank: int, step: int) -> Sequence[Item]:
        stage, copy = divmod(rank, copies)
        items: list[Item] = []

        def exchange(one: int, other: int) -> None:
            pair = (one * copies + copy, other * copies + copy)
            items.append(Meet(pair, transfer_ns(*pair), "p2p", "pp", 50_000, 50_000))

        for _ in range(batches):
            if stage:
                exchange(stage - 1, stage)
            items.append(Compute(forward_ns(rank, step), "forward", shape))
            if stage < stages - 1:
                exchange(stage, stage + 1)
        for _ in range(batches):
            if stage < stages - 1:
                exchange(stage + 1, stage)
            items.append(Compute(2 * forward_ns(rank, step), "backward", shape))
            if stage:
                exchange(stage, stage - 1)
        everybody = tuple(range(stages * copies))
        return [*items, Meet(everybody)]

    return program
