"""A big job gives the same results as a small one, with few ranks in memory."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pandas as pd
import pytest

from hta_widgets import Dashboard, RankSample, TraceAnalysis, open_trace
from hta_widgets.analyses.clocks import clocks
from hta_widgets.analyses.collectives import collectives
from hta_widgets.analyses.compare import compare
from hta_widgets.analyses.duration_tails import duration_tails
from hta_widgets.analyses.idle_time import idle_time
from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
from hta_widgets.analyses.launch_stats import launch_stats
from hta_widgets.analyses.memory_bandwidth import memory_bandwidth
from hta_widgets.analyses.overlap import overlap
from hta_widgets.analyses.queue_length import queue_length
from hta_widgets.analyses.rank_overlap import rank_overlap
from hta_widgets.analyses.step_table import step_table
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.diagnosis import diagnosis
from hta_widgets.errors import ParameterError, TraceFormatError, UnknownRankError
from hta_widgets.sample import write_sample
from hta_widgets.trace.cache import files as cache_files
from hta_widgets.trace.cache.trace_file import LoadedTrace
from hta_widgets.trace.job import ANSWERS_KEPT
from hta_widgets.trace.opening import open as opening
from hta_widgets.trace.ranks import cache, workers
from hta_widgets.trace.ranks import loader as rank_loader
from hta_widgets.trace.ranks.source import RankSource


def compared_with_itself(job):
    return compare(job, job)


RANKS = 6
HELD = 2
ANALYSES = (
    *(temporal_breakdown, overlap, rank_overlap, kernel_breakdown),
    *(idle_time, duration_tails, compared_with_itself, clocks, collectives),
    *(step_table, diagnosis),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("job")
    write_sample(path, ranks=RANKS, steps=2, progress=False)
    return path


@pytest.fixture(scope="module")
def expected(folder):
    """What each analysis says of the job where it is small."""
    small = open_trace(folder, progress=False)
    return {analysis: analysis(small) for analysis in (*ANALYSES, queue_length)}


@pytest.fixture
def big(monkeypatch):
    monkeypatch.setattr(opening, "RANKS_HELD", HELD)
    monkeypatch.setattr(opening, "BYTES_AT_ONCE", 0)


def tables(result):
    return {name: table for name, table in vars(result).items() if isinstance(table, pd.DataFrame)}


def assert_same(job, expected, analysis):
    result, reference = analysis(job), expected[analysis]
    assert (result.finding, result.notices) == (reference.finding, reference.notices)
    ours, theirs = tables(result), tables(reference)
    assert ours.keys() == theirs.keys()
    for name, table in ours.items():
        pd.testing.assert_frame_equal(table, theirs[name], check_exact=True)


@pytest.mark.usefixtures("big")
@pytest.mark.parametrize("cpus", [1, 2])
def test_a_big_job_has_the_numbers_of_a_small_one(folder, expected, monkeypatch, cpus):
    monkeypatch.setattr(workers, "cpu_count", lambda: cpus)
    big = open_trace(folder, progress=False)
    assert not big._loaded
    for analysis in ANALYSES:
        assert_same(big, expected, analysis)
    assert len(big._loaded) == (0 if cpus > 1 else HELD)
    assert_same(big, expected, queue_length)
    assert len(big._loaded) == HELD
    small = open_trace(folder, progress=False)
    assert [big.offset_ns(rank) for rank in big.ranks] == [small.offset_ns(r) for r in small.ranks]


def test_what_an_evicted_rank_left_goes_with_it(folder, big):  # noqa: ARG001
    job = open_trace(folder, progress=False)
    built = []

    def build(rank):
        built.append(len(rank.trace.events))

    for rank in (0, 0, 1, 2, 0):
        job.rank(rank).remember(build)
    assert len(built) == 4
    assert list(job._loaded) == [2, 0]


def test_what_was_put_together_longest_ago_is_forgotten_and_all_where_a_rank_is_another(folder):
    job = open_trace(folder, progress=False)
    built = []

    def build(_, number):
        built.append(number)

    for number in (*range(ANSWERS_KEPT), 0, ANSWERS_KEPT, 0, 1):
        job.remember(build, number)
    assert built == [*range(ANSWERS_KEPT + 1), 1]
    job.add(LoadedTrace(job.rank(0).trace, {}))
    del built[:]
    job.remember(build, 1)
    assert built == [1]


@pytest.mark.usefixtures("big")
def test_each_rank_is_loaded_once_by_each_analysis(folder, monkeypatch):
    monkeypatch.setattr(workers, "cpu_count", lambda: 1)
    job = open_trace(folder, progress=False)
    job.notices_for(job.ranks)
    loaded, load = [], job._loader.load_here
    monkeypatch.setattr(job._loader, "load_here", lambda *of: loaded.append(of[1]) or load(*of))
    for analysis in (
        *(temporal_breakdown, overlap, kernel_breakdown, idle_time, duration_tails),
        *(queue_length, memory_bandwidth, launch_stats),
    ):
        job._loaded.clear()
        loaded.clear()
        analysis(job)
        assert loaded == list(range(RANKS)), analysis


def test_the_dashboard_holds_a_few_ranks(folder, big):  # noqa: ARG001
    dashboard = Dashboard(open_trace(folder, progress=False))
    assert len(dashboard.job._loaded) <= HELD
    assert len(dashboard.panels["temporal_breakdown"].result.ranks) == RANKS
    with pytest.raises(ParameterError, match=r"6 ranks are selected, .* at most 2"):
        _ = dashboard.panels["queue_length"].result
    assert set(dashboard.panels["idle_time"].result.streams["rank"]) == set(range(RANKS))
    dashboard.selection.ranks = [0, 5]
    assert set(dashboard.panels["queue_length"].result.streams["rank"]) == {0, 5}


@pytest.mark.parametrize("kept", [True, False], ids=["cache", "no cache"])
def test_workers_load_what_is_missing(folder, expected, tmp_path, monkeypatch, kept):
    monkeypatch.setenv(cache_files.VARIABLE, str(tmp_path / "cache") if kept else cache_files.OFF)
    monkeypatch.setattr(cache, "WORTH_KEEPING", 0)
    monkeypatch.setattr(rank_loader, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(workers, "cpu_count", lambda: 2)
    job = open_trace(folder, progress=False)
    owned = [job.rank(rank).trace.events.start_ns.flags.owndata for rank in job.ranks]
    by_workers = owned.count(False)
    assert workers.AHEAD <= by_workers < RANKS
    own = job._loader.__dict__.get("_job_folder")
    assert (own is None) == kept
    files = list((own or tmp_path / "cache").iterdir())
    assert len(files) == (RANKS if kept else by_workers)
    assert_same(job, expected, diagnosis)
    del job
    assert own is None or not own.exists()


def test_a_job_that_drops_ranks_keeps_files_of_all(folder, big, monkeypatch):  # noqa: ARG001
    monkeypatch.setenv(cache_files.VARIABLE, cache_files.OFF)
    monkeypatch.setattr(rank_loader, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(workers, "cpu_count", lambda: 2)
    job = open_trace(folder, progress=False)
    job.load(progress=False)
    assert len(job._loaded) == HELD
    monkeypatch.setattr(RankSource, "load", None)
    assert [len(job.rank(rank).trace.events) > 0 for rank in job.ranks] == [True] * RANKS


def process_of(_):
    return os.getpid()


def test_workers_help_with_held_ranks_whose_files_are_as_they_were(tmp_path, monkeypatch):
    monkeypatch.setattr(rank_loader, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(workers, "cpu_count", lambda: 2)
    write_sample(tmp_path, ranks=RANKS, steps=2, progress=False)
    job = open_trace(tmp_path, progress=False)

    def answer_here(**doing):
        answers = job.reduce_each(process_of, dict.fromkeys(job.ranks, ()), **doing)
        return {rank for rank, process in answers.items() if process == os.getpid()}

    assert answer_here() == {*job.ranks}
    assert 0 < len(answer_here(doing="Asking")) <= RANKS - workers.AHEAD
    job.add(LoadedTrace(job.rank(0).trace, {}))
    job.sources[1].path.write_bytes(b"another job by now")
    job.sources[2].path.unlink()
    assert {0, 1, 2} <= answer_here(doing="Asking") < {*job.ranks}
    monkeypatch.setattr(rank_loader, "PARALLEL_BYTES", 2**40)
    assert answer_here(doing="Asking") == {*job.ranks}


def test_the_biggest_rank_is_loaded_first():
    sizes = {0: 3, 1: 9, 2: 5}
    sources = {rank: SimpleNamespace(size=size) for rank, size in sizes.items()}
    assert rank_loader.biggest_first(sources) == [1, 2, 0]


def test_an_error_of_a_worker_is_that_of_the_trace(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(rank_loader, "PARALLEL_BYTES", 0)
    monkeypatch.setattr(workers, "cpu_count", lambda: 2)
    paths = sorted(folder.iterdir())
    (tmp_path / "broken.json").write_text('{"traceEvents": 5}')
    with pytest.raises(TraceFormatError, match=r"broken\.json"):
        open_trace({0: paths[0], 1: paths[1], 2: tmp_path / "broken.json"}, progress=False)


def test_the_executor_given_is_used(folder, monkeypatch):
    with ThreadPoolExecutor(1) as executor:
        submitted = []
        submit = executor.submit
        monkeypatch.setattr(
            executor, "submit", lambda *task: submitted.append(task) or submit(*task)
        )
        TraceAnalysis(trace_dir=folder, executor=executor, progress=False)
    assert len(submitted) == RANKS


def test_some_ranks(folder):
    assert open_trace(folder, ranks=[4, 1], progress=False).ranks == (1, 4)
    job = open_trace(folder, ranks=RankSample(3), progress=False)
    assert job.ranks == (0, 2, 5)
    assert "3 of 6 ranks were opened: 0, 2, 5" in job.notices
    assert TraceAnalysis(trace_dir=folder, ranks=[3], progress=False).job.ranks == (3,)


def test_ranks_that_do_not_exist(folder):
    with pytest.raises(UnknownRankError, match=r"rank 9 is not .* its ranks are 0-5"):
        open_trace(folder, ranks=[0, 9], progress=False)
    with pytest.raises(ParameterError, match="needs at least 1 rank, got 0"):
        RankSample(0)


def kernels_longer_than(rank, limits):
    return int((rank.gpu_work.duration_ns > limits[0]).sum())


@pytest.mark.usefixtures("big")
def test_arguments_of_each_rank(folder):
    """Ranks answer in workers with arguments of their own, which need not be hashable."""
    limits = {rank: ([1000 * rank],) for rank in range(RANKS)}
    job, whole = open_trace(folder, progress=False), open_trace(folder, progress=False).load()
    expected = {rank: kernels_longer_than(whole.rank(rank), *limits[rank]) for rank in limits}
    assert job.reduce_each(kernels_longer_than, limits) == expected
    assert whole.reduce_each(kernels_longer_than, limits) == expected
    assert len(set(expected.values())) > 1
    assert job.reduce_each(kernels_longer_than, {}) == {}
    with pytest.raises(UnknownRankError):
        job.reduce_each(kernels_longer_than, {RANKS: ([0],)})
