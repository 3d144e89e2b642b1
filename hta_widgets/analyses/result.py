"""What every analysis returns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """Named tables of one analysis; subclasses add them.

    Attributes
    ----------
    finding : str
        One sentence that says what the numbers mean for this job; empty if nothing stands out.
    notices : tuple of str
        What was dropped, left out or not matched on the analysed ranks.
    """

    finding: str
    notices: tuple[str, ...]
