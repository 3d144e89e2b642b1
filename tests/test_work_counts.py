"""Work that is counted, not timed: bytes unpacked, objects made, columns copied, rows touched."""

from __future__ import annotations

import sys
import tracemalloc
from collections import Counter
from dataclasses import fields

import numpy as np
import pytest

from benchmarks.big_job import with_kernels
from hta_widgets.intervals import Intervals
from hta_widgets.panels.base.controls import Choice, Slider, Toggle
from hta_widgets.panels.dashboard import PANELS
from hta_widgets.trace.loaders.kineto import packing
from hta_widgets.trace.loaders.kineto import text as event_text
from hta_widgets.trace.loaders.kineto.builder import EventsBuilder
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.model import nesting
from hta_widgets.trace.model.events import TextColumn
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, step, write

LAUNCHES = 3000
BLOCK_BYTES = 65_536
OBJECTS_PER_EVENT = 7
BYTES_PER_ROW = 2
"""Less than any column of numbers takes, but for one or two of single bytes."""
WAITING_BYTES_PER_EVENT = 40
PARENTS_BYTES_PER_EVENT = 16
"""The parents, and the calls in their order: two columns."""


def events(rank):
    """A rank with operators, launches, kernels of all types on two streams, and steps."""
    names = ["gemm", "ncclDevKernel_AllReduce", "relu"]
    launched = [
        event
        for number in range(LAUNCHES)
        for event in (
            host(number * 20, 15, "aten::mm"),
            call(number * 20 + 1, 3, number + 1),
            kernel(
                number * 20 + 6 + number % 7 + rank,
                20 + number % 11,
                name=names[number % 3],
                stream=7 + number % 2,
                correlation=number + 1,
            ),
            kernel(
                number * 20 + 7,
                5,
                name="Memcpy HtoD (Pageable -> Device)",
                cat="gpu_memcpy",
                stream=9,
                bytes=1000 + number,
            ),
        )
    ]
    return [step(number, number * 10_000, 10_000) for number in range(6)] + launched


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    for rank in range(2):
        write(
            folder / f"rank-{rank}.json.gz",
            events(rank),
            distributedInfo={"rank": rank, "world_size": 2},
        )
    return folder


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(event_text, "BLOCK_BYTES", BLOCK_BYTES)


@pytest.mark.usefixtures("small_blocks")
def test_a_file_that_says_its_rank_first_is_unpacked_once(files, monkeypatch):
    unpacked = []
    make = packing.zlib.decompressobj

    class Counting:
        def __init__(self, **options):
            self._member = make(**options)

        def __getattr__(self, name):
            return getattr(self._member, name)

        def decompress(self, *arguments):
            data = self._member.decompress(*arguments)
            unpacked.append(len(data))
            return data

    monkeypatch.setattr(packing.zlib, "decompressobj", Counting)
    sizes = [sum(len(piece) for piece in event_text.EventText(file)) for file in files.iterdir()]
    unpacked.clear()
    open_trace(files, progress=False)
    assert sum(sizes) <= sum(unpacked) < sum(sizes) + len(sizes) * 4 * BLOCK_BYTES


@pytest.mark.usefixtures("small_blocks")
def test_only_the_events_of_one_piece_are_objects(files, monkeypatch):
    add = EventsBuilder.add
    pieces = []

    def counting(self, reading):
        pieces.append((len(reading.events), sys.getallocatedblocks()))
        add(self, reading)

    monkeypatch.setattr(EventsBuilder, "add", counting)
    file = files / "rank-0.json.gz"
    load_kineto(file, 0)
    pieces.clear()
    before = sys.getallocatedblocks()
    trace = load_kineto(file, 0)
    kept = sys.getallocatedblocks() - before
    assert len(pieces) > 20
    largest = max(count for count, _ in pieces)
    most_objects = max(now for _, now in pieces) - before
    assert most_objects < OBJECTS_PER_EVENT * largest
    assert kept < 0.05 * len(trace.events)


@pytest.mark.usefixtures("small_blocks")
def test_events_wait_in_few_bytes(files, monkeypatch):
    finish = EventsBuilder.finish
    waiting = []

    def counting(self):
        assert self._columns.names()  # closes the last block
        blocks = self._columns._blocks
        waiting.append(sum(column.nbytes for block in blocks for column in block.values()))
        return finish(self)

    monkeypatch.setattr(EventsBuilder, "finish", counting)
    trace = load_kineto(files / "rank-0.json.gz", 0)
    assert waiting[0] < WAITING_BYTES_PER_EVENT * len(trace.events)


def test_finding_parents_takes_little_beside_them(files, monkeypatch):
    table = load_kineto(files / "rank-0.json.gz", 0).events
    monkeypatch.setattr(nesting, "_CALLS_AT_ONCE", 512)
    tracemalloc.start()
    parents = nesting.parent_rows(table)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * PARENTS_BYTES_PER_EVENT * len(table)
    assert (parents >= 0).any()


@pytest.mark.usefixtures("cached")
def test_opening_again_copies_no_column(files):
    open_trace(files, progress=False)
    job = open_trace(files, progress=False)
    rank = job.rank(0)
    table = rank.trace.events
    assert {"transfers"} <= set(table.side)
    columns = {
        field.name: getattr(table, field.name)
        for field in fields(table)
        if isinstance(getattr(table, field.name), np.ndarray | TextColumn)
    }
    for name, side in table.side.items():
        columns |= {f"{name}.{key}": column for key, column in side.columns.items()}
        columns[name] = side.rows
    columns |= {"launches": rank.launches, "parents": rank.parents}
    arrays = {
        name: column.codes if isinstance(column, TextColumn) else column
        for name, column in columns.items()
    }
    assert [name for name, array in arrays.items() if array.flags.owndata] == []
    assert [name for name, array in arrays.items() if array.flags.writeable] == []


@pytest.fixture(scope="module")
def job(files):
    """The job, every analysis of it made once."""
    job = open_trace(files, progress=False)
    for panel in PANELS.values():
        if panel.concerns(job):
            panel(job).close()
    return job


@pytest.fixture
def rows_touched(monkeypatch):
    """Rows handed to what orders, merges or groups them."""
    touched = Counter()

    def counted(owner, name, rows_in):
        function = getattr(owner, name)

        def counting(*arguments, **options):
            touched[name] += rows_in(arguments)
            return function(*arguments, **options)

        monkeypatch.setattr(owner, name, counting)

    for name in ("argsort", "sort", "unique", "cumsum", "bincount", "isin", "flatnonzero"):
        counted(np, name, lambda arguments: np.size(arguments[0]))
    counted(np, "lexsort", lambda arguments: np.size(arguments[0][0]))
    counted(np, "searchsorted", lambda arguments: np.size(arguments[1]))
    monkeypatch.setattr(Intervals, "union", staticmethod(_counted_union(touched)))
    return touched


def _counted_union(touched):
    union = Intervals.union

    def counting(starts, ends):
        touched["union"] += np.size(starts)
        return union(starts, ends)

    return counting


def moves():
    for name, panel in PANELS.items():
        if name == "what_if":
            continue  # its knobs solve the whole replay again, see below
        for parameter, control in panel.controls.items():
            if isinstance(control, Slider | Choice | Toggle):
                yield pytest.param(name, parameter, id=f"{name}-{parameter}")


@pytest.mark.parametrize(("name", "parameter"), [*moves()])
def test_a_step_touches_few_rows(job, rows_touched, name, parameter):
    if not PANELS[name].concerns(job):
        pytest.skip("nothing for this panel in the job")
    panel = PANELS[name](job)
    value, before = other_value(panel, parameter), getattr(panel, parameter)
    # What a choice needs is prepared when it is first made.
    if not isinstance(panel.controls[parameter], Slider):
        setattr(panel, parameter, value)
        setattr(panel, parameter, before)
    rows_touched.clear()
    setattr(panel, parameter, value)
    panel.close()
    assert panel._view["error"] is None
    assert rows_touched.total() < LAUNCHES, rows_touched


@pytest.mark.parametrize("parameter", ["host_speed", "hidden_percent", "kernel_percent"])
def test_a_knob_of_what_if_solves_the_replay_a_few_times(job, rows_touched, parameter):
    panel = PANELS["what_if"](job)
    setattr(panel, parameter, other_value(panel, parameter))  # names, and what is recorded
    value = {"host_speed": 2.0, "hidden_percent": 40.0, "kernel_percent": 30.0}[parameter]
    rows_touched.clear()
    setattr(panel, parameter, value)
    panel.close()
    assert panel._view["error"] is None
    assert rows_touched.total() < 100 * LAUNCHES, rows_touched


def test_the_table_of_what_if_is_chosen_without_a_replay(job, rows_touched):
    panel = PANELS["what_if"](job)
    for listed in ("ranks", "classes", "ranks"):
        rows_touched.clear()
        panel.listed = listed
    panel.close()
    assert rows_touched.total() < LAUNCHES, rows_touched


@pytest.fixture(scope="module")
def two_sizes(files):
    """Two jobs of one rank, the second with four times the GPU operations."""
    job = open_trace(files / "rank-0.json.gz", progress=False)
    return [with_kernels(job, times * 4 * LAUNCHES) for times in (1, 4)]


@pytest.mark.parametrize(
    ("name", "parameter"),
    [move for move in moves() if move.values[1] != "rank"],  # the jobs have one
)
def test_a_step_needs_no_more_memory_where_there_are_more_rows(two_sizes, name, parameter):
    small, large = two_sizes
    if not PANELS[name].concerns(small):
        pytest.skip("nothing for this panel in the job")
    more_rows = len(large.gpu_work(0)) - len(small.gpu_work(0))
    assert more_rows > 8 * LAUNCHES
    more_bytes = peak_of_step(large, name, parameter) - peak_of_step(small, name, parameter)
    assert more_bytes < BYTES_PER_ROW * more_rows


def peak_of_step(job, name, parameter):
    """Bytes allocated at a time during a step that was made before."""
    panel = PANELS[name](job)
    value, before = other_value(panel, parameter), getattr(panel, parameter)
    peaks = []
    for _ in range(3):
        setattr(panel, parameter, before)
        tracemalloc.start()
        setattr(panel, parameter, value)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    panel.close()
    return min(peaks)


def other_value(panel, parameter):
    now = getattr(panel, parameter)
    [control] = [each for each in panel._spec["controls"] if each["name"] == parameter]
    if control["kind"] == "slider":
        return now + control["step"] if now < control["max"] else now - control["step"]
    if control["kind"] == "toggle":
        return not now
    return next(value for _, value in control["options"] if value != now)


def test_rows_are_counted(job, rows_touched):
    other = open_trace([source.path for source in job.sources.values()], progress=False)
    PANELS["queue_length"](other).close()
    assert rows_touched.total() > 2 * LAUNCHES
