"""What-if against the plain rules of a replay, and its edges."""

from __future__ import annotations

import math

import pytest

from hta_widgets import diagnose, open_trace, replay
from hta_widgets.diagnosis.critical_path import critical_path
from hta_widgets.diagnosis.replay.edits import HostSpeed
from hta_widgets.diagnosis.what_if import what_if
from hta_widgets.errors import ParameterError
from hta_widgets.sample import write_sample
from tests.diagnosis.replay.brute_force import earliest, graph
from tests.diagnosis.replay.random_jobs import open_random
from tests.kineto_text import host, write

NS_PER_MS = 1e6


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    return open_trace(write_sample(tmp_path_factory.mktemp("sample")), progress=False)


def length_ms(plain, start_ns):
    """From the first start to the last end, of a recording without steps."""
    times = earliest(plain)
    ends = [times.get(key, times.get((*key, "finish"))) for key in plain.operations]
    return (max(ends) - start_ns) / NS_PER_MS


@pytest.mark.parametrize("seed", range(0, 120, 6))
def test_each_change_is_that_of_the_plain_rules(seed, tmp_path):
    job = open_random(tmp_path, seed)
    found = replay(job)
    if found.job.steps != (-1,):
        return  # what a step ends with is tested elsewhere
    plain, start_ns = graph(job), float(found.job.first_ns.min())
    names = {key: job.rank(key[0]).trace.events.names_at([key[1]])[0] for key in plain.operations}

    def hidden(weights):
        weights.transfer.update({node: ns / 2 for node, ns in weights.transfer.items()})
        weights.dur.update({node: weights.dur[node] / 2 for node in plain.unmatched})

    def faster(weights):
        products = [key for key in weights.dur if "gemm" in names.get(key, "")]
        weights.dur.update({key: weights.dur[key] / 4 for key in products})

    half = what_if(job, hidden_percent=50).answer.step_ms
    assert half == pytest.approx(length_ms(plain.edited(hidden), start_ns))
    quarter = what_if(job, kernels="products", kernel_percent=25).answer.step_ms
    assert quarter == pytest.approx(length_ms(plain.edited(faster), start_ns))


def test_nothing_changed_is_as_recorded(job):
    result = what_if(job)
    assert result.answer.gain_ms == 0
    assert result.answer.step_ms == result.recorded_ms == replay(job).step_ms
    assert result.classes["recorded_ms"].tolist() == result.classes["ms"].tolist()
    assert result.ranks["recorded_ms"].tolist() == result.ranks["ms"].tolist()


def test_the_classes_add_up_to_the_step(job):
    result = what_if(job, host_speed=2, hidden_percent=80, without_loading=True)
    assert result.classes["recorded_ms"].sum() == pytest.approx(result.recorded_ms, rel=1e-6)
    assert result.classes["ms"].sum() == pytest.approx(result.answer.step_ms, rel=1e-6)


def test_changes_act_together(job):
    each = [
        what_if(job, **change).answer.gain_ms
        for change in (
            {"host_speed": math.inf},
            {"without_loading": True},
            {"equal_ranks": "slower"},
            {"hidden_percent": 100},
        )
    ]
    together = what_if(
        job,
        host_speed=math.inf,
        without_loading=True,
        equal_ranks="slower",
        hidden_percent=100,
    )
    assert together.answer.gain_ms >= max(each) > 0
    assert together.answer.gain_ms < together.recorded_ms


def test_faster_is_never_slower(job):
    hosts = [what_if(job, host_speed=speed).answer.step_ms for speed in (0.5, 1, 2, 4, math.inf)]
    shares = [what_if(job, hidden_percent=share).answer.step_ms for share in (0, 30, 60, 100)]
    times = [what_if(job, kernel_percent=share).answer.step_ms for share in (100, 60, 20, 0)]
    for steps in (hosts, shares, times):
        assert steps == sorted(steps, reverse=True)
        assert steps[0] > steps[-1]


def test_a_selected_kernel_is_that_one(job):
    kernel = critical_path(job).kernels.set_index("kernel")["together_ns"].idxmax()
    nothing = what_if(job, kernels="selected", kernel_percent=0)
    gone = what_if(job, kernels="selected", kernel_percent=0, selected_kernel=kernel)
    assert nothing.answer.gain_ms == 0
    whole_ns = len(replay(job).job.steps) * gone.answer.gain_ms * NS_PER_MS
    assert whole_ns == pytest.approx(critical_path(job).kernels["together_ns"].max())


def test_a_selected_collective_transfers_faster(job):
    kernel = next(name for name in replay(job).job.names[0] if "AllReduce" in name)
    half = what_if(job, kernels="selected", kernel_percent=50, selected_kernel=kernel)
    gone = what_if(job, kernels="selected", kernel_percent=0, selected_kernel=kernel)
    assert gone.answer.gain_ms > half.answer.gain_ms > 0


def test_some_ranks_count_and_all_are_replayed(job):
    result = what_if(job, [1], host_speed=2)
    assert result.ranks["rank"].tolist() == [1]
    assert result.answer.gain_ms > 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"host_speed": 0}, "host_speed is 0: it must be more than 0"),
        ({"hidden_percent": 101}, "hidden_percent is 101: it must be from 0 to 100"),
        ({"kernel_percent": -1}, "kernel_percent is -1: it must be from 0 to 100"),
        ({"host_speed": math.nan}, "host_speed is nan"),
    ],
)
def test_a_number_out_of_its_range_is_refused(job, change, words):
    with pytest.raises(ParameterError, match=words):
        what_if(job, **change)


def test_without_gpu_work_there_is_nothing_to_replay(tmp_path):
    path = write(tmp_path / "rank-0.json", [host(0, 10, "aten::mm")])
    job = open_trace(path, progress=False)
    for result in (what_if(job), critical_path(job)):
        assert result.classes.empty
        assert "No GPU work" in result.finding
    with pytest.raises(ParameterError, match="GPU"):
        replay(job)


@pytest.mark.parametrize("steps", [(10,), (11,), (13,), (11, 13), (10, 12), (12, 13)])
def test_a_step_is_as_long_alone_as_among_all(job, steps):
    """A step that was chosen once began with the first one of the recording: 94 ms for 27."""
    every, chosen = replay(job).what_if(HostSpeed(2)), replay(job, steps=steps)
    asked = chosen.what_if(HostSpeed(2))
    assert asked.steps == pytest.approx({each: every.steps[each] for each in steps})
    recorded = {each: replay(job).critical_path(each).length_ns for each in steps}
    assert chosen.step_ms == pytest.approx(sum(recorded.values()) / len(steps) / NS_PER_MS)
    path = critical_path(job, steps=steps).path
    assert path.length_ns == sum(recorded.values())
    assert path.pieces["ns"].sum() == path.length_ns
    assert {*path.pieces["step"]} == {*steps}
    assert sum(path.shares.values()) == pytest.approx(100)
    found = diagnose(job, steps=steps)
    assert found.step_ns == pytest.approx(chosen.step_ms * NS_PER_MS)
    assert found.step_ns == pytest.approx(found.period_ns, rel=0.01)
    assert {each for finding in found for each in finding.steps} <= {*steps}
