"""An evenly spaced sample of a job's ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hta_widgets.errors import ParameterError


@dataclass(frozen=True)
class RankSample:
    """An evenly spaced sample of a job's ranks that includes the first and the last.

    Parameters
    ----------
    count : int
        Number of ranks; all of them if the job has no more.

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
        """Return the sample of a job's ranks."""
        if self.count >= len(ranks):
            return tuple(ranks)
        intervals = max(self.count - 1, 1)
        last = len(ranks) - 1
        return tuple(ranks[i * last // intervals] for i in range(self.count))
