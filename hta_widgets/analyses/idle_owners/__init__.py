"""Why each GPU is idle, and which CPU call the time belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hta_widgets.analyses.budget.classes import CLASS_LABELS
from hta_widgets.analyses.budget.device_steps import CLASS_NAMES
from hta_widgets.analyses.budget.idle_gaps import PARTS, busy_time, gaps_of, owned_time
from hta_widgets.analyses.budget.idle_segments import NOBODY
from hta_widgets.analyses.idle_owners.paths import (
    KINDS,
    NO_PATH,
    MergedPaths,
    PathTable,
    all_lines,
    all_paths,
    merge_tables,
    node_of_place,
)
from hta_widgets.analyses.idle_owners.sums import (
    BY_CAUSE,
    BY_OWNER,
    USUAL_CLASS,
    SelectedTime,
    Sums,
    idle_sums,
    selected_time,
)
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.time.call_sums import sums_at
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.causes import (
    CAUSE_NAMES,
    CODE,
    IDLE_CAUSES,
    NO_CALL,
    WITHOUT_OPERATORS,
    IdleCause,
    Share,
    as_counted,
    idle_cause,
)
from hta_widgets.analyses.time.rows import Columns, joined_table, sums_by_text, texts_at
from hta_widgets.analyses.time.selection import EVERYTHING, TimeSelection
from hta_widgets.analyses.time.window import NO_STEP, lead_in_end, window_of
from hta_widgets.arrays import Int8Array, Int32Array, Int64Array, Mask
from hta_widgets.grouping import distinct, grouped
from hta_widgets.intervals import Times
from hta_widgets.names.shorten import short_name
from hta_widgets.quantities import duration, percent
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.events import TextColumn
from hta_widgets.trace.model.formats import Recorded
from hta_widgets.trace.model.notices import Notice
from hta_widgets.trace.ranks.rank import Rank

WORTH_SAYING: Final = 0.03
"""Idle share of the time at which idle time is worth a sentence."""

UNKNOWN_WORTH_SAYING: Final = 0.1
"""Share of the idle time at which idle time of unknown cause is in the sentence."""

LINE_WORTH_SAYING: Final = 0.05
"""Share of the idle time at which the line or call with most of it is in the sentence."""

NAME_WIDTH: Final = 60
_UNKNOWN = "launch_not_recorded"

_STACKS_ADVICE = (
    "no Python frames were recorded; with_stack=True shows which code runs outside operators"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class IdleOwners(Result):
    """Idle time of each GPU by cause, and by the CPU call that it belongs to.

    All times are int64 ns. For each rank and device, `causes`, `owners` and `devices` have the same
    idle time to the nanosecond, also for each step and part.

    Attributes
    ----------
    devices : DataFrame
        One row per rank and device: ``rank``, ``device``, ``window_ns`` (the analysed
        time: from the first analysed ProfilerStep to the end of the last one or of its GPU work;
        without steps, from the first start to the last end of calls and GPU work), ``busy_ns``
        (time with any recorded GPU work), ``idle_ns`` (the rest), ``gaps``
        (uninterrupted idle intervals).
    causes : DataFrame
        One row per rank, device, step, part, cause and class: ``step`` (number of the ProfilerStep,
        -1 before the first, after the last, and without steps), ``part`` (``head``: before the
        first work; ``between``; ``tail``: after the last), ``cause`` (what the host did meanwhile,
        or what held the work back: see `IDLE_CAUSES`), ``class`` (where it counts in the budget
        of a step, empty outside of steps: see `BUDGET`), ``initialises`` (whether it counts as
        initialising there, as first calls that allocate or launch do), ``idle_ns``, ``gaps``
        (intervals with such time).
    owners : DataFrame
        The same by owner, longest first: ``rank``, ``device``, ``cause``, ``class``,
        ``initialises``, ``part``, ``step``, ``pid``, ``tid`` (thread whose time it is; -1 for
        none), ``owner`` (name of the innermost call, empty for none), ``kind`` (of the call),
        ``path`` (in `paths`, -1 for none), ``idle_ns``, ``pieces`` (uninterrupted stretches of one
        class).
    paths : DataFrame
        The calls around the owners, one row per path of names: ``path``, ``parent`` (path of the
        call around it, -1 for none), ``name``, ``kind``, ``depth`` (number of calls around it).
    drains : DataFrame
        Blocking calls that let the GPU run dry, by path: ``rank``, ``call``, ``owner_path`` (path
        of the call), ``count`` (calls), ``call_ns`` (sum of their durations), ``idle_behind_ns``
        (time with the cause ``synchronising`` in the idle intervals that they left).
    """

    devices: pd.DataFrame
    causes: pd.DataFrame
    owners: pd.DataFrame
    paths: pd.DataFrame
    drains: pd.DataFrame

    def in_budget(self) -> IdleOwners:
        """Only idle time in steps or, without steps, between the first and the last GPU work.

        This is what a diagnosis counts. If there is none, all idle time is returned; else,
        ``devices`` has no ``gaps``.
        """
        is_outside = self.causes["class"] == ""
        if is_outside.all() or not is_outside.any():
            return self
        devices, keys = self.devices.drop(columns="gaps"), ["rank", "device"]
        outside_ns = self.causes["idle_ns"].where(is_outside, 0)
        by_device = outside_ns.groupby([self.causes[key] for key in keys]).sum()
        at = pd.MultiIndex.from_frame(devices[keys])
        for name in ("window_ns", "idle_ns"):
            devices[name] -= by_device.reindex(at, fill_value=0).to_numpy()
        owners = self.owners[self.owners["class"] != ""].reset_index(drop=True)
        causes = self.causes[~is_outside].reset_index(drop=True)
        return replace(self, devices=devices, causes=causes, owners=owners)


def idle_owners(
    job: Job,
    ranks: Iterable[int] | None = None,
    *,
    steps: Iterable[int] | None = None,
    window_ns: Sequence[int] | None = None,
) -> IdleOwners:
    """Find out why each GPU is idle, and which CPU call the time belongs to.

    Every nanosecond in which no work runs on a device has one cause. Until the call that launches
    the next work starts, the cause is what the launching thread does; then it is the launch call
    itself; after the call, what holds the work back on the GPU. If the launch is not in the trace,
    the cause is unknown.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.
    steps : iterable of int, optional
        Only these ProfilerSteps; all that are analysed when not given or empty.
    window_ns : pair of int, optional
        Only the time between these two, in ns since the first event of all ranks. The cause of each
        idle interval is decided as a whole.
    """
    chosen = select_ranks(job, ranks)
    selection = TimeSelection.of(job, chosen, steps=steps, window_ns=window_ns)
    each = [*job.reduce(idle_tables, chosen, selection or EVERYTHING).values()]
    devices, causes, owners, drains, merged = _joined(each)
    may_have_frames = any(not job.sources[rank].format.lacks for rank in chosen)
    has_frames = any(tables.has_frames for tables in each)
    found = IdleOwners(
        devices=devices,
        causes=causes,
        owners=owners,
        paths=merged.table,
        drains=drains,
        finding="",
        notices=(*job.notices_for(chosen, Recorded.KERNELS), *job.noticed(_lead_in, chosen)),
    )
    counted = found if selection else found.in_budget()
    whole = "the selected time" if selection else _whole(found, counted)
    finding = idle_owner_finding(
        counted,
        merged,
        whole,
        has_operators=not job.lacking(chosen, Recorded.OPERATORS),
        doubt=job.doubt_of_idle_time(chosen),
    )
    advice = stacks_advice(counted.causes) if may_have_frames and not has_frames else ()
    return replace(found, finding=finding, notices=(*found.notices, *(advice if finding else ())))


def _whole(found: IdleOwners, counted: IdleOwners) -> str:
    """Words for the time that a finding counts, and for what it leaves out if that is much."""
    has_steps = (found.causes["step"] != NO_STEP).any()
    whole, where = "the analysed time", "outside of its steps"
    if not has_steps:
        whole, where = "the GPU span" if counted is not found else "the recording", "outside of it"
    window_ns = int(counted.devices["window_ns"].sum())
    outside_ns = int(found.devices["window_ns"].sum()) - window_ns
    is_much = outside_ns >= WORTH_SAYING * window_ns and outside_ns > 0
    return f"{whole}, without {duration(outside_ns)} {where}" if is_much else whole


def _lead_in(rank: Rank) -> tuple[Notice, ...]:
    """Notice on time that is left out: the device is busy with work from before the recording."""
    begin_ns = window_of(rank).start_ns
    ends_ns = [lead_in_end(rank, device) for device in rank.gpu_work.devices]
    longest_ns = max((end_ns - begin_ns for end_ns in ends_ns if end_ns is not None), default=0)
    if longest_ns <= 0:
        return ()
    said = (
        f"for the first {duration(longest_ns)}, the GPU was busy with, or blocked on, work "
        "launched before the recording: that time is left out"
    )
    return (Notice(said),)


def _joined(
    each: list[RankTables],
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, pd.DataFrame, MergedPaths]:
    """Tables of all ranks, with the paths of all ranks in one table."""
    merged = merge_tables([tables.paths for tables in each])
    drains = [
        {**tables.drains, "owner_path": of_rank[tables.drains["owner_path"]]}
        for tables, of_rank in zip(each, merged.of_rank, strict=True)
    ]
    return (
        joined_table([tables.devices for tables in each]),
        joined_table([tables.causes for tables in each]),
        owner_table([tables.owners for tables in each], merged),
        joined_table(drains),
        merged,
    )


def idle_owner_finding(
    counted: IdleOwners,
    paths: MergedPaths,
    whole: str,
    *,
    has_operators: bool,
    doubt: str = "",
) -> str:
    """Sentence on the largest cause, its owner and the line with most; empty below `WORTH_SAYING`.

    ``whole`` names the time that is selected, ``doubt`` why it may not have been idle. A line of
    Python counts for what runs inside it, except inside another line.
    """
    devices = counted.devices
    causes, owners = as_counted(counted.causes), as_counted(counted.owners)
    if devices.empty:
        return "No GPU work was recorded on the selected ranks."
    idle_ns, window_ns = int(devices["idle_ns"].sum()), int(devices["window_ns"].sum())
    if idle_ns < WORTH_SAYING * window_ns or not idle_ns:
        return ""
    # ranks may share a GPU: two processes on one GPU were said to be "on 2 GPUs"
    each = "ranks" if devices["rank"].is_unique else "GPUs"
    where = f" on {len(devices)} {each}" if len(devices) > 1 else ""
    share = f"({percent(100 * idle_ns / window_ns)} of {whole})"
    if doubt:
        said = f"{duration(idle_ns)}{where} {share} look idle, but may have been busy"
        return f"{said}: {doubt}."
    of = f"Of {duration(idle_ns)} idle{where} {share}"
    known = sums_by_text(causes["cause"], causes["idle_ns"])
    unknown_ns = known.pop(_UNKNOWN, 0)
    if not known or unknown_ns > sum(known.values()):
        return (
            f"{of}, the cause of {percent(100 * unknown_ns / idle_ns)} is unknown: the launch of "
            "the next work is not in the trace."
        )
    largest, largest_ns = max(known.items(), key=itemgetter(1))
    cause = idle_cause(largest)
    is_any_code = cause.name == "host_code" and not has_operators
    phrase = WITHOUT_OPERATORS if is_any_code else cause.phrase
    said = phrase.format(percent(100 * largest_ns / idle_ns)) + _counted(cause, causes)
    if cause.share is not Share.GPU:
        said += _most_in((owners["cause"] == cause.name).to_numpy(), owners, paths)
    if unknown_ns >= UNKNOWN_WORTH_SAYING * idle_ns:
        said += f"; {percent(100 * unknown_ns / idle_ns)} is of unknown cause (launch not recorded)"
    return f"{of}, {said}{_longest(owners, paths, idle_ns, said)}."


def _counted(cause: IdleCause, causes: pd.DataFrame) -> str:
    """The class that most of a cause counts for, if it is not the usual one.

    Code that prepares the next batch, for example, may not have the name of a DataLoader.
    """
    own = causes[causes["cause"] == cause.name]
    by_class = sums_by_text(own["class"], own["idle_ns"])
    most = max(by_class, key=by_class.__getitem__)
    is_usual = most in ("", USUAL_CLASS[cause.name])
    return "" if is_usual else f", counted as {CLASS_LABELS[most]}"


def _longest(owners: pd.DataFrame, paths: MergedPaths, idle_ns: int, said: str) -> str:
    """The line of Python, or else the call, with the most idle time; empty if named already."""
    owned_ns = owners["idle_ns"].to_numpy()
    noun = "line of Python with the most"
    most, most_ns = _most(owned_ns, owners, paths, paths.line)
    if not most_ns:  # time held back on the GPU is no time of the call that launched the work
        held_back = [each.name for each in IDLE_CAUSES if each.share is Share.GPU]
        owned_ns = np.where(owners["cause"].isin(held_back), 0, owned_ns)
        noun = "call in which the CPU spent the most"
        most, most_ns = _most(owned_ns, owners, paths, paths.name)
    if most_ns < LINE_WORTH_SAYING * idle_ns or not most_ns or f"in {most} (" in said:
        return ""
    return f"; the {noun} is {most} ({duration(most_ns)})"


def _most_in(chosen: Mask, owners: pd.DataFrame, paths: MergedPaths) -> str:
    """The owner with the most time in some rows, in words; that may be no recorded call."""
    idle_ns = np.where(chosen, owners["idle_ns"].to_numpy(), 0)
    most, most_ns = _most(idle_ns, owners, paths, paths.name)
    if not most_ns:
        return ""
    outside_ns = int(idle_ns[owners["path"] < 0].sum())
    if outside_ns > most_ns:
        most, most_ns = "no recorded call", outside_ns
    part = "most" if 2 * most_ns > idle_ns.sum() else "the largest part"
    return f", {part} in {most} ({duration(most_ns)})"


def _most(
    idle_ns: Times, owners: pd.DataFrame, paths: MergedPaths, name: Int64Array
) -> tuple[str, int]:
    """Which name of the paths has the most idle time of the rows, and how much (ns)."""
    of_path = sums_at(owners["path"].to_numpy(), idle_ns, name.size)
    of_name = sums_at(name, of_path, len(paths.names))
    if not of_name.any():
        return "", 0
    most = int(of_name.argmax())
    return short_name(paths.names[most], NAME_WIDTH), int(of_name[most])


def stacks_advice(causes: pd.DataFrame) -> list[str]:
    """Notice on what to record if Python frames would say more about the largest cause."""
    if causes.empty:
        return []
    largest, _ = max(sums_by_text(causes["cause"], causes["idle_ns"]).items(), key=itemgetter(1))
    return [_STACKS_ADVICE] if largest in {"host_code", "operator"} else []


class OwnerRows(NamedTuple):
    """Rows of `IdleOwners.owners` of one rank, longest first."""

    rank: int
    device: NDArray[np.integer[Any]]
    """Stored in few bytes, like the columns that follow."""
    step: NDArray[np.integer[Any]]
    cause: NDArray[np.integer[Any]]
    """Position in `CAUSE_NAMES`."""
    counted: NDArray[np.integer[Any]]
    """Position in `CLASS_NAMES`."""
    initialises: Mask
    """Whether the budget counts it as initialising."""
    part: NDArray[np.integer[Any]]
    """Position in `PARTS`."""
    kind: Int8Array
    """Position in the names of kinds, -1 for no kind."""
    thread: NDArray[np.integer[Any]]
    """Position in `pid` and `tid`."""
    path: Int32Array
    """Number of the path within the rank, -1 for none."""
    idle_ns: Int64Array
    pieces: Int32Array
    pid: NDArray[Any]
    """Process of each thread; the last is for no thread."""
    tid: NDArray[Any]
    """Number of each thread, likewise."""


class RankTables(NamedTuple):
    """Columns of `IdleOwners` of one rank, with the rank's own numbers of paths.

    Whether Python frames were recorded does not depend on the selected time.
    """

    devices: Columns
    causes: Columns
    owners: OwnerRows
    drains: Columns
    paths: PathTable
    has_frames: bool


def idle_tables(rank: Rank, selection: TimeSelection) -> RankTables:
    """Idle time of a rank by cause and owner, in some of its time."""
    selected = selected_time(rank, selection)
    owners = idle_sums(rank, selected, BY_OWNER)
    drains = _drains(rank, selected)
    nodes, drain_nodes = owners.keys["node"], drains["owner_path"]
    names = rank.trace.events.name.values
    paths, number = PathTable.of(
        all_paths(rank), all_lines(rank), distinct(np.concatenate((nodes, drain_nodes))), names
    )
    drains["owner_path"] = number[drain_nodes]
    return RankTables(
        devices=_devices(rank, selection, selected),
        causes=_causes(rank, selected),
        owners=_owner_rows(rank, owners, number[nodes]),
        drains=drains,
        paths=paths,
        has_frames=calls_of(rank).has_frames,
    )


def _devices(rank: Rank, selection: TimeSelection, selected: SelectedTime) -> Columns:
    rows = []
    gap_device = gaps_of(rank).device[distinct(selected.segments.gap)]
    for device in rank.gpu_work.devices:
        time, busy = selection.time(rank, device), busy_time(rank, device)
        before_ns = busy.covered_until(np.stack((time.starts, time.ends)))
        busy_ns = int((before_ns[1] - before_ns[0]).sum())
        gaps = np.count_nonzero(gap_device == device)
        rows.append((device, time.length, busy_ns, time.length - busy_ns, gaps))
    numbers = np.array(rows, dtype=np.int64).reshape(-1, 5)
    names = ("device", "window_ns", "busy_ns", "idle_ns", "gaps")
    columns = dict(zip(names, numbers.T, strict=True))
    return {"rank": np.full(len(rows), rank.trace.rank), **columns}


def _causes(rank: Rank, selected: SelectedTime) -> Columns:
    keys, idle_ns, intervals = idle_sums(rank, selected, BY_CAUSE)
    return {
        "rank": np.full(idle_ns.size, rank.trace.rank),
        "device": keys["device"].astype(np.int64),
        "step": keys["step"].astype(np.int64),
        "part": TextColumn(keys["part"], PARTS),
        "cause": TextColumn(keys["cause"], CAUSE_NAMES),
        "class": TextColumn(keys["class"], CLASS_NAMES),
        "initialises": keys["initialises"],
        "idle_ns": idle_ns,
        "gaps": intervals,
    }


def _owner_rows(rank: Rank, sums: Sums, path: Int64Array) -> OwnerRows:
    """Idle time by owner, with the paths of a table."""
    calls, keys = calls_of(rank), sums.keys
    ids = [(each.pid, each.tid) for each in calls.threads] + [(NOBODY, NOBODY)]
    pid, tid = map(calls.events.ids_in_source, np.array(ids, dtype=np.int64).T)
    return OwnerRows(
        rank=rank.trace.rank,
        device=keys["device"].astype(np.int32),
        step=keys["step"].astype(np.int32),
        cause=keys["cause"],
        counted=keys["class"],
        initialises=keys["initialises"],
        part=keys["part"],
        kind=np.append(all_paths(rank).kind, np.int8(NOBODY))[keys["node"]],
        thread=keys["thread"],
        path=path.astype(np.int32),
        idle_ns=sums.idle_ns,
        pieces=sums.counts.astype(np.int32),
        pid=pid,
        tid=tid,
    )


def _drains(rank: Rank, selected: SelectedTime) -> Columns:
    """Blocking calls by path, with the idle time that passes after them."""
    calls = calls_of(rank)
    place, length_ns = _after_drains(rank, selected)
    by_call = grouped(place)
    each, after_ns = place[by_call.first], by_call.reduce(np.add, length_ns)
    groups = grouped(node_of_place(rank)[each])
    idle_behind_ns = groups.reduce(np.add, after_ns)
    by_time = np.argsort(-idle_behind_ns, kind="stable")
    nodes = node_of_place(rank)[each[groups.first]][by_time].astype(np.int64)
    call_ns = groups.reduce(np.add, calls.events.duration_ns[calls.forest.rows[each]])
    names, codes = rank.trace.events.name.values, all_paths(rank).name
    return {
        "rank": np.full(nodes.size, rank.trace.rank, dtype=np.int64),
        "call": TextColumn.of(names[code] for code in codes[nodes].tolist()),
        "owner_path": nodes,
        "count": groups.sizes[by_time],
        "call_ns": call_ns[by_time],
        "idle_behind_ns": idle_behind_ns[by_time],
    }


def _after_drains(rank: Rank, selected: SelectedTime) -> tuple[Int64Array, Int64Array]:
    """Idle time after blocking calls that is due to them: place of each call, and length."""
    owned, segments = owned_time(rank), selected.segments
    drain = owned.drain[segments.gap]
    after = (drain != NO_CALL) & (owned.cause[selected.at] == CODE["synchronising"])
    return drain[after].astype(np.int64), segments.length_ns[after].astype(np.int64)


def owner_table(ranks: Sequence[OwnerRows], merged: MergedPaths) -> pd.DataFrame:
    """Rows of one or more ranks, longest first, with the paths of all ranks."""
    path = _concatenated(
        [of_rank[rows.path] for rows, of_rank in zip(ranks, merged.of_rank, strict=True)]
    )
    idle_ns = _concatenated([rows.idle_ns for rows in ranks])
    columns = {
        "rank": np.repeat([rows.rank for rows in ranks], [rows.path.size for rows in ranks]),
        "device": _concatenated([rows.device for rows in ranks]).astype(np.int64),
        "cause": texts_at(CAUSE_NAMES, _concatenated([rows.cause for rows in ranks])),
        "class": texts_at(CLASS_NAMES, _concatenated([rows.counted for rows in ranks])),
        "initialises": _concatenated([rows.initialises for rows in ranks]),
        "part": texts_at(PARTS, _concatenated([rows.part for rows in ranks])),
        "step": _concatenated([rows.step for rows in ranks]).astype(np.int64),
        "pid": _concatenated([rows.pid[rows.thread] for rows in ranks]),
        "tid": _concatenated([rows.tid[rows.thread] for rows in ranks]),
        "owner": texts_at([*merged.names, ""], np.append(merged.name, NO_PATH)[path]),
        "kind": texts_at(KINDS, _concatenated([rows.kind for rows in ranks])),
        "path": path,
        "idle_ns": idle_ns,
        "pieces": _concatenated([rows.pieces for rows in ranks]).astype(np.int64),
    }
    table = pd.DataFrame(columns, copy=False)  # all are new
    if len(ranks) == 1:
        return table
    return table.take(np.argsort(-idle_ns, kind="stable")).reset_index(drop=True)


def _concatenated(columns: list[NDArray[Any]]) -> NDArray[Any]:
    return columns[0] if len(columns) == 1 else np.concatenate(columns)
