"""What a kind of panel declares: its look, its parameters, its analysis."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import anywidget
import pandas as pd

from hta_widgets.figures.base.drawing import Drawing
from hta_widgets.panels.base.controls import Control
from hta_widgets.panels.base.declarations import (
    Button,
    buttons_of,
    check_declarations,
    controls_of,
)
from hta_widgets.panels.base.protocol import FindingRow
from hta_widgets.panels.base.rendered_view import ResultT
from hta_widgets.panels.base.selection import LINKED_FIELDS, Selection
from hta_widgets.panels.base.synced_view import SyncedView
from hta_widgets.panels.base.table_view import SELECTS
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.formats import Recorded


class DeclaredPanel(SyncedView[ResultT]):
    """What subclasses of `Panel` declare and define; a wrong declaration fails with the class."""

    title: ClassVar[str] = ""
    """Heading of the panel."""

    wide: ClassVar[bool] = False
    """Whether the panel takes a whole row of the dashboard."""

    follows: ClassVar[tuple[str, ...]] = ()
    """Fields of the selection that the panel depends on, apart from those in `LINKED_FIELDS`."""

    table_selects: ClassVar[Mapping[str, str]] = SELECTS
    """Columns of the table, and the fields of the selection that a click on a row sets to their
    values."""

    table_open: ClassVar[bool] = False
    """Whether the table is open from the start, on a wide page beside the chart."""

    table_besides: ClassVar[tuple[str, ...]] = ()
    """Texts of these columns that stand for nothing that could be selected, such as ``others``."""

    table_labels: ClassVar[Mapping[str, str]] = {}
    """Headings of the table that are not the columns' names in words, without units."""

    table_of_all: ClassVar[bool] = False
    """Whether a page lists the ranks that are not selected as well, as charts that mark the
    selected ones do."""

    needs: ClassVar[tuple[Recorded, ...]] = ()
    """What a format must record for the panel to show anything."""

    any_number_of_ranks: ClassVar[bool] = False
    """Whether the analysis needs only one rank at a time, so that it can show all of a big job."""

    controls: ClassVar[Mapping[str, Control]]
    """Controls on the parameters, from left to right; read from the tags of the traits."""

    buttons: ClassVar[Mapping[str, Button]]
    """Buttons after the controls; read from the methods decorated with `button`."""

    def __init_subclass__(cls, **options: Any) -> None:  # noqa: ANN401
        super().__init_subclass__(**options)
        check_declarations(cls)
        unknown = {*cls.follows, *cls.table_selects.values()} - set(Selection.fields())
        if unknown:
            fields = Selection.fields()
            msg = f"{cls.__name__} follows or selects {sorted(unknown)}; a selection has {fields}"
            raise TypeError(msg)
        cls.controls = MappingProxyType(controls_of(cls))
        cls.buttons = MappingProxyType(buttons_of(cls))

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Names of the parameters that the constructor takes."""
        names = cls.class_trait_names(sync=True)
        inherited = anywidget.AnyWidget.class_trait_names()
        return tuple(name for name in names if name[0] != "_" and name not in inherited)

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """Whether the panel applies to a job; dashboards leave out panels that do not."""
        return job.holds(*cls.needs)

    def analyse(self, ranks: list[int]) -> ResultT:
        """Run the analysis on some ranks, or on all for an empty list."""
        raise NotImplementedError

    def draw(self, result: ResultT) -> dict[str, Drawing]:
        """Return the figures of a result by name, in display order."""
        raise NotImplementedError

    def tabulate(self, result: ResultT) -> pd.DataFrame:
        """Return the data table of a result."""
        raise NotImplementedError

    def nothing_to_show(self, result: ResultT) -> str | None:  # noqa: ARG002
        """Explain why a result has nothing to draw; None if it has something."""
        return None

    def list_findings(self, result: ResultT) -> list[FindingRow]:  # noqa: ARG002
        """Return rows that stand below the sentence; none for most panels."""
        return []

    @classmethod
    def _reject_unknown(cls, parameters: dict[str, Any]) -> None:
        unknown = sorted(set(parameters) - {*cls.parameters(), "layout"})
        if unknown:
            known = ", ".join(cls.parameters())
            msg = f"{cls.__name__} has no parameter {', '.join(unknown)}; it has {known}"
            raise TypeError(msg)

    @classmethod
    def _linked_fields(cls) -> list[str]:
        return [name for name in LINKED_FIELDS if name in cls.parameters()]
