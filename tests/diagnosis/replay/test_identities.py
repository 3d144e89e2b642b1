"""What every replay must fulfil, whatever was recorded: on simulated jobs and the sample job."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.diagnosis.replay.edits import WithoutHostWork, applied
from hta_widgets.diagnosis.replay.host_work import HOST_WORK
from hta_widgets.diagnosis.replay.operations import NONE
from hta_widgets.diagnosis.replay.recorded_job import Weights
from hta_widgets.diagnosis.replay.replay import Replay
from hta_widgets.sample import Recording, write_sample
from tests.diagnosis.replay.replayed import EDITS, SHORTENING, opened, prices_ns
from tests.diagnosis.test_properties import BASE, renumbered
from tests.kineto_text import call, kernel, step, write
from tests.simulator import write_job

EXACT_NS = 1e-5
"""What float64 rounds of sums of times that are no whole ns on the common clock; else 1e-6."""

CLOCKS = 1e-3
CLOCKS_NS = 2_000
"""How well the clocks of ranks are known, which are fitted to those of the first rank."""

SIMULATED = {
    "input_starvation": "data_parallel",
    "slow_gpu": "sharded",
    "blocking_sync": "sharded",
    "allocator_retries": "data_parallel",
    "exposed_communication": "sharded",
    "slow_host_copies": "data_parallel",
    "host_pause": "data_parallel",
    "pipeline_bubble": "pipeline",
    "expert_imbalance": "experts",
}
SAMPLE = "the sample job"
ALONE = "one rank of a sharded job"
JOBS = (SAMPLE, ALONE, *SIMULATED)
OF_SEVERAL_LAYOUTS = (SAMPLE, "pipeline_bubble", "expert_imbalance", "allocator_retries")

Texts = Mapping[int, str]

job_names = st.sampled_from(JOBS)
seeds = st.integers(0, 2**32 - 1)
sets_of_edits = st.lists(st.sampled_from(sorted(SHORTENING)), min_size=1, max_size=3, unique=True)


def written(folder: Path, name: str) -> list[Path]:
    if name == SAMPLE:
        return write_sample(folder, ranks=2, steps=3, recording=Recording(), progress=False)
    ranks = 4 if name == "pipeline_bubble" else 3
    return write_job(folder, name, layout=SIMULATED[name], ranks=ranks, steps=3, seed=1)


@cache
def texts_of(name: str) -> Texts:
    with TemporaryDirectory() as folder:
        paths = written(Path(folder), name)
        return {
            rank: gzip.decompress(path.read_bytes()).decode() for rank, path in enumerate(paths)
        }


@cache
def replay_of_job(name: str) -> Replay:
    with TemporaryDirectory() as folder:
        if name == ALONE:
            written(Path(folder), "exposed_communication")
            return opened(Path(folder), ranks=[0])
        written(Path(folder), name)
        return opened(Path(folder))


def rewritten(name: str, change: Callable[[int, str], tuple[int, str]]) -> Replay:
    with TemporaryDirectory() as folder:
        for rank, text in texts_of(name).items():
            number, other = change(rank, text)
            (Path(folder) / f"rank-{number}.json").write_text(other, encoding="utf-8")
        return opened(Path(folder))


def ends_ns(replay: Replay, weights: Weights) -> np.ndarray:
    nodes, _ = replay.network.forward(weights)
    return replay.network.step_ends(nodes)


def shortened(replay: Replay, seed: int, share: float) -> Weights:
    """Weights of which a share takes only a part, chosen at random."""
    draw = np.random.default_rng(seed)

    def less(values: np.ndarray) -> np.ndarray:
        factor = np.where(draw.random(values.size) < share, draw.random(values.size), 1)
        return np.where(values > 0, values * factor, values)

    weights = replay.job.weights
    columns = ("own", "duration", "latency", "gap", "delay", "returning", "transfer")
    return weights.changed(**{name: less(getattr(weights, name)) for name in columns})


@pytest.mark.parametrize("name", JOBS)
def test_unedited_gives_the_recorded_times_back(name):
    replay = replay_of_job(name)
    times = replay.network.solve(replay.job.weights)
    exact_ns = EXACT_NS if len(replay.job.ranks) > 1 else 1e-6
    np.testing.assert_allclose(times.end, replay.job.end_ns, rtol=0, atol=exact_ns)
    np.testing.assert_allclose(times.point, replay.job.point_ns, rtol=0, atol=exact_ns)
    assert replay.is_sound
    assert not replay.notices


@pytest.mark.parametrize("name", JOBS)
def test_no_edit_brings_nothing(name):
    replay = replay_of_job(name)
    assert replay.gain_ns([]) == 0
    asked = replay.what_if()
    assert asked.gain_ms == 0
    assert asked.step_ms == replay.step_ms
    assert asked.step_ms == pytest.approx(np.mean([*asked.steps.values()]))


def test_the_planted_causes_have_a_price():
    """The identities are not those of edits that change nothing."""
    of_jobs = {name: prices_ns(replay_of_job(name)) for name in JOBS}
    for name in ("input_starvation", "host_pause", "allocator_retries", "slow_host_copies"):
        assert of_jobs[name][name] > 0.02 * replay_of_job(name).step_ms * 1e6
    for edit in EDITS:
        assert max(prices[edit] for prices in of_jobs.values()) > 0


@given(job_names, seeds, st.floats(0, 1))
def test_nothing_ends_later_if_nothing_takes_longer(name, seed, share):
    replay = replay_of_job(name)
    weights = shortened(replay, seed, share)
    assert (ends_ns(replay, weights) <= ends_ns(replay, replay.job.weights) + EXACT_NS).all()
    before, after = replay.network.solve(replay.job.weights), replay.network.solve(weights)
    for old, new in zip(before, after, strict=True):
        assert (new <= old + EXACT_NS).all()


@pytest.mark.parametrize("name", JOBS)
def test_where_everything_takes_no_time_all_of_a_rank_happens_at_its_origin(name):
    replay = replay_of_job(name)
    job, weights = replay.job, replay.job.weights
    columns = ("own", "duration", "latency", "delay", "returning", "transfer")
    zero = {column: np.zeros_like(getattr(weights, column)) for column in columns}
    gap = np.where(np.isfinite(weights.gap), 0, weights.gap)
    times = replay.network.solve(weights.changed(**zero, gap=gap))
    origins = job.point_ns[np.flatnonzero(np.diff(job.line, prepend=NONE))]
    assert np.isin(times.end, origins).all()
    assert np.isin(times.point, origins).all()


@given(job_names, sets_of_edits)
def test_a_joint_gain_is_not_less_than_each_and_no_longer_than_the_step(name, chosen):
    replay = replay_of_job(name)
    each = [replay.gain_ns(SHORTENING[edit]) for edit in chosen]
    joint = replay.gain_ns([edit for which in chosen for edit in SHORTENING[which]])
    assert joint >= max(each) - EXACT_NS
    assert joint <= replay.step_ms * 1e6


@given(job_names, sets_of_edits)
def test_what_a_rank_waits_for_without_its_peers_makes_a_gain_smaller(name, chosen):
    replay = replay_of_job(name)
    edits = [edit for which in chosen for edit in SHORTENING[which]]
    fixed = replay.gain_ns(edits, peers_fixed=True)
    assert fixed <= replay.gain_ns(edits) + EXACT_NS


def test_peers_that_are_not_recorded_matter():
    replay = replay_of_job(ALONE)
    assert replay.has_unknown_peers
    alike, fixed = (
        replay.gain_ns(EDITS["exposed_communication"], peers_fixed=each) for each in (False, True)
    )
    assert fixed < alike / 2
    asked = replay.what_if(*EDITS["exposed_communication"])
    assert asked.lower_ms == pytest.approx(fixed / 1e6)
    assert asked.upper_ms == pytest.approx(alike / 1e6)


@given(job_names, st.sets(st.sampled_from(HOST_WORK), min_size=1))
def test_what_the_host_does_costs_no_more_than_it_takes(name, classes):
    replay = replay_of_job(name)
    places = [HOST_WORK.index(each) for each in classes]
    gain = replay.gain_ns([WithoutHostWork(tuple(classes))]) * len(replay.job.steps)
    assert gain <= replay.job.weights.host_work[places].sum() + EXACT_NS


@given(job_names, seeds)
def test_any_piece_of_host_work_costs_no_more_than_it_takes(name, seed):
    replay = replay_of_job(name)
    draw = np.random.default_rng(seed)
    own = replay.job.weights.own
    less = own * np.where(draw.random(own.size) < 0.3, draw.random(own.size), 0)
    end = ends_ns(replay, replay.job.weights)[-1]
    sooner = end - ends_ns(replay, replay.job.weights.changed(own=own - less))[-1]
    assert sooner <= less.sum() + EXACT_NS


@pytest.mark.parametrize("name", JOBS)
def test_host_work_is_part_of_the_time_of_the_host(name):
    job = replay_of_job(name).job
    assert (job.weights.host_work >= 0).all()
    own = job.weights.own[job.host_points]
    assert (job.weights.host_work.sum(axis=0) <= own + 0.5).all()


@pytest.mark.parametrize("name", OF_SEVERAL_LAYOUTS)
def test_clocks_of_ranks_change_no_price(name):
    apart = (0, 7_000_000_123, -3_000_000_456, 42)

    def shifted(rank: int, text: str) -> tuple[int, str]:
        more = apart[rank % len(apart)]
        return rank, BASE.sub(lambda found: f"{found[1]}{int(found[2]) + more}", text)

    other = rewritten(name, shifted)
    assert prices_ns(other) == pytest.approx(prices_ns(replay_of_job(name)), abs=0.01)


@pytest.mark.parametrize("name", OF_SEVERAL_LAYOUTS)
def test_numbers_of_ranks_change_no_price(name):
    last = len(texts_of(name)) - 1
    other = rewritten(
        name, lambda rank, text: (last - rank, renumbered(text, lambda each: last - each))
    )
    expected = pytest.approx(prices_ns(replay_of_job(name)), rel=CLOCKS, abs=CLOCKS_NS)
    assert prices_ns(other) == expected


@given(job_names, st.sampled_from(sorted(EDITS)))
def test_ends_scale_with_all_that_is_given(name, edit):
    """Ten times the weights and recorded times; the edit, which knows limits, is made before."""
    replay = replay_of_job(name)
    job, weights = replay.job, applied(replay.job, EDITS[edit])
    tenfold = Weights(**{column: 10 * values for column, values in vars(weights).items()})
    of_times = {column: 10 * getattr(job, column) for column in ("point_ns", "end_ns", "first_ns")}
    slow = Replay(replace(job, **of_times))
    np.testing.assert_allclose(ends_ns(slow, tenfold), 10 * ends_ns(replay, weights), rtol=1e-12)


def job_of_tenths(folder: Path, by: int) -> Replay:
    """A rank that crosses no constant of the replay if all (in 0.1 µs) takes ten times as long.

    In each of three steps, the host launches kernels on two streams, a queue and short ones, and
    waits. A second call finds nothing to wait for: without such calls, what one takes of its own is
    a constant.
    """
    folder.mkdir()
    events, ids = [], iter(range(1, 100))

    def time(tenths: int) -> float:
        return tenths * by / 10

    for number in range(3):
        at = 10_000 + 30_000 * number
        events.append(step(number, time(at), time(29_000)))
        for launch in range(8):
            begin, own = at + 1_000 + 600 * launch, next(ids)
            events.append(call(time(begin), time(20), own))
            queue = {"stream": 7, "ts": time(begin + 10 + 200 * launch), "dur": time(1_599)}
            short = {"stream": 8, "ts": time(begin + 10), "dur": time(690)}
            events.append(kernel(**(short if launch % 2 else queue), correlation=own))
        for begin, length in ((6_000, 1_430), (12_000, 30)):
            times = time(at + begin), time(length)
            events.append(call(*times, next(ids), name="cudaDeviceSynchronize"))
    write(folder / "rank-0.json", events)
    return opened(folder)


def test_times_ten_times_as_long_make_prices_ten_times_as_high(tmp_path):
    once, tenfold = job_of_tenths(tmp_path / "1", 1), job_of_tenths(tmp_path / "10", 10)
    prices, tens = prices_ns(once), prices_ns(tenfold)
    assert prices["launch_bound"] > 0
    assert prices["blocking_sync"] > 0
    assert tens == pytest.approx({name: 10 * price for name, price in prices.items()})
