"""Panel of the timeline: lanes of all ranks; Python sends the details of a window on request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import pandas as pd
from traitlets import Bunch, Bytes, List, TraitError, validate

from hta_widgets.analyses.budget.classes import COLUMN_LABELS
from hta_widgets.analyses.timeline import Timeline, timeline
from hta_widgets.analyses.timeline.added import LANE_KINDS
from hta_widgets.analyses.timeline.lanes_of_job import JobLanes
from hta_widgets.diagnosis import diagnosis_of_phase
from hta_widgets.diagnosis.critical_path import CRITICAL_PATH
from hta_widgets.errors import ParameterError
from hta_widgets.export.excerpt import write_excerpt
from hta_widgets.figures.timeline import class_looks
from hta_widgets.figures.timeline_picture import timeline_picture
from hta_widgets.panels.base.declarations import button, parameter
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.protocol import View
from hta_widgets.panels.base.rendered_view import RenderedView
from hta_widgets.panels.base.summary import image
from hta_widgets.panels.base.traits import Texts, typed_dict
from hta_widgets.panels.base.updates import locked
from hta_widgets.panels.timeline.bands import bands, most_band_pixels
from hta_widgets.panels.timeline.encoding import LitRank, in_runs, lit, overview_bytes
from hta_widgets.panels.timeline.messages import TimelineLayout
from hta_widgets.panels.timeline.requests import Answer, answer, known_kinds, packed
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.remote.urls import PathLike

MOST_BYTES: Final = 1_500_000
"""Maximum size of all stored arrays; a report packs them to about a third."""

MOST_RANKS: Final = 32
_OF_JOB: Final = (CRITICAL_PATH,)
"""Kinds of lanes that describe the whole job."""
_PIXELS: Final = 1_200
_FIRST: Final = ("path", "curve", "range", "phases", "stream", "thread")
"""Kinds of lanes, the most important first."""

NOTHING: Final[TimelineLayout] = {
    "classes": [],
    "ranks": [],
    "span": (0, 1),
    "home": (0, 1),
    "bins": 0,
    "held": True,
    "bands": [],
    "band_bins": 0,
    "band_pixels": 0,
}

_STEP: Final = ("step", "start_ns", "end_ns")


def recorded(
    lanes: JobLanes, layout: Mapping[str, Any], added: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Answers about the lanes of ranks, the added kinds first, as far as they fit.

    Each has ``rank``, ``lanes`` (the answer to the request for its lanes) and ``windows``: for each
    lane its ``key``, and ``content`` and ``buffers`` of the answer for all of the analysed time.
    """
    ranks = [row["rank"] for row in layout.get("ranks", [])[:MOST_RANKS]]
    start, end = layout.get("home", (0, 0))
    found = {rank: _lanes_of(lanes, rank, added) for rank in ranks}
    windows: dict[int, list[dict[str, Any]]] = {rank: [] for rank in ranks}
    left = MOST_BYTES
    for rank, key in _by_importance(found):
        request = {"kind": "window", "lanes": [[rank, key, 0]], "start": start, "end": end}
        got = answer(lambda: lanes, {**request, "pixels": _PIXELS, "id": 0})
        if got is None or got.content["kind"] != "window":
            continue
        left -= sum(map(len, got.buffers))
        if left < 0:
            break
        windows[rank].append({"key": key, "content": got.content, "buffers": got.buffers})
    return [{"rank": rank, "lanes": found[rank], "windows": windows[rank]} for rank in ranks]


def _lanes_of(lanes: JobLanes, rank: int, added: Sequence[str]) -> list[dict[str, Any]]:
    asked = ({"kind": "added", "lanes": [*added]}, {"kind": "lanes"})
    got = [answer(lambda: lanes, {**each, "rank": rank, "id": 0}) for each in asked]
    return [lane for each in got if each for lane in each.content.get("lanes", [])]


def _by_importance(found: Mapping[int, list[dict[str, Any]]]) -> Iterator[tuple[int, str]]:
    """Lanes by importance: each lane of all ranks before the next lane."""
    for kind in _FIRST:
        of_kind = {
            rank: [each["key"] for each in lanes if each["kind"] == kind]
            for rank, lanes in found.items()
        }
        for place in range(max(map(len, of_kind.values()), default=0)):
            yield from ((rank, keys[place]) for rank, keys in of_kind.items() if place < len(keys))


class TimelinePanel(Panel[Timeline]):
    """What every rank does at each instant: budget of the steps, streams, CPU calls.

    It shows all ranks, follows the selection and sets it: a drag selects a window of time, and a
    click selects a step, a rank or a kernel.
    """

    name = "timeline"
    tab = None
    place = 2
    title = "Timeline"
    any_number_of_ranks = True
    table_labels = COLUMN_LABELS
    needs = (Recorded.KERNELS,)

    lanes: tuple[str, ...] = parameter(Texts())
    """Lanes to add below each rank: ``path`` (critical path), ``modules`` (the module that the GPU
    works for), ``queue`` (queue length), ``bandwidth`` (of copies), ``memory`` (allocated and
    reserved)."""

    _timeline = typed_dict(NOTHING).tag(sync=True)
    _overview = Bytes(b"").tag(sync=True, to_json=in_runs)

    _lit = cast("List[LitRank]", List()).tag(sync=True)

    def _selection_changed(self, name: str) -> None:
        """Highlight the intervals of the selected finding."""
        super()._selection_changed(name)
        if name not in ("finding", "phase", "window_ns"):
            return
        shown: list[LitRank] = []
        place = self.selection.finding
        if place is not None:
            found = diagnosis_of_phase(self.job, self.selection.served_phase)
            finding = found.shown(place)
            if finding is not None:
                shown = lit(found.proof(finding).intervals, self.selection.window_ns)
        self._lit = shown

    def _follow(self) -> None:
        super()._follow()
        self.on_msg(self._answer_browser)

    @validate("lanes")
    def _known_lanes(self, proposal: Bunch) -> tuple[str, ...]:
        try:
            return known_kinds(proposal.value, [*(each.name for each in _OF_JOB), *LANE_KINDS])
        except ParameterError as error:
            raise TraitError(str(error)) from None

    def analyse(self, ranks: list[int]) -> Timeline:
        """Lay out all ranks, or only the selected ones if the panel is not linked to others."""
        self.job.select_ranks(ranks)
        asked = () if self.linked else tuple(ranks)
        return self._memo.call(timeline, self.job, asked or None, kinds=_OF_JOB)

    def tabulate(self, result: Timeline) -> pd.DataFrame:
        """List the classes of the budget that occur, by rank."""
        table = result.coverage
        return table.loc[:, table.columns.isin(["rank", "period_ns"]) | table.any()]

    def nothing_to_show(self, result: Timeline) -> str | None:
        """Explain an empty panel: no GPU work."""
        return None if result.coverage["period_ns"].any() else result.finding

    @button("Perfetto: this window")
    def write_excerpt(self, output_dir: PathLike | None = None) -> list[Path]:
        """Write the selected window of the selected ranks as small traces, for trace viewers.

        They open in `Perfetto <https://ui.perfetto.dev>`_ and ``chrome://tracing``. Without a
        window, the selected steps are written, and without these all of the analysed time.
        `output_dir` defaults to the panel's, or else to the working folder of the notebook; see
        `hta_widgets.export.excerpt.write_excerpt`.

        Returns
        -------
        list of Path
            The files written, by rank.
        """
        folder = self._folder(output_dir)
        return write_excerpt(self.job, self._window(), self.ranks, output_dir=folder)

    def _window(self) -> tuple[int, int]:
        """The selected window, or else the selected steps, or else the analysed time."""
        if window_ns := self.selection.window_ns:
            return window_ns[0], window_ns[1]
        steps = self.result.steps
        shown = steps[steps["step"].isin(self.selection.steps_of(self.job))]
        if shown.empty:
            return self.result.lanes.analysed
        return int(shown["start_ns"].min()), int(shown["end_ns"].max())

    def _picture(self, result: Timeline) -> str:
        return image(timeline_picture(result), self.title)

    def _view_of(self, outcome: RenderedView[Timeline] | Exception) -> View:
        if isinstance(outcome, RenderedView):
            self._memo.call(self._lay_out, outcome.result)
        return super()._view_of(outcome)

    def _lay_out(self, result: Timeline) -> None:
        steps = {
            rank: [*zip(*(rows[name].tolist() for name in _STEP), strict=True)]
            for rank in result.overviews
            for rows in [result.steps[result.steps["rank"] == rank]]
        }
        ranks, bins, content = overview_bytes(result.lanes, result.overviews, steps)
        spread, band_bins, planes = bands(result.overviews, result.lanes.analysed, len(content))
        held = not self.job.too_many_to_hold(result.overviews)
        with self.hold_sync():
            self._overview = content + planes
            self._timeline = {
                "classes": class_looks(),
                "ranks": ranks,
                "span": (*result.lanes.span,),
                "home": (*result.lanes.analysed,),
                "bins": bins,
                "held": held,
                "bands": spread,
                "band_bins": band_bins,
                "band_pixels": most_band_pixels(len(result.overviews)) if spread and held else 0,
            }

    def report_state(self) -> dict[str, Any]:
        """Answers that a page without a kernel cannot ask for."""
        return {"_recorded": recorded(self.result.lanes, self._timeline, self.lanes)}

    def _lanes(self) -> JobLanes:
        return self.result.lanes

    @locked
    def _answer_browser(self, _: object, request: Any, buffers: object) -> None:  # noqa: ANN401
        answered = answer(self._lanes, request)
        if answered is None:
            return
        content, buffers = answered
        if "error" in content:
            content["error"] = self._shortening()(content["error"])
        self.send(*packed(Answer(content, buffers)))
