"""Each cause is planted alone: the twin is the same job without it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hta_widgets import analyses, open_trace
from hta_widgets.diagnosis import CAUSES as DIAGNOSED
from hta_widgets.errors import ParameterError
from hta_widgets.sample.process import FIRST_MOMENT_NS
from hta_widgets.sample.recorder import Clock
from hta_widgets.trace.model.steps import profiler_steps
from tests.kineto_text import read_exactly
from tests.server_loops import OF_INFERENCE
from tests.simulator import CAUSES, LAYOUTS, write_job
from tests.simulator.__main__ import main
from tests.simulator.causes import healthy_plan
from tests.simulator.communication import PeerToPeer
from tests.simulator.plan import Layout, Plan
from tests.simulator.simulation import Simulation, simulate_plan, write_plan
from tests.test_sample import timed_events

Event = dict[str, Any]
PLANTED = [(name, layout) for name, cause in CAUSES.items() for layout in cause.layouts]
ONE_OF_EACH_LAYOUT = [*{layout: (name, layout) for name, layout in PLANTED}.values()]
USUAL = {*ONE_OF_EACH_LAYOUT, *((name, cause.layouts[0]) for name, cause in CAUSES.items())}
"""Each cause and each layout; the other pairs of them are for `bash tests/run long`."""
HARDWARE = [("slow_gpu", "experts"), ("gpu_throttling", "sharded"), ("slow_link", "data_parallel")]
STEPS = 2
MICRO_BATCHES = 6
GPU_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset"}
PLAIN = [
    analyses.clocks,
    analyses.collectives,
    analyses.duration_tails,
    analyses.idle_owners,
    analyses.idle_time,
    analyses.kernel_breakdown,
    analyses.launch_overlap,
    analyses.launch_stats,
    analyses.memory_bandwidth,
    analyses.overlap,
    analyses.queue_length,
    analyses.rank_overlap,
    analyses.step_table,
    analyses.temporal_breakdown,
]
SILENT_BELOW_3_PERCENT = (analyses.idle_time, analyses.idle_owners)


def planted(name: str, layout: Layout, seed: int = 0, steps: int = STEPS) -> tuple[Plan, Plan]:
    cause = CAUSES[name]
    healthy = cause.healthy_plan(layout, seed=seed, steps=steps)
    return healthy, cause.plant(healthy)


def write(plan: Plan, folder: Path) -> Simulation:
    return write_plan(plan, {rank: folder / f"rank-{rank}.json.gz" for rank in plan.files})


def events_of(path: Path) -> list[Event]:
    return timed_events(read_exactly(path))


@dataclass(frozen=True)
class Written:
    """A job with a cause, and its traces."""

    simulation: Simulation
    folder: Path


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(each, id="-".join(each), marks=() if each in USUAL else pytest.mark.long)
        for each in PLANTED
    ],
)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    folder = tmp_path_factory.mktemp("job")
    _, sick = planted(*request.param)
    sick = replace(sick, micro_batches=min(sick.micro_batches, MICRO_BATCHES))
    return Written(write(sick, folder), folder)


def test_every_cause_that_is_diagnosed_can_be_planted() -> None:
    assert {*CAUSES} == {*DIAGNOSED} - {*OF_INFERENCE}
    assert {layout for _, layout in PLANTED} == set(LAYOUTS)


@pytest.mark.parametrize(("name", "layout"), PLANTED)
def test_twin_differs_only_in_the_cause(name: str, layout: Layout) -> None:
    for seed in (0, 1):
        healthy, sick = planted(name, layout, seed)
        changed = [
            f.name for f in fields(Plan) if getattr(healthy, f.name) != getattr(sick, f.name)
        ]
        assert changed
        assert set(changed) <= {"disturbed_network", "disturbed_steps"} or len(changed) == 1


@pytest.mark.parametrize(("name", "layout"), HARDWARE)
def test_slow_hardware_does_the_same_work(name: str, layout: Layout, tmp_path: Path) -> None:
    healthy, sick = planted(name, layout)
    counts = []
    for plan, folder in ((healthy, tmp_path / "healthy"), (sick, tmp_path / "sick")):
        folder.mkdir()
        write(plan, folder)
        counts.append(
            [
                Counter((e["cat"], e["name"]) for e in events_of(path))
                for path in sorted(folder.iterdir())
            ]
        )
    assert counts[0] == counts[1]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nothing_moves_before_all_ranks_have_come(layout: Layout) -> None:
    simulation = simulate_plan(healthy_plan(layout, steps=2))
    assert simulation.meetings
    for part, meeting in simulation.meetings:
        expected = 2 if isinstance(part, PeerToPeer) else len(part.group.ranks)
        assert len(meeting.members) == expected
        last_ns = max(member.start_ns for member in meeting.members)
        plan = simulation.plan
        if isinstance(part, PeerToPeer):
            transfers_ns = {plan.transfer_ns(part.peer - 1, 0, part)}
        else:
            transfers_ns = {plan.transfer_ns(rank, 0, part) for rank in part.group.ranks}
        waited_ns = [member.end_ns - last_ns for member in meeting.members]
        assert min(waited_ns) >= min(transfers_ns)
        assert max(waited_ns) <= max(transfers_ns) + 3_000


@pytest.mark.long
def test_written_events_hold_together(written: Written) -> None:
    for path in written.folder.iterdir():
        events = events_of(path)
        calls = {e["args"]["correlation"]: e for e in events if e["cat"].startswith("cuda_")}
        streams: dict[int, list[Event]] = {}
        for event in (e for e in events if e["cat"] in GPU_CATEGORIES):
            assert event["start_ns"] >= calls[event["args"]["correlation"]]["start_ns"]
            streams.setdefault(event["tid"], []).append(event)
        for work in streams.values():
            work.sort(key=lambda e: e["start_ns"])
            assert all(first["end_ns"] <= then["start_ns"] for first, then in pairwise(work))


def test_loads_without_notices_with_the_times_that_were_simulated(written: Written) -> None:
    job = open_trace(written.folder, include_last_profiler_step=True)
    assert list(job.ranks) == list(written.simulation.plan.files)
    expected = ["rank 1 is missing: the traces come from a job with 4 ranks"]
    assert list(job.notices) == expected * (len(job.ranks) == 3)
    for rank in job.ranks:
        steps = profiler_steps(job.rank(rank).trace.events)
        spans = written.simulation.processes[rank].step_spans_ns
        durations = (steps.end_ns - steps.start_ns).tolist()
        assert durations == [end_ns - start_ns for start_ns, end_ns in spans]


@pytest.mark.parametrize("written", ONE_OF_EACH_LAYOUT, indirect=True, ids="-".join)
def test_every_analysis_runs(written: Written) -> None:
    job = open_trace(written.folder)
    for analysis in PLAIN:
        assert analysis(job).finding or analysis in SILENT_BELOW_3_PERCENT


def test_collective_fields_are_those_of_a_real_trace(real_traces: Path, tmp_path: Path) -> None:
    (real,) = (real_traces / "kineto" / "b200_eager").glob("*.json.gz")
    write(healthy_plan("sharded", ranks=2, steps=1), tmp_path)
    kernels = [
        next(e for e in events_of(path) if e["name"].startswith("ncclDevKernel_AllGather"))["args"]
        for path in (real, tmp_path / "rank-0.json.gz")
    ]
    assert list(kernels[0]) == list(kernels[1])
    assert kernels[0]["Collective name"] == kernels[1]["Collective name"] == "_allgather_base"
    assert [type(value) for value in kernels[0].values()] == [
        type(value) for value in kernels[1].values()
    ]


def test_a_send_names_only_its_peer(tmp_path: Path) -> None:
    write(healthy_plan("pipeline", steps=1, micro_batches=2), tmp_path)
    kernels = [
        e["args"]
        for e in events_of(tmp_path / "rank-1.json.gz")
        if e["args"].get("Process Group Name") == "1"
    ]
    peers = Counter(
        (args["Collective name"], args.get("Src Rank"), args.get("Dst Rank"))
        for args in kernels
        if "stream" in args
    )
    assert peers == {
        ("recv", 0, None): 2,
        ("send", None, 2): 2,
        ("recv", 2, None): 2,
        ("send", None, 0): 2,
    }
    assert {args["Process Group Ranks"] for args in kernels} == {"[0, 1, 2, 3]"}


def test_sibling_groups_have_their_own_names_and_ranks(tmp_path: Path) -> None:
    plan = healthy_plan("sharded", ranks=4, replicas=2, steps=1)
    write(plan, tmp_path)
    groups = [
        {
            (e["args"]["Process Group Name"], e["args"]["Process Group Ranks"])
            for e in events_of(tmp_path / f"rank-{rank}.json.gz")
            if "Process Group Name" in e["args"]
        }
        for rank in (0, 3)
    ]
    assert groups == [{("1", "[0, 1]"), ("3", "[0, 2]")}, {("2", "[2, 3]"), ("4", "[1, 3]")}]


def test_ranks_that_share_no_slow_link_end_an_exchange_earlier() -> None:
    cause = CAUSES["slow_link"]
    plan = cause.plant(cause.healthy_plan("experts", seed=4, steps=1))
    simulation = simulate_plan(plan)
    first = next(m for part, m in simulation.meetings if part.kind.name == "all_to_allv")
    ends = sorted(member.end_ns for member in first.members)
    assert ends[2] - ends[1] > 10 * (ends[1] - ends[0])
    assert len(cause.culprits(plan)) == 2


def test_clocks_differ_and_drift_only_in_what_is_written(tmp_path: Path) -> None:
    clock = Clock(ahead_ns=-3_000_000_000, drift_ppm=20, set_at_ns=FIRST_MOMENT_NS)
    plain = healthy_plan(ranks=2, steps=2)
    apart = replace(plain, clocks={1: clock})
    spans = []
    for plan, name in ((plain, "plain"), (apart, "apart")):
        (tmp_path / name).mkdir()
        simulation = write(plan, tmp_path / name)
        spans.append([process.step_spans_ns for process in simulation.processes])
    assert spans[0] == spans[1]
    for rank in (0, 1):
        before, after = (
            [e["start_ns"] for e in events_of(tmp_path / name / f"rank-{rank}.json.gz")]
            for name in ("plain", "apart")
        )
        expected = [clock.read(ns) for ns in before] if rank else before
        assert after == expected


def test_same_arguments_give_same_bytes(tmp_path: Path) -> None:
    first, again, other = (
        write_job(tmp_path / name, "slow_link", layout="pipeline", steps=1, seed=seed)
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    assert first[0].read_bytes() != other[0].read_bytes()


def test_the_missing_rank_has_no_file(tmp_path: Path) -> None:
    paths = write_job(tmp_path, "missing_rank", steps=1)
    assert [path.name for path in paths] == ["rank-0.json.gz", "rank-2.json.gz", "rank-3.json.gz"]


def test_the_command_writes_the_same_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "tests.simulator", "slow_link", str(tmp_path / "a")]
    root = Path(__file__).parents[2]
    options = ["--layout", "experts", "--steps", "1", "--seed", "3", "--healthy"]
    done = subprocess.run(
        [*command, *options], cwd=root, check=True, capture_output=True, text=True
    )
    assert done.stdout == f"hta-widgets open {tmp_path / 'a'}\n"
    written = sorted((tmp_path / "a").iterdir())
    same = write_job(tmp_path / "b", "slow_link", layout="experts", steps=1, seed=3, healthy=True)
    assert [path.read_bytes() for path in written] == [path.read_bytes() for path in same]
    with pytest.raises(SystemExit):
        main(["gremlins", str(tmp_path / "c")])
    assert "cause must be one of slow_gpu, gpu_throttling," in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cause": "gremlins"}, "cause must be one of slow_gpu, .*slow_shape, got gremlins"),
        (
            {"cause": "expert_imbalance", "layout": "pipeline"},
            "layout must be one of experts for expert_imbalance, got pipeline",
        ),
        ({"cause": "slow_gpu", "ranks": 1}, "ranks must be 2 or more, got 1"),
        ({"cause": "slow_gpu", "steps": 0}, "steps must be 1 or more, got 0"),
    ],
)
def test_arguments_that_do_not_go_together(
    arguments: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ParameterError, match=message):
        write_job(tmp_path, **arguments)
    assert not list(tmp_path.iterdir())
