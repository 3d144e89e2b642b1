"""What two traces do differently."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from hta_widgets.errors import ParameterError
from hta_widgets.names.shorten import plain_name
from hta_widgets.trace.job import Job
from hta_widgets.trace.remote.urls import PathLike
from hta_widgets.trace_analysis import TraceAnalysis, show_figure
from hta_widgets.trace_diff.labeled_trace import DeviceType, LabeledTrace

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

_log = logging.getLogger(__name__)

_CHANGES: Final = {"+": "increased", "-": "decreased", "=": "unchanged"}


class TraceDiff:
    """What two traces do differently, by the names of operators and kernels."""

    @classmethod
    def compare_traces(  # noqa: PLR0917
        cls,
        control: LabeledTrace | Job | TraceAnalysis | PathLike,
        test: LabeledTrace | Job | TraceAnalysis | PathLike,
        control_rank: int | Iterable[int] | None = None,
        test_rank: int | Iterable[int] | None = None,
        control_iteration: int | Iterable[int] | None = None,
        test_iteration: int | Iterable[int] | None = None,
        device_type: DeviceType = DeviceType.ALL,
        use_short_name: bool = False,  # noqa: FBT001, FBT002
    ) -> pd.DataFrame:
        """Count what both traces do, and compare.

        Parameters
        ----------
        control, test : LabeledTrace, Job, TraceAnalysis or path
            Both stay as they are.
        control_rank, test_rank : int or list of int, optional
            The first rank by default.
        control_iteration, test_iteration : int or list of int, optional
            Numbers of ProfilerSteps, the first one by default. If neither trace has steps, all of
            the recordings are compared.
        device_type : DeviceType
            Where the events run.
        use_short_name : bool
            Put together names that differ in template arguments and signatures only.

        Returns
        -------
        DataFrame
            Indexed by ``name`` (or ``short_name``), those of the control trace first:
            ``Control_counts``, ``Control_total_duration``, ``Test_counts``,
            ``Test_total_duration``, ``diff_counts``, ``diff_duration`` (test − control; µs),
            ``counts_change_categories`` (``+``, ``-`` or ``=``); then ``Control_self_duration``,
            ``Test_self_duration`` (µs, of CPU calls without the calls inside), and
            ``Control_duration_per_step``, ``Test_duration_per_step`` (µs per step and rank). With
            `LabeledTrace`, their labels take the place of ``Control`` and ``Test``.

        Raises
        ------
        UnknownRankError
            If a trace lacks a rank.
        UnknownStepError
            If a trace lacks a step.
        ParameterError
            If only one of the traces has steps.
        """
        first, second = _labeled(control, test)
        if bool(first.iterations()) != bool(second.iterations()):
            without = second if first.iterations() else first
            msg = f"{without.label} has no ProfilerSteps and the other trace has; compare like"
            raise ParameterError(msg)
        if not first.iterations():
            _log.warning("TraceDiff: no ProfilerSteps; all of the recordings are compared")
        key = "short_name" if use_short_name else "name"
        sides = [
            (first, control_rank, control_iteration),
            (second, test_rank, test_iteration),
        ]
        sums = [
            _sums(each, rank, iteration, device_type, key=key) for each, rank, iteration in sides
        ]
        parts = [each._parts(rank, iteration) for each, rank, iteration in sides]  # noqa: SLF001
        from hta_widgets.hta_tables.operation_sums import compared_sums

        return compared_sums((first.label, second.label), sums, parts)

    @classmethod
    def ops_diff(  # noqa: PLR0917
        cls,
        control: LabeledTrace | Job | TraceAnalysis | PathLike,
        test: LabeledTrace | Job | TraceAnalysis | PathLike,
        control_rank: int | Iterable[int] | None = None,
        test_rank: int | Iterable[int] | None = None,
        control_iteration: int | Iterable[int] | None = None,
        test_iteration: int | Iterable[int] | None = None,
        device_type: DeviceType = DeviceType.ALL,
    ) -> dict[str, list[str]]:
        """Names by what became of their counts.

        Parameters and errors are those of `compare_traces`.

        Returns
        -------
        dict of str to list of str
            ``added`` and ``deleted`` (in one trace only), ``increased``, ``decreased``,
            ``unchanged``.
        """
        table = cls.compare_traces(
            control,
            test,
            control_rank,
            test_rank,
            control_iteration,
            test_iteration,
            device_type,
        )
        before, after = table.iloc[:, 0], table.iloc[:, 2]
        change = table["counts_change_categories"].map(_CHANGES)
        change = change.mask(before == 0, "added").mask(after == 0, "deleted")
        kinds = ("added", "deleted", *_CHANGES.values())
        return {kind: table.index[change == kind].tolist() for kind in kinds}

    @classmethod
    def visualize_counts_diff(
        cls,
        df: pd.DataFrame,
        show_image: bool = True,  # noqa: FBT001, FBT002
        export_image_path: PathLike | None = None,
    ) -> go.Figure | None:
        """Draw the counts of the rows of `compare_traces`.

        Parameters
        ----------
        df : DataFrame
            Sort and cut it before: every row has bars.
        show_image : bool
            Show the figure; False returns it.
        export_image_path : path, optional
            Write an image, which needs the package ``kaleido``.

        Returns
        -------
        plotly.graph_objects.Figure or None
            None if the figure is shown: the last line of a cell would show it again.
        """
        return _figure(df, "counts", "diff_counts", show_image, export_image_path)

    @classmethod
    def visualize_duration_diff(
        cls,
        df: pd.DataFrame,
        show_image: bool = True,  # noqa: FBT001, FBT002
        export_image_path: PathLike | None = None,
    ) -> go.Figure | None:
        """Draw the durations of the rows of `compare_traces`; see `visualize_counts_diff`."""
        return _figure(df, "total_duration", "diff_duration", show_image, export_image_path)


def _labeled(
    control: LabeledTrace | Job | TraceAnalysis | PathLike,
    test: LabeledTrace | Job | TraceAnalysis | PathLike,
) -> tuple[LabeledTrace, LabeledTrace]:
    first, second = (
        each if isinstance(each, LabeledTrace) else LabeledTrace(label=label, t=each)
        for each, label in ((control, "Control"), (test, "Test"))
    )
    if first.label != second.label:
        return first, second
    return (
        LabeledTrace(f"{first.label}_control", first.job),
        LabeledTrace(f"{second.label}_test", second.job),
    )


def _sums(
    trace: LabeledTrace,
    rank: int | Iterable[int] | None,
    iteration: int | Iterable[int] | None,
    device_type: DeviceType,
    *,
    key: str,
) -> pd.DataFrame:
    ops = trace.extract_ops(rank, iteration, device_type)
    if key == "short_name":
        ops = ops.assign(short_name=[plain_name(name) for name in ops["name"]])
    return ops.groupby(key)[["counts", "total_duration", "self_duration"]].sum()


def _figure(
    df: pd.DataFrame,
    what: str,
    difference: str,
    show_image: bool,  # noqa: FBT001
    export_image_path: PathLike | None,
) -> go.Figure | None:
    from hta_widgets.figures.trace_diff import trace_diff

    columns = [str(name) for name in df if name != difference]
    shown = [*(name for name in columns if name.endswith(f"_{what}")), difference]
    figure = trace_diff(df, shown, what).figure()
    if export_image_path is not None:
        figure.write_image(os.fspath(export_image_path))
    if not show_image:
        return figure
    show_figure(figure)
    return None
