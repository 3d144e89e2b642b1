"""The operators that charts emphasise, and what a click on them selects."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

SELECT_BY_NAME: Final[dict[str, Any]] = {"select": "operators"}
SELECT_BY_SHAPE: Final[dict[str, Any]] = {"select": "operators", "also": "shapes"}
"""``meta`` of traces with ``customdata`` of names, or of names and shapes."""


class SelectedOperators(NamedTuple):
    """The operators that charts emphasise."""

    names: tuple[str, ...] = ()
    """None means all."""
    shapes: tuple[str, ...] = ()
    """``input_dims`` of the selected shapes; none means all."""

    def has(self, name: str, shape: str | None = None) -> bool:
        """Whether an operator is selected, for one shape or for all.

        Examples
        --------
        >>> SelectedOperators(("aten::mm",), ("[[2, 3], [3, 4]]",)).has("aten::mm", "[[8, 8]]")
        False
        >>> SelectedOperators().has("aten::mm")
        False
        """
        is_asked = bool(self.names or self.shapes)
        fits = shape is None or not self.shapes or shape in self.shapes
        return is_asked and fits and (not self.names or name in self.names)


NO_OPERATORS: Final = SelectedOperators()
