"""A trace with a name, and what it runs: one side of a `TraceDiff`."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from hta_widgets.errors import ParameterError, UnknownStepError
from hta_widgets.names.shorten import plain_name
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import as_job
from hta_widgets.trace.remote.urls import PathLike
from hta_widgets.trace_analysis import TraceAnalysis

if TYPE_CHECKING:
    import pandas as pd


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
        """Numbers of the ProfilerSteps of all ranks, also of the last one."""
        from hta_widgets.hta_tables.operation_sums import steps_of

        steps = self.job.reduce(steps_of, self.job.ranks).values()
        return sorted(set[int]().union(*steps))

    def extract_ops(
        self,
        rank: int | Iterable[int] | None = None,
        iteration: int | Iterable[int] | None = None,
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

    def _chosen_ranks(self, rank: int | Iterable[int] | None) -> list[int]:
        return _numbers(rank) or self.ranks()[:1]

    def _chosen_steps(self, iteration: int | Iterable[int] | None) -> tuple[int, ...] | None:
        known, asked = self.iterations(), _numbers(iteration)
        if not set(asked) <= set(known):
            raise UnknownStepError.from_steps(asked, set(known))
        return tuple(asked or known[:1]) or None

    def _parts(
        self, rank: int | Iterable[int] | None, iteration: int | Iterable[int] | None
    ) -> int:
        """Number of steps on all ranks that are counted."""
        return len(self._chosen_ranks(rank)) * len(self._chosen_steps(iteration) or (0,))


def _numbers(numbers: int | Iterable[int] | None) -> list[int]:
    if numbers is None:
        return []
    return [int(each) for each in numbers] if isinstance(numbers, Iterable) else [int(numbers)]
