"""Panel of the owners of idle time: which code each GPU waits for."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import pandas as pd
from traitlets import Bool, Int

from hta_widgets.analyses.idle_owners import IdleOwners, idle_owners
from hta_widgets.analyses.idle_owners.paths import owners_by_line, with_lines
from hta_widgets.analyses.idle_owners.sums import causes_by_device, owners_by_name, owners_by_path
from hta_widgets.analyses.roofline.vendor import words_of
from hta_widgets.analyses.time.causes import idle_in_words
from hta_widgets.figures.base.drawing import FEW_BARS, LONG_NAMES, Drawing, with_width
from hta_widgets.figures.idle_owners import idle_causes, idle_owners_by_name
from hta_widgets.figures.selected_operators import SelectedOperators
from hta_widgets.panels.base.controls import SHARE_OR_TIME, Choice, Slider
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.selection import TIME_FIELDS
from hta_widgets.panels.base.table import SELECTS
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.model.formats import Recorded

By: TypeAlias = Literal["line", "call"]
Listed: TypeAlias = Literal["owners", "lines", "causes", "drains"]

CAUSES = "Causes of the idle time of each GPU"
LINES = "Python lines with the most idle time"
CALLS = "Calls with the most idle time"


class IdleOwnersPanel(Panel[IdleOwners]):
    """Which code, or what on the GPU itself, each GPU waits for.

    A click on a line or a call selects what it launches.
    """

    name = "idle_owners"
    tab = "idle"
    place = 1
    title = "What the GPU waits for"
    follows = ("operators", *TIME_FIELDS)
    table_selects: ClassVar = {**SELECTS, "owner": "operators", "line": "operators"}
    any_number_of_ranks = True
    needs = (Recorded.KERNELS,)
    needs_gpu_work = True

    num_owners: int = parameter(Int(10, min=1), Slider("Top owners", max=40))
    """Number of lines or calls to draw."""

    by: By = parameter(LabelledEnum({"line": "Python line", "call": "Call"}), Choice("Group by"))
    """What a bar stands for: the innermost Python line outside PyTorch and Python itself (or the
    call, if it has no such line); or the innermost call."""

    as_percent: bool = parameter(Bool(True), SHARE_OR_TIME)
    """Show shares of the idle time instead of time."""

    listed: Listed = parameter(
        LabelledEnum(
            {
                "owners": "Owners",
                "lines": "Python lines",
                "causes": "Causes",
                "drains": "Queue drains",
            }
        ),
        Choice("Table"),
    )
    """Contents of the table: owners by path, Python lines, causes by step and part, or blocking
    calls that let the GPU run dry."""

    def analyse(self, ranks: list[int]) -> IdleOwners:
        """Find the owners of the idle time of the ranks; what a diagnosis counts, or all selected.

        Time outside of steps, or of the GPU span, has an owner only where it is selected.
        """
        chosen = tuple(ranks)
        key = "result" if chosen else "result of all ranks"
        time = self.selection.time_of(self.job)

        def analyse() -> IdleOwners:
            found = idle_owners(self.job, chosen, **time)
            return found if any(time.values()) else found.in_budget()

        return self._memo.get(key, analyse, chosen, tuple(time.values()))

    def draw(self, result: IdleOwners) -> dict[str, Drawing]:
        """Draw the lines or calls with the most idle time, and the causes on each GPU."""
        shown, as_percent = self.of_all_ranks(result), self.as_percent
        words = words_of(self.job)
        causes = self._memo.call(causes_by_device, shown.devices, shown.causes)
        by_cause = self._memo.get(
            "drawn causes",
            lambda: idle_causes(causes, selected=self.ranks, as_percent=as_percent).in_words(words),
            *(causes, tuple(self.ranks), as_percent),
        )
        title, owners = self._memo.get("names", lambda: self._named(result), result, self.by)
        by_name = idle_owners_by_name(
            owners,
            num_owners=self.num_owners,
            as_percent=as_percent,
            selected=SelectedOperators(self.selection.operators),
            has_legend=len(causes) == 1,  # a page omits the other chart if it has only one bar
        ).in_words(words)
        return {title: with_width(by_name, LONG_NAMES), CAUSES: with_width(by_cause, FEW_BARS)}

    def _named(self, result: IdleOwners) -> tuple[str, pd.DataFrame]:
        """Title and times of the bars: of lines, or of calls if no line is known."""
        found = with_lines(result.owners, result.paths)
        if self.by == "call" or not found["line"].any():
            return CALLS, owners_by_name(result.owners)
        names = found["line"].where(found["line"] != "", found["owner"])
        return LINES, owners_by_name(result.owners.assign(owner=names))

    def tabulate(self, result: IdleOwners) -> pd.DataFrame:
        """List the owners by path or by line, the causes, or the calls that drained the GPU."""
        if self.listed in {"causes", "drains"}:
            return result.causes if self.listed == "causes" else result.drains
        tables = {"owners": owners_by_path, "lines": owners_by_line}
        return self._memo.call(tables[self.listed], result.owners, result.paths)

    def sentence(self, result: IdleOwners) -> str:
        """The finding, or the amount of idle time if it is too short for a finding."""
        if result.finding or result.owners.empty:
            return result.finding
        idle_ns, whole_ns = (int(result.devices[each].sum()) for each in ("idle_ns", "window_ns"))
        return idle_in_words(idle_ns, whole_ns, len(result.devices), "analysed time")

    def nothing_to_show(self, result: IdleOwners) -> str | None:
        """Explain an empty panel: no GPU work, or no idle time."""
        if result.devices.empty:
            return result.finding
        return "The GPUs are never idle." if result.owners.empty else None
