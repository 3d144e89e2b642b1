"""HTA's `TraceDiff`: which operators and kernels two traces run, how often and for how long."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from hta_widgets.errors import ParameterError, UnknownStepError
from hta_widgets.names.shorten import plain_name
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import as_job
from hta_widgets.trace.remote.urls import PathLike
from hta_widgets.trace_analysis import TraceAnalysis, show_figure

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


Numbers: TypeAlias = int | Iterable[int] | None
Compared: TypeAlias = "LabeledTrace | Job | TraceAnalysis | PathLike"

_log = logging.getLogger(__name__)

_CHANGES: Final = {"+": "increased", "-": "decreased", "=": "unchanged"}


class DeviceType(Enum):
    """Where events run."""

    CPU = 1
    GPU = 2
    ALL = 3


class LabeledTrace:
    """A trace with a name.

    Parameters
    ----------
    label : str, optional
        The name of the trace by default.
    t : Job, TraceAnalysis or path, optional
        The trace; it stays as it is.
    trace_dir : path, optional
        Its folder, in place of `t`.
    """

    def __init__(
        self,
        label: str | None = None,
        t: Job | TraceAnalysis | PathLike | None = None,
        trace_dir: PathLike | None = None,
    ) -> None:
        source = trace_dir if t is None else t
        if source is None or not (t is None or trace_dir is None):
            msg = "a LabeledTrace takes either t= or trace_dir="
            raise ParameterError(msg)
        self.job: Job = as_job(source)
        self.label = self.job.name if label is None else label

    def ranks(self) -> list[int]:
        """All ranks."""
        return list(self.job.ranks)

    def iterations(self) -> list[int]:
        """Numbers of the ProfilerSteps of all ranks, including the last one."""
        from hta_widgets.hta_tables.operation_sums import steps_of

        steps = self.job.reduce(steps_of, self.job.ranks).values()
        return sorted(set[int]().union(*steps))

    def extract_ops(
        self,
        rank: Numbers = None,
        iteration: Numbers = None,
        device_type: DeviceType = DeviceType.ALL,
    ) -> pd.DataFrame:
        """Count what some ranks do in some steps.

        Parameters
        ----------
        rank : int or list of int, optional
            The first rank by default.
        iteration : int or list of int, optional
            The first step by default; all of the recording if there are no steps.
        device_type : DeviceType

        Returns
        -------
        DataFrame
            One row per rank, name and kind: ``rank``, ``name``, ``cat``, ``on_gpu``, ``counts``,
            ``total_duration``, ``self_duration`` (µs).

        Raises
        ------
        UnknownRankError
            If the trace lacks a rank.
        UnknownStepError
            If the trace lacks a step.
        """
        import pandas as pd

        from hta_widgets.hta_tables.operation_sums import operation_sums
        from hta_widgets.quantities import NS_PER_US

        ranks = self.job.select_ranks(self._chosen_ranks(rank))
        steps = self._chosen_steps(iteration)
        of_ranks = self.job.reduce(operation_sums, ranks, steps)
        each = [table.assign(rank=number) for number, table in of_ranks.items()]
        table = pd.concat(each, ignore_index=True)
        if device_type is not DeviceType.ALL:
            table = table[table["on_gpu"] == (device_type is DeviceType.GPU)]
        return pd.DataFrame(
            {
                **{name: table[name] for name in ("rank", "name", "cat", "on_gpu", "counts")},
                "total_duration": table["total_ns"] / NS_PER_US,
                "self_duration": table["self_ns"] / NS_PER_US,
            }
        ).reset_index(drop=True)

    def get_ops_summary(self, ops: pd.DataFrame) -> pd.DataFrame:
        """Sum up what `extract_ops` returned, by kind and name.

        Returns
        -------
        DataFrame
            ``cat``, ``name``, ``short_name``, ``counts``, ``total_duration`` (µs), ``cat_id``,
            ``name_id``, ``self_duration`` (µs).
        """
        sums = ops.groupby(["cat", "name"], as_index=False)[
            ["counts", "total_duration", "self_duration"]
        ].sum()
        sums.insert(2, "short_name", [plain_name(name) for name in sums["name"]])
        for place, column in ((5, "cat"), (6, "name")):
            sums.insert(place, f"{column}_id", sums[column].astype("category").cat.codes)
        return sums

    def _chosen_ranks(self, rank: Numbers) -> list[int]:
        return _numbers(rank) or self.ranks()[:1]

    def _chosen_steps(self, iteration: Numbers) -> tuple[int, ...] | None:
        known, asked = self.iterations(), _numbers(iteration)
        if not set(asked) <= set(known):
            raise UnknownStepError.from_steps(asked, set(known))
        return tuple(asked or known[:1]) or None

    def _parts(self, rank: Numbers, iteration: Numbers) -> int:
        """Number of counted steps, over all ranks."""
        return len(self._chosen_ranks(rank)) * len(self._chosen_steps(iteration) or (0,))


def _numbers(numbers: Numbers) -> list[int]:
    if numbers is None:
        return []
    return [int(each) for each in numbers] if isinstance(numbers, Iterable) else [int(numbers)]


class TraceDiff:
    """The difference between two traces, by names of operators and kernels."""

    @classmethod
    def compare_traces(  # noqa: PLR0917
        cls,
        control: Compared,
        test: Compared,
        control_rank: Numbers = None,
        test_rank: Numbers = None,
        control_iteration: Numbers = None,
        test_iteration: Numbers = None,
        device_type: DeviceType = DeviceType.ALL,
        use_short_name: bool = False,  # noqa: FBT001, FBT002
    ) -> pd.DataFrame:
        """Count what both traces do, and compare the counts.

        Parameters
        ----------
        control, test : LabeledTrace, Job, TraceAnalysis or path
            The traces to compare; neither is changed.
        control_rank, test_rank : int or list of int, optional
            The first rank by default.
        control_iteration, test_iteration : int or list of int, optional
            Numbers of ProfilerSteps, the first one by default. If neither trace has steps, all of
            the recordings are compared.
        device_type : DeviceType
            Where the events run.
        use_short_name : bool
            Merge names that differ only in template arguments and signatures.

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
            msg = f"{without.label} has no ProfilerSteps, unlike the other trace; compare like"
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
        control: Compared,
        test: Compared,
        control_rank: Numbers = None,
        test_rank: Numbers = None,
        control_iteration: Numbers = None,
        test_iteration: Numbers = None,
        device_type: DeviceType = DeviceType.ALL,
    ) -> dict[str, list[str]]:
        """Names, grouped by how their counts changed.

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
            Sort and truncate it first: every row gets bars.
        show_image : bool
            Show the figure; False returns it.
        export_image_path : path, optional
            Write an image to this path; needs the package ``kaleido``.

        Returns
        -------
        plotly.graph_objects.Figure or None
            None if the figure is shown, as the last line of a cell would show it again.
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
    control: Compared,
    test: Compared,
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
    rank: Numbers,
    iteration: Numbers,
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
