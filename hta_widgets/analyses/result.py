"""What every analysis returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hta_widgets.analyses.plain_text import bounded, csv_of, tables_of, with_notices
from hta_widgets.quantities import counted

_FIRST_ROWS: Final = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """Named tables of one analysis; subclasses add them."""

    finding: str
    """One sentence that says what the numbers mean for this job; empty if nothing stands out."""
    notices: tuple[str, ...]
    """What was dropped, left out or not matched on the analysed ranks."""

    def __init_subclass__(cls) -> None:
        """Keep the short representation; a dataclass would write out all of its tables."""
        super().__init_subclass__()
        cls.__repr__ = cls.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        """The finding, the notices, and what the tables hold."""
        lines = [type(self).__name__, *with_notices(self.finding, self.notices)]
        for name, table in tables_of(self).items():
            lines.append(f"{name}: {counted(len(table), 'row')} of {', '.join(map(str, table))}")
        return "\n".join(lines)

    def _repr_llm_(self) -> str:
        """The finding, the notices, and the first rows of each table."""
        lines = [type(self).__name__, *with_notices(self.finding, self.notices)]
        for name, table in tables_of(self).items():
            lines += ["", f"{name}: {len(table):,} rows", csv_of(table, _FIRST_ROWS)]
        return bounded("\n".join(lines))
