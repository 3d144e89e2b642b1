"""The critical path of a replay: what sets the time of its steps, and what each part is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hta_widgets.arrays import Int64Array, IntArray, Mask
from hta_widgets.diagnosis.replay.binding import Solution
from hta_widgets.diagnosis.replay.host_work import HOST_WORK
from hta_widgets.diagnosis.replay.operations import NONE
from hta_widgets.diagnosis.replay.path_operators import OperatorTimes, RankPieces, operators_of
from hta_widgets.diagnosis.replay.pieces import CLASSES, OPERATION_CLASSES, Pieces, pieces
from hta_widgets.diagnosis.replay.recorded_job import RecordedJob
from hta_widgets.diagnosis.replay.slack import CRITICAL_NS, Slack
from hta_widgets.errors import UnknownStepError
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.lazy_modules import pd
from hta_widgets.quantities import percent
from hta_widgets.trace.job import Job

SOLVED_TOGETHER: Final = 10
"""Number of kernels (by name) on the path for which the replay is solved again without them."""

_BEFORE: Final = CLASSES.index("before the recording")
_RETURN: Final = CLASSES.index("return from a sync")
_OF_OPERATIONS: Final = [CLASSES.index(name) for name in (*OPERATION_CLASSES.values(), "transfer")]

THE_HOST: Final = "the host"

THE_GPU: Final = "the GPU"

PRECEDING: Final = "what precedes the recording"

UNEXPLAINED: Final = "waiting that nothing recorded explains"

BOUND_BY: Final[Mapping[str, tuple[str, ...]]] = {
    THE_HOST: (
        "host",
        *(name for name in HOST_WORK if name != "loading"),
        "launch latency",
        "return from a sync",
    ),
    THE_GPU: (
        *("compute", "graph", "other GPU work"),
        *("kernel start", "dependency", "room on the GPU"),
    ),
    "copying": ("copies",),
    "communication": ("communication", "transfer"),
    "data loading": ("loading",),
    PRECEDING: ("before the recording",),
    UNEXPLAINED: ("unexplained",),
}
"""What may set the time of a step, and the classes of the path that count towards it."""


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """The longest chain of what waits for what, to the end of the last step that counts.

    Shortening what is on the path need not gain anything: another path may be hardly shorter. Drag
    is the time gained without one operation.
    """

    job: RecordedJob
    steps: tuple[int, ...]
    """Numbers of the steps that count."""
    between: tuple[int, ...]
    """Numbers of all steps from the first of these to the last."""
    edges_ns: Times
    """Boundaries of the steps in ``between``, on the common clock: one more than steps."""
    parts: Pieces
    """The pieces as arrays, at their times in the replay."""
    slack: Slack
    """Slack and drag of everything."""

    @classmethod
    def of(cls, solution: Solution, steps: Sequence[int] = ()) -> CriticalPath:
        """Find the path through all steps of a job, or through some.

        The path ends with the last of the steps that count; what is in none of them is cut out.

        Raises
        ------
        UnknownStepError
            If the job lacks a step.
        """
        job = solution.network.job
        chosen = tuple(steps) or job.steps
        if not {*chosen} <= {*job.steps}:
            raise UnknownStepError.from_steps(chosen, job.steps)
        first, last = job.steps.index(chosen[0]), job.steps.index(chosen[-1])
        between = job.steps[first : last + 1]
        ends = solution.network.step_ends(solution.nodes)
        edges = np.append(job.first_ns.min(), ends)[first : last + 2]
        candidates = job.last[job.last_step <= last]
        slack = Slack(solution, candidates, float(edges[0]), float(edges[-1]))
        edges_ns = np.rint(edges).astype(np.int64)
        found = Pieces.nothing()
        if candidates.size:  # otherwise, no launch is known to be in these steps
            end = int(candidates[np.argmax(solution.times.end[candidates])])
            found = pieces(solution, end, float(edges[0])).cut(edges_ns)
            place = np.searchsorted(edges_ns[1:], found.end_ns)
            found = found.take(np.isin(between, chosen)[place])
        return cls(job, chosen, between, edges_ns, found, slack)

    @property
    def length_ns(self) -> int:
        """Length of the steps together."""
        return int(np.diff(self.edges_ns)[np.isin(self.between, self.steps)].sum())

    @cached_property
    def pieces(self) -> pd.DataFrame:
        """The pieces of the path in order of time; each starts where the one before ends.

        What is known to be the profiler's own time is left out between them.

        ``start_ns``, ``end_ns`` (as recorded, on the common clock), ``class`` (one of `CLASSES`),
        ``rank``, ``step``, ``kernel`` (name of the operation, empty on the host), ``row`` (of the
        operation in the events of the rank, -1 on the host), ``stream`` (number of its stream among
        those of the rank, -1 on the host), ``call`` (row of the call that launches, that waits, or
        that ends an interval of the host; -1 for none), ``call_before`` (row of the call that
        starts an interval of the host, -1 for none), ``operation`` (position in the `RecordedJob`,
        -1 on the host), ``ns`` and ``percent`` (of the path).
        """
        parts, job, rows = self.parts, self.job, self._rows
        names, code = job.names
        on_host = parts.operation == NONE
        return pd.DataFrame(
            {
                "start_ns": parts.start_ns + self.earlier_ns,
                "end_ns": parts.end_ns + self.earlier_ns,
                "class": np.array(CLASSES, dtype=object)[parts.of],
                "rank": np.array(job.ranks, dtype=np.int64)[parts.rank],
                "step": np.array(self.between, dtype=np.int64)[self._step_place],
                "kernel": pd.Series(  # shares names: as Arrow texts, 400 k of them take 90 MB
                    np.array([*names, ""], dtype=object)[_at(code, parts.operation)], dtype=object
                ),
                "row": _at(rows.operation, parts.operation),
                "stream": _at(rows.stream, parts.operation),
                "call": _at(rows.point, parts.point),
                "call_before": np.where(on_host, _at(rows.before, parts.point), NONE),
                "operation": parts.operation.astype(np.int64),
                **self._share(parts.length_ns),
            }
        )

    @property
    def earlier_ns(self) -> Times:
        """How much earlier each piece is than recorded, by the point or operation it ends with."""
        parts, job, times = self.parts, self.job, self.slack.solution.times
        of_operation = np.append(job.end_ns - times.end, 0)[parts.operation]
        of_point = np.append(job.point_ns - times.point, 0)[parts.point]
        at_point = (parts.operation == NONE) | (parts.of == _RETURN)
        return np.rint(np.where(at_point, of_point, of_operation)).astype(np.int64)

    @cached_property
    def _rows(self) -> _Rows:
        return _Rows.of(self.job)

    @property
    def _step_place(self) -> Int64Array:
        return np.searchsorted(self.edges_ns[1:], self.parts.end_ns)

    def _share(self, ns: NDArray[np.int64]) -> dict[str, NDArray[np.number]]:
        return {"ns": ns, "percent": 100 * ns / max(self.length_ns, 1)}

    def _by(self, *columns: str) -> pd.DataFrame:
        """Time by the values of some columns, in order of these."""
        parts, job = self.parts, self.job
        known: dict[str, tuple[Sequence[object], NDArray[np.integer[Any]]]] = {
            "class": (CLASSES, parts.of),
            "rank": (job.ranks, parts.rank),
            "step": (self.between, self._step_place),
        }
        groups = grouped(*(known[name][1] for name in columns))
        found: dict[str, Any] = {}
        for name in columns:
            values, place = known[name]
            found[name] = [values[each] for each in place[groups.first].tolist()]
        table = pd.DataFrame(found | self._share(groups.reduce(np.add, parts.length_ns)))
        return table.sort_values([*columns], ignore_index=True)

    @cached_property
    def by_class(self) -> pd.DataFrame:
        """Time of each class, longest first: ``class``, ``ns``, ``percent``."""
        return self._by("class").sort_values("ns", ascending=False, ignore_index=True)

    @cached_property
    def by_rank(self) -> pd.DataFrame:
        """Time on each rank by class: ``rank``, ``class``, ``ns``, ``percent``.

        Time in which ranks wait for another one counts for the rank that they wait for.
        """
        return self._by("rank", "class")

    @cached_property
    def by_step(self) -> pd.DataFrame:
        """Time in each step by class: ``step``, ``class``, ``ns``, ``percent`` (of the path)."""
        return self._by("step", "class")

    @cached_property
    def shares(self) -> dict[str, float]:
        """Percent of the path by what sets its time, see `BOUND_BY`; largest first."""
        return shares(self.by_class)

    @property
    def bound_by(self) -> str:
        """What sets the time, in words; see the function `bound_by`."""
        return bound_by(self.shares)

    @cached_property
    def by_kernel(self) -> pd.DataFrame:
        """How much of the path each kernel of the steps takes, and the time gained without it.

        ``kernel``, ``calls``, ``critical_calls`` (with a slack of at most 0.5 ns), ``ns`` and
        ``percent`` (on the path), ``slack_ns`` (least of its calls; infinite if the end waits for
        none), ``drag_ns`` (largest of its calls), ``together_ns`` (gained without all its calls: 0
        if none is critical; missing unless the replay was solved again, as for the ten kernels that
        take the most of the path).
        """
        job, slack = self.job, self.slack
        names, code = job.names
        counts = self._counts
        own = np.flatnonzero(counts)
        calls = np.bincount(code[own], minlength=len(names))
        slack_ns = np.full(len(names), np.inf)
        np.minimum.at(slack_ns, code[own], np.maximum(slack.operations_ns[own], 0))
        critical = own[slack.operations_ns[own] <= CRITICAL_NS]
        drag_ns = np.zeros(len(names))
        np.maximum.at(drag_ns, code[own], slack.drag_ns[own])
        chosen = np.flatnonzero(np.isin(self.parts.of, _OF_OPERATIONS))
        ns = np.zeros(len(names), dtype=np.int64)
        np.add.at(ns, code[self.parts.operation[chosen]], self.parts.length_ns[chosen])
        together = np.where(slack_ns > CRITICAL_NS, 0, np.nan)
        for name in np.argsort(-ns, kind="stable")[:SOLVED_TOGETHER].tolist():
            if ns[name]:
                together[name] = self.gain_ns(counts & (code == name))
        found = pd.DataFrame(
            {
                "kernel": np.array(names, dtype=object),
                "calls": calls,
                "critical_calls": np.bincount(code[critical], minlength=len(names)),
                **self._share(ns),
                "slack_ns": slack_ns,
                "drag_ns": drag_ns,
                "together_ns": together,
            }
        )
        found = found[calls > 0]
        return found.sort_values(["ns", "drag_ns"], ascending=False, ignore_index=True)

    @property
    def _counts(self) -> Mask:
        """Operations of the steps; a meeting counts by its finish.

        If the recording starts with a busy GPU, operations launched earlier have a step, too.
        """
        places = [self.job.steps.index(step) for step in self.steps]
        found = np.isin(self.job.step, places)
        found &= self.slack.solution.times.end > self.slack.begin_ns
        found[self.job.arrival] = False
        return found

    def gain_ns(self, operations: Mask) -> float:
        """How much earlier (ns) the end would be if some operations together took no time.

        Communication counts by its finish.
        """
        weights, network = self.slack.solution.weights, self.slack.solution.network
        gone = operations[self.job.finish]
        nodes, _ = network.forward(
            weights.changed(
                duration=np.where(operations, 0, weights.duration),
                transfer=np.where(gone, np.minimum(weights.transfer, 0), weights.transfer),
            )
        )
        end_ns = network.step_ends(nodes)[self.job.steps.index(self.steps[-1])]
        return max(self.slack.end_ns - float(end_ns), 0.0)

    def by_operator(self, job: Job) -> pd.DataFrame:
        """Time of each operator: its own on the host, and that of the GPU work that it launched.

        ``operator``, ``host_ns``, ``gpu_ns``, ``ns``, ``percent``, longest first. ``job`` is the
        job that was replayed, whose ranks have the calls.
        """
        parts = {
            rank: (self._of_rank(place),)
            for place, rank in enumerate(self.job.ranks)
            if (self.parts.rank == place).any()
        }
        before_ns = int(self.parts.length_ns[self.parts.of == _BEFORE].sum())
        columns = [
            *(each._asdict() for each in job.reduce_each(operators_of, parts).values()),
            OperatorTimes.of_host("before the recording", before_ns)._asdict(),
        ]
        found = pd.concat([pd.DataFrame(each) for each in columns])
        found = found.groupby("operator", as_index=False)[["host_ns", "gpu_ns"]].sum()
        whole_ns = (found["host_ns"] + found["gpu_ns"]).to_numpy()
        found = found.assign(**self._share(whole_ns))[whole_ns > 0]
        return found.sort_values("ns", ascending=False, ignore_index=True)

    def _of_rank(self, place: int) -> RankPieces:
        """The pieces of one rank on its own clock."""
        parts, job, rows = self.parts, self.job, self._rows
        own = np.flatnonzero((parts.rank == place) & (parts.of != _BEFORE))
        on_host = parts.operation[own] == NONE
        hosts, others = own[on_host], own[~on_host]
        point = parts.point[hosts]
        clock_ns = np.concatenate(job.of_parts("line.time_ns"))
        point_ns = self.slack.solution.times.point[point]
        shift_ns = np.rint(point_ns).astype(np.int64) - clock_ns[point]
        return RankPieces(
            start_ns=parts.start_ns[hosts] - shift_ns,
            end_ns=parts.end_ns[hosts] - shift_ns,
            call=rows.point[point],
            call_before=rows.before[point],
            operation=_at(rows.operation, parts.operation[others]),
            operation_ns=parts.length_ns[others],
        )


def shares(by_class: pd.DataFrame) -> dict[str, float]:
    """Percent of a path by what sets its time, see `BOUND_BY`; largest first."""
    percents = dict(zip(by_class["class"], by_class["percent"], strict=True))
    found = {
        what: float(sum(percents.get(each, 0) for each in classes))
        for what, classes in BOUND_BY.items()
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def bound_by(shares: Mapping[str, float]) -> str:
    """What sets the time: ``bound by the host (89 % of the critical path)``."""
    what, share = next(iter(shares.items()))
    return f"bound by {what} ({percent(share)} of the critical path)"


class _Rows(NamedTuple):
    """Rows of operations, and of the calls at points, in the events of their ranks.

    ``before`` is the row of the call at the previous point, -1 at the origin of a line; ``stream``
    is the number of the stream among those of the rank.
    """

    operation: Int64Array
    point: Int64Array
    before: Int64Array
    stream: Int64Array

    @classmethod
    def of(cls, job: RecordedJob) -> _Rows:
        operation = np.full(job.stream.size, NONE)
        stream = np.full(job.stream.size, NONE)
        for place, part in enumerate(job.parts):
            own = np.flatnonzero(job.operation_rank == place)
            operation[own] = part.column("row")[job.operation[own]]
            stream[own] = part.column("stream")[job.operation[own]]
        point = np.concatenate([part.point_row for part in job.parts])
        before = np.roll(point, 1)
        before[job.origins] = NONE
        return cls(operation, point, before, stream)


def _at(values: IntArray, places: IntArray) -> Int64Array:
    """Values at some places, -1 at place -1."""
    return np.append(values, NONE)[places]
