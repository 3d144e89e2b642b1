"""The critical path, slack and drag of a replay."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from hta_widgets import open_trace
from hta_widgets.diagnosis.rank_answers import replay
from hta_widgets.diagnosis.replay import pieces
from hta_widgets.diagnosis.replay.binding import Edge, Solution
from hta_widgets.diagnosis.replay.critical_path import BOUND_BY, CriticalPath
from hta_widgets.diagnosis.replay.edits import PeersFixed
from hta_widgets.diagnosis.replay.network import Network
from hta_widgets.diagnosis.replay.pieces import CLASSES
from hta_widgets.diagnosis.replay.recorded_job import RecordedJob
from hta_widgets.diagnosis.replay.replay import Replay
from hta_widgets.diagnosis.replay.slack import CRITICAL_NS, least_over
from hta_widgets.errors import ParameterError, UnknownStepError
from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job
from tests.diagnosis.replay.random_network import by_brute_force, random_job
from tests.diagnosis.test_properties import BASE, renumbered
from tests.simulator import write_job

RANDOM_JOBS = 60
SIMULATED = (
    ("input_starvation", "data_parallel"),
    ("pipeline_bubble", "pipeline"),
    ("expert_imbalance", "experts"),
    ("slow_gpu", "sharded"),
    ("host_pause", None),
)
STEPS = 3


@cache
def random_jobs() -> list[RecordedJob]:
    return [*map(random_job, range(RANDOM_JOBS))]


@pytest.fixture(scope="module")
def sample_job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder, steps=STEPS, progress=False)
    return open_trace(folder, progress=False)


@pytest.fixture(scope="module", params=SIMULATED, ids=lambda each: each[0])
def simulated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Job:
    cause, layout = request.param
    folder = tmp_path_factory.mktemp(cause)
    write_job(folder, cause, layout=layout, steps=STEPS)
    return open_trace(folder, progress=False)


def check_sums(path: CriticalPath) -> None:
    """Pieces follow each other through the whole time, and all tables add up to it."""
    start_ns, end_ns = path.parts.start_ns, path.parts.end_ns
    assert_array_equal(start_ns[1:], end_ns[:-1])
    assert (start_ns[0], end_ns[-1]) == (path.edges_ns[0], path.edges_ns[-1])
    assert (end_ns > start_ns).all()
    assert path.length_ns == path.parts.length_ns.sum()
    assert_allclose(path.length_ns, path.slack.end_ns - path.slack.begin_ns, rtol=0, atol=1)
    for table in (path.pieces, path.by_class, path.by_rank, path.by_step):
        assert table["ns"].sum() == path.length_ns
        assert_allclose(table["percent"].sum(), 100)
    by_step = path.by_step.groupby("step")["ns"].sum()
    assert_array_equal(by_step.reindex(path.steps), np.diff(path.edges_ns))
    assert set(path.by_class["class"]) <= set(CLASSES)
    assert_allclose(sum(path.shares.values()), 100)
    what, share = next(iter(path.shares.items()))
    assert share == max(path.shares.values())
    assert path.bound_by.startswith(f"bound by {what} (")


def check_slack(path: CriticalPath) -> None:
    """Nothing is later than it may be, and what is on the path may not be later."""
    slack = path.slack
    assert slack.operations_ns.min() > -CRITICAL_NS
    assert slack.points_ns.min() > -CRITICAL_NS
    operations = path.parts.operation[path.parts.operation >= 0]
    on_host = path.parts.operation < 0
    assert slack.operations_ns[operations].max(initial=0) <= CRITICAL_NS
    assert slack.points_ns[path.parts.point[on_host]].max(initial=0) <= CRITICAL_NS


def check_drag(path: CriticalPath, operations: np.ndarray) -> None:
    """The drag is what a replay gains without the operation."""
    count = path.job.stream.size
    for each in operations.tolist():
        gain_ns = path.gain_ns(np.arange(count) == each)
        assert_allclose(path.slack.drag_ns[each], gain_ns, rtol=0, atol=CRITICAL_NS)


def test_each_class_says_what_sets_the_time() -> None:
    assert sorted(name for names in BOUND_BY.values() for name in names) == sorted(CLASSES)


def test_random_jobs_are_solved_as_by_brute_force() -> None:
    for job in random_jobs():
        times = Network(job).solve(job.weights)
        assert_array_equal(np.concatenate(times), np.concatenate(by_brute_force(job, job.weights)))


def test_random_jobs_cover_every_edge() -> None:
    kinds = {
        kind for job in random_jobs() for kind in set(Replay(job).solution.binding().kind.tolist())
    }
    assert kinds == {-1, *Edge}


def test_path_of_random_jobs() -> None:
    for job in random_jobs():
        for step in (None, *job.steps):
            path = CriticalPath.of(
                Solution(Network(job), job.weights), () if step is None else (step,)
            )
            start_ns, end_ns = path.parts.start_ns, path.parts.end_ns
            assert_array_equal(start_ns[1:], end_ns[:-1])
            assert path.parts.length_ns.sum() == path.length_ns == np.diff(path.edges_ns).sum()
            check_slack(path)


def test_a_path_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    for job in random_jobs():
        whole = Replay(job).critical_path().parts
        for at_once in (1, 2, 7):
            with monkeypatch.context() as patch:
                patch.setattr(pieces, "AT_ONCE", at_once)
                in_parts = Replay(job).critical_path().parts
            for expected, found in zip(whole, in_parts, strict=True):
                assert_array_equal(found, expected)


def test_latest_times_by_brute_force() -> None:
    """As long as something may be later, the end stays; later still, and it moves."""
    for seed in range(6):
        job = random_job(seed)
        path = Replay(job).critical_path()
        ends = job.last[job.last_step <= len(job.steps) - 1]
        for each in range(job.stream.size):
            slack = path.slack.operations_ns[each]
            for more, moves in ((slack, False), (slack + 1, True)):
                if np.isfinite(more) and not job.is_finish[each]:
                    longer = job.weights.duration.copy()
                    longer[each] += more
                    _, end_ns, _ = by_brute_force(job, job.weights.changed(duration=longer))
                    assert (end_ns[ends].max() > path.slack.end_ns) == moves


def test_drag_of_random_jobs() -> None:
    for job in random_jobs():
        path = Replay(job).critical_path()
        kernels = np.setdiff1d(np.arange(job.stream.size), job.arrival)
        check_drag(path, kernels)
        assert (path.slack.drag_ns[path.slack.operations_ns > CRITICAL_NS] == 0).all()
        assert (path.slack.drag_ns <= job.recorded_duration).all()


def test_drag_of_one_step() -> None:
    for seed in range(30):
        job = random_job(seed)
        for step in job.steps:
            path = Replay(job).critical_path(step)
            check_drag(path, np.setdiff1d(np.arange(job.stream.size), job.arrival))


def test_drag_with_peers_that_do_not_change() -> None:
    for seed in range(50):
        job = random_job(seed)
        job = replace(job, series=np.full(job.series.size, -2))
        fixed = PeersFixed().apply(job, job.weights)
        path = CriticalPath.of(Solution(Network(job), fixed))
        assert_array_equal(path.parts.start_ns[1:], path.parts.end_ns[:-1])
        check_slack(path)
        check_drag(path, np.setdiff1d(np.arange(job.stream.size), job.arrival))


def test_what_contradicts_the_order_is_left_out_of_all_times() -> None:
    found = 0
    for seed in range(30):
        job = random_job(seed)
        follows = np.flatnonzero((np.diff(job.stream) == 0) & (job.launch[:-1] >= 0))
        first = int(follows[len(follows) // 2])
        weights = job.weights.changed(delay=np.append(job.weights.delay, 5.0))
        broken = replace(
            job,
            after=np.append(job.after, first),
            source=np.append(job.source, first + 1),
            weights=weights,
        )
        network = Network(broken)
        assert network.dropped > 0
        own = (job.awaited.size, job.after.size, job.arrival.size)
        if tuple(each.size for each in network.kept) == own:
            found += 1
            assert_array_equal(network.solve(weights).end, job.end_ns)
            path = Replay(broken).critical_path()
            assert path.parts.length_ns.sum() == path.length_ns
    assert found


def test_least_of_intervals_by_brute_force() -> None:
    rng = np.random.default_rng(1)
    for count in (1, 2, 3, 8, 50):
        first = rng.integers(0, count, 40)
        last = np.minimum(first + rng.integers(0, count + 1, 40), count)
        values = rng.integers(0, 100, 40).astype(np.float64)
        over = [
            values[(first <= place) & (place < last)].min(initial=np.inf) for place in range(count)
        ]
        assert_array_equal(least_over(first, last, values, count), over)


def test_sample_job(sample_job: Job) -> None:
    whole = replay(sample_job)
    for step in (None, *whole.job.steps):
        path = whole.critical_path(step)
        check_sums(path)
        check_slack(path)


def test_simulated_job(simulated: Job) -> None:
    whole = replay(simulated)
    path = whole.critical_path()
    check_sums(path)
    check_slack(path)
    assert_allclose(path.length_ns, whole.step_ms * 1e6 * len(path.steps), rtol=0, atol=1)
    largest = np.argsort(-path.slack.drag_ns)[:20]
    others = np.random.default_rng(0).choice(path.job.stream.size, 20)
    check_drag(path, np.setdiff1d(np.union1d(largest, others), path.job.arrival))


def test_unknown_step(sample_job: Job) -> None:
    with pytest.raises(UnknownStepError):
        replay(sample_job).critical_path(12345)


def test_steps_that_are_not_recorded_are_not_replayed(sample_job: Job) -> None:
    with pytest.raises(UnknownStepError, match="12345"):
        replay(sample_job, steps=[12345])


def test_nothing_to_replay_without_gpu_work(tmp_path: Path) -> None:
    call = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    (tmp_path / "rank-0.json").write_text(json.dumps({"traceEvents": [call]}), encoding="utf-8")
    with pytest.raises(ParameterError, match="no GPU work was recorded of rank 0"):
        replay(open_trace(tmp_path, progress=False))


def test_bound_by_what_was_planted(simulated: Job) -> None:
    path = replay(simulated).critical_path()
    planted = {"input_starvation": "loading", "host_pause": "stalling"}
    for cause, name in planted.items():
        if cause in simulated.name:
            by_class = path.by_class.set_index("class")["percent"]
            assert by_class[name] > 5


def test_kernels(simulated: Job) -> None:
    path = replay(simulated).critical_path()
    table = path.by_kernel
    drag_ns, (names, code) = path.slack.drag_ns, path.job.names
    on_path = path.pieces[path.pieces["class"].isin(("compute", "communication", "transfer"))]
    sums = on_path.groupby("kernel")["ns"].sum()
    assert_array_equal(table.set_index("kernel")["ns"].reindex(sums.index), sums)
    steps = [path.job.steps.index(step) for step in path.steps]
    counts = np.isin(path.job.step, steps)
    counts[path.job.arrival] = False
    counts &= path.job.end_ns > path.edges_ns[0]
    for row in table.itertuples():
        own = counts & (code == names.index(row.kernel))
        assert row.calls == own.sum()
        assert row.drag_ns == drag_ns[own].max()
        assert row.critical_calls == (path.slack.operations_ns[own] <= CRITICAL_NS).sum()
        if row.slack_ns > CRITICAL_NS:
            assert row.together_ns == row.drag_ns == row.ns == 0
            assert path.gain_ns(own) <= CRITICAL_NS
        elif not pd.isna(row.together_ns):
            assert row.drag_ns - CRITICAL_NS <= row.together_ns <= row.ns + len(path.parts.of)


def test_operators(simulated: Job) -> None:
    path = replay(simulated).critical_path()
    table = path.by_operator(simulated)
    assert table["ns"].sum() == path.length_ns
    assert_array_equal(table["ns"], table["host_ns"] + table["gpu_ns"])
    assert table["operator"].is_unique
    names = {name for rank in simulated.ranks for name in simulated.events(rank)["name"]}
    assert set(table["operator"]) - {"between calls", "before the recording"} <= names
    assert not any(name.startswith("cudaLaunch") for name in table["operator"])


def test_rows_are_those_of_the_events(simulated: Job) -> None:
    pieces = replay(simulated).critical_path().pieces
    for rank, own in pieces.groupby("rank"):
        events = simulated.events(int(str(rank)))
        of_gpu = own[own["row"] >= 0]
        assert (events["name"].to_numpy()[of_gpu["row"]] == of_gpu["kernel"]).all()
        assert (own.loc[own["class"] == "host", "row"] == -1).all()
        launches = own[own["class"] == "launch latency"]
        assert_array_equal(events["launch"].to_numpy()[launches["row"]], launches["call"])
        kinds = events["kind"].astype(str).to_numpy()[own["call"][own["call"] >= 0]]
        assert set(kinds) <= {"runtime", "driver"}


def classes_of(path: CriticalPath) -> pd.Series:
    return path.by_class.set_index("class")["ns"].sort_index()


@pytest.mark.parametrize("cause", ["slow_gpu", "input_starvation"])
def test_clocks_and_numbers_of_ranks_change_no_path(cause: str, tmp_path: Path) -> None:
    paths = write_job(tmp_path / "as written", cause, steps=STEPS)
    texts = {rank: gzip.decompress(path.read_bytes()).decode() for rank, path in enumerate(paths)}
    last = len(texts) - 1
    apart = (0, 7_000_000_123, -3_000_000_456, 42)
    shifted = {
        rank: BASE.sub(lambda found, ns=apart[rank % 4]: f"{found[1]}{int(found[2]) + ns}", text)
        for rank, text in texts.items()
    }
    turned = {
        last - rank: renumbered(text, lambda rank: last - rank) for rank, text in texts.items()
    }
    found = []
    for name, changed in (("same", texts), ("shifted", shifted), ("turned", turned)):
        folder = tmp_path / name
        folder.mkdir()
        for rank, text in changed.items():
            (folder / f"rank-{rank}.json").write_text(text, encoding="utf-8")
        found.append(replay(open_trace(folder, progress=False)).critical_path())
    same, *others = found
    for other in others:
        assert_allclose(classes_of(other), classes_of(same), rtol=1e-4, atol=len(same.parts.of))
    assert [*found[1].pieces["rank"]] == [*same.pieces["rank"]]
    assert [*found[2].pieces["rank"]] == [last - rank for rank in same.pieces["rank"]]


def check_recorded(job: Job) -> None:
    """Check the path of a recording; `tests.test_sentences` does so for all real traces."""
    whole = replay(job)
    path = whole.critical_path()
    check_sums(path)
    if whole.is_sound:
        check_slack(path)
    assert path.by_operator(job)["ns"].sum() == path.length_ns
    if (whole.job.weights.gap[~whole.network.opens_stream] >= 0).all():
        most_ns = path.by_kernel["ns"] + len(path.parts.of)
        assert (path.by_kernel["together_ns"].fillna(0) <= most_ns).all()


def test_times_of_classes_ranks_and_steps_are_those_of_the_pieces(simulated: Job) -> None:
    path = replay(simulated).critical_path()
    for table, columns in (
        (path.by_class, ["class"]),
        (path.by_rank, ["rank", "class"]),
        (path.by_step, ["step", "class"]),
    ):
        expected = path.pieces.groupby(columns)["ns"].sum()
        assert table.set_index(columns)["ns"].sort_index().to_dict() == expected.to_dict()
        assert_allclose(table["percent"], 100 * table["ns"] / path.length_ns)
