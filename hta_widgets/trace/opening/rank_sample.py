"""Some of a job's ranks, spread evenly over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hta_widgets.errors import ParameterError


@dataclass(frozen=True)
class RankSample:
    """So many ranks of a job, spread evenly, with its first and its last.

    Parameters
    ----------
    count : int
        How many; all ranks where the job has no more.

    Raises
    ------
    ParameterError
        If the sample is empty.

    Examples
    --------
    >>> RankSample(3).among(range(9))
    (0, 4, 8)
    """

    count: int

    def __post_init__(self) -> None:
        """Refuse an empty sample."""
        if self.count < 1:
            msg = f"RankSample needs 1 rank or more, got {self.count}"
            raise ParameterError(msg)

    def among(self, ranks: Sequence[int]) -> tuple[int, ...]:
        """Take the sample of the ranks of a job."""
        if self.count >= len(ranks):
            return tuple(ranks)
        gaps = max(self.count - 1, 1)
        last = len(ranks) - 1
        return tuple(ranks[place * last // gaps] for place in range(self.count))
