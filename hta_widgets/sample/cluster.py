"""Run the programs of all ranks side by side."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

from hta_widgets.sample.execution import Execution

Program: TypeAlias = Generator[Execution | None, None, None]
"""What the CPU of a rank does. It yields GPU work whose end it waits for, or None to let the
other ranks catch up, which costs no simulated time."""


def run_programs(programs: Sequence[Program], turn: Callable[[], object] = lambda: None) -> None:
    """Run programs to their ends, in turns; each turn takes a rank to where it waits.

    Raises
    ------
    RuntimeError
        If all ranks wait for each other.
    """
    waiting: dict[int, Execution | None] = dict.fromkeys(range(len(programs)))
    while waiting:
        ready = [rank for rank, awaited in waiting.items() if not awaited or awaited.is_settled]
        if not ready:
            msg = f"ranks {list(waiting)} wait for each other"
            raise RuntimeError(msg)
        for rank in ready:
            try:
                waiting[rank] = next(programs[rank])
            except StopIteration:
                del waiting[rank]
        turn()
