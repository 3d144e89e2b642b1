"""Folders with several files of a rank: cycles of one run, and runs to choose from."""

from __future__ import annotations

import ast
import gzip
import json
import pathlib
import shlex
from glob import glob
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets import TraceAnalysis, open_trace
from hta_widgets.errors import HtaWidgetsError, UnknownCycleError
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.model.formats import Stated
from hta_widgets.trace.opening.open import find_cycle
from hta_widgets.trace.opening.run_choices import SeveralRunsError
from hta_widgets.trace.opening.runs import Recording, runs_of
from hta_widgets.trace.ranks.source import RankSource
from tests.kineto_text import kernel, write
from tests.recorded_folders import (
    BASE_NS,
    CYCLE_US,
    Recorded,
    cycles,
    events_of,
    ranked,
    sglang,
    tensorboard,
    vllm,
    vllm_front_end,
    write_folder,
)


def steps_of(job):
    """The first step of each rank that was opened."""
    return {rank: job.rank(rank).steps.distinct[0] for rank in job.ranks}


def opened(folder, **options):
    return open_trace(folder, progress=False, include_last_profiler_step=True, **options)


def choices(error, command="hta-widgets diagnose"):
    """What the message says to type for each run: in Python, and in a shell."""
    python = [line.strip() for line in str(error).splitlines() if line.startswith("  ")]
    shell = [line.strip() for line in error.in_shell(command) if line.startswith("  ")]
    return python, shell


def evaluated(line):
    """The paths that a line of Python gives to `open_trace`."""
    (argument,) = ast.parse(line, mode="eval").body.args
    given_paths = eval(compile(ast.Expression(argument), "", "eval"), {"pathlib": pathlib})  # noqa: S307
    return [given_paths] if isinstance(given_paths, str) else [str(path) for path in given_paths]


def given_by(pattern):
    """The paths that a pattern stands for, sorted as a shell does."""
    return sorted(glob(pattern))  # noqa: PTH207  # as a shell does it


def typed(line):
    """The paths that a shell gives to a command."""
    words = shlex.split(line)[2:]
    return [path for word in words for path in (given_by(word) if "*" in word else [word])]


class TestCycles:
    @pytest.mark.parametrize("name", [tensorboard, vllm, sglang, ranked])
    @pytest.mark.parametrize("ranks", [1, 3])
    def test_the_newest_is_opened_and_the_others_are_named(self, tmp_path, name, ranks):
        write_folder(tmp_path / "run", cycles(ranks, 3), name)
        job = opened(tmp_path / "run")
        assert job.ranks == tuple(range(ranks))
        assert set(steps_of(job).values()) == {12}
        assert (job.name, job.cycle, len(job.cycles)) == ("run, cycle 2", 2, 3)
        notice = next(each for each in job.notices if "cycle" in each)
        assert notice.startswith("cycle 2 of 3 is open, the newest; the others are cycle 0 (2025-")
        assert "23:00:37 UTC, ProfilerStep 2), cycle 1 (" in notice
        assert notice.endswith("cycle=1 opens another, --cycle 1 in a shell")

    @pytest.mark.parametrize(("cycle", "step"), [(0, 2), (1, 7), (2, 12), (-1, 12), (-3, 2)])
    def test_each_can_be_opened(self, tmp_path, cycle, step):
        write_folder(tmp_path, cycles(2, 3))
        job = opened(tmp_path, cycle=cycle)
        assert steps_of(job) == {0: step, 1: step}
        assert steps_of(opened(tmp_path).open_cycle(cycle)) == {0: step, 1: step}

    @pytest.mark.parametrize("cycle", [3, -4, 10**30])
    def test_one_that_is_not_there_says_which_there_are(self, tmp_path, cycle):
        write_folder(tmp_path, cycles(2, 3))
        with pytest.raises(UnknownCycleError, match=rf"no cycle {cycle}; there are cycle 0 \(20"):
            open_trace(tmp_path, cycle=cycle)

    def test_a_job_that_was_recorded_once_is_cycle_0(self, tmp_path):
        write_folder(tmp_path, cycles(2, 1))
        job = opened(tmp_path, cycle=-1)
        assert (job.cycle, len(job.cycles)) == (0, 1)
        assert not any("cycle" in each for each in job.notices)
        with pytest.raises(UnknownCycleError, match="recorded once, which is cycle 0"):
            job.open_cycle(1)

    def test_a_single_gpu_needs_no_rank(self, tmp_path):
        write_folder(tmp_path, cycles(1, 2, world_size=None))
        job = opened(tmp_path)
        assert steps_of(job) == {0: 7}
        assert job.cycle == 1

    def test_another_cycle_is_opened_as_the_first_was(self, tmp_path):
        write_folder(tmp_path, cycles(3, 2))
        job = open_trace(
            tmp_path, ranks=[0, 2], kernel_rules={"COMMUNICATION": ["kernel"]}, progress=False
        )
        other = job.open_cycle(0)
        assert other.ranks == (0, 2)
        assert other.settings == job.settings
        assert other.open_cycle(-1).sources == job.sources
        assert job.open_cycle(1) is job

    def test_a_cycle_may_lack_ranks(self, tmp_path):
        made = cycles(3, 3)
        made.remove(next(each for each in made if (each.rank, each.step) == (1, 12)))
        write_folder(tmp_path, made)
        job = opened(tmp_path)
        assert steps_of(job) == {0: 12, 2: 12}
        assert any("ProfilerStep 2, ranks 0-2), cycle 1 (" in each for each in job.notices)
        assert steps_of(opened(tmp_path, cycle=1)) == {0: 7, 1: 7, 2: 7}

    def test_hosts_with_other_clocks_are_matched_by_their_steps(self, tmp_path):
        made = [
            each._replace(start_us=each.start_us + 9 * CYCLE_US * each.rank)
            for each in cycles(2, 3)
        ]
        write_folder(tmp_path, made)
        assert steps_of(opened(tmp_path)) == {0: 12, 1: 12}
        assert steps_of(opened(tmp_path, cycle=0)) == {0: 2, 1: 2}

    def test_without_a_zero_that_is_known_the_times_still_order_them(self, tmp_path):
        for made in cycles(1, 3):
            path = tmp_path / f"{'cab'[made.step // 5]}_{made.pid}.{made.stamp_ns}.pt.trace.json"
            text = json.dumps({"traceEvents": events_of(made), "baseTimeNanoseconds": BASE_NS})
            path.with_name(f"w_{made.pid}.{made.stamp_ns}.pt.trace.json").write_text(text)
        assert steps_of(opened(tmp_path)) == {0: 12}

    def test_gpu_work_alone_is_ordered_by_the_names(self, tmp_path):
        for cycle in range(2):
            events = [kernel(10 * cycle, 5 + cycle)]
            write(tmp_path / f"w_7.{BASE_NS + cycle}.pt.trace.json", events)
        assert len(opened(tmp_path).cycles) == 2
        assert opened(tmp_path).sources[0].path.name == f"w_7.{BASE_NS + 1}.pt.trace.json"

    def test_stages_of_a_server_are_named(self, tmp_path):
        for stage, made in zip(("EXTEND", "DECODE"), cycles(1, 2), strict=True):
            write(tmp_path / f"1751410836.5-TP-0-{stage}.trace.json.gz", events_of(made))
        assert any("EXTEND" in each for each in opened(tmp_path).notices)
        assert opened(tmp_path).cycles[1].label.endswith("DECODE")

    def test_trace_analysis_takes_a_cycle(self, tmp_path):
        write_folder(tmp_path, cycles(2, 2))
        assert TraceAnalysis(trace_dir=tmp_path, cycle=0, progress=False).job.cycle == 0

    def test_each_is_cached_by_itself(self, tmp_path, cached):
        write_folder(tmp_path / "run", cycles(2, 2))
        for _ in range(2):
            for cycle, step in enumerate((2, 7)):
                assert steps_of(opened(tmp_path / "run", cycle=cycle)) == {0: step, 1: step}
        assert len([*cached.glob("*.arrow")]) == 4

    def test_ranks_of_a_mapping_are_kept(self, tmp_path):
        write_folder(tmp_path, cycles(1, 2))
        old, new = sorted(tmp_path.iterdir())
        assert steps_of(opened({0: new, 1: old})) == {0: 7, 1: 2}

    def test_a_list_of_files_has_cycles_too(self, tmp_path):
        write_folder(tmp_path, cycles(2, 2))
        assert steps_of(opened(sorted(tmp_path.iterdir()), cycle=0)) == {0: 2, 1: 2}

    def test_only_the_beginning_of_each_file_is_read(self, tmp_path, monkeypatch):
        write_folder(tmp_path, cycles(8, 4))
        monkeypatch.setattr(EventText, "__iter__", lambda _: pytest.fail("the events were read"))
        assert len(find_cycle(tmp_path, 2).sources) == 8


class TestRuns:
    def test_of_other_processes_are_listed(self, tmp_path):
        first = cycles(2, 2)
        later = [each._replace(pid=each.pid + 100, start_us=each.start_us + 1e9) for each in first]
        write_folder(tmp_path, [*first, *later])
        with pytest.raises(SeveralRunsError) as refused:
            open_trace(tmp_path)
        assert "2 runs" in str(refused.value)
        assert "ranks 0-1 of 2, 2025-07-01 23:00:37 UTC, 2 cycles: node_100." in str(refused.value)
        self.check_choices(refused.value, [first, later], tmp_path)

    def test_of_other_hosts_are_listed(self, tmp_path):
        runs = [cycles(1, 2, host=host, world_size=None) for host in ("node-a", "node-b")]
        write_folder(tmp_path, runs[0] + runs[1])
        with pytest.raises(SeveralRunsError, match="no rank, 2025") as refused:
            open_trace(tmp_path)
        self.check_choices(refused.value, runs, tmp_path)

    def test_of_other_sizes_are_listed(self, tmp_path):
        runs = [cycles(size, 1, pid=size, start_us=size * 1e6) for size in (1, 2)]
        write_folder(tmp_path, runs[0] + runs[1], vllm)
        with pytest.raises(SeveralRunsError, match="2 runs") as refused:
            open_trace(tmp_path)
        assert "rank 0 of 1" in str(refused.value)
        assert "ranks 0-1 of 2" in str(refused.value)

    def test_without_ranks_are_listed_each_and_never_numbered(self, tmp_path):
        made = [Recorded(pid=pid, start_us=pid * 1e7) for pid in (1, 2, 3)]
        write_folder(tmp_path, made)
        with pytest.raises(SeveralRunsError) as refused:
            open_trace(tmp_path)
        self.check_choices(refused.value, [[each] for each in made], tmp_path)
        assert "open_trace({rank: path, …})" in str(refused.value)
        assert "rank-0.json, rank-1.json" in refused.value.in_shell("x")[-1]
        for said in (str(refused.value), *refused.value.in_shell("x")):
            assert "{0:" not in said

    @pytest.mark.parametrize("apart_us", [0, 3])
    def test_replicas_that_were_recorded_at_once_are_not_paired(self, tmp_path, apart_us):
        first = cycles(3, 1)
        second = [
            each._replace(pid=each.pid + 50, start_us=each.start_us + apart_us) for each in first
        ]
        write_folder(tmp_path, first + second)
        with pytest.raises(SeveralRunsError, match="one file of each rank") as refused:
            open_trace(tmp_path)
        assert "one file of each rank: hta-widgets report FILE" in "".join(
            refused.value.in_shell("hta-widgets report")
        )

    def test_copies_are_no_cycles(self, tmp_path):
        made = Recorded(world_size=1)
        write_folder(tmp_path, [made])
        (original,) = tmp_path.iterdir()
        copy = tmp_path / "copy.json"
        copy.write_bytes(gzip.decompress(original.read_bytes()))
        with pytest.raises(SeveralRunsError, match="several files of one rank") as refused:
            open_trace(tmp_path)
        python, shell = choices(refused.value)
        assert sorted(map(evaluated, python)) == sorted(map(typed, shell))
        assert sorted(map(evaluated, python)) == [[str(copy)], [str(original)]]

    def test_many_files_without_a_pattern_go_to_a_folder(self, tmp_path):
        names = iter("".join(word) for word in zip("zyxwvutsrqponm", "abcdefghijklmn", strict=True))
        runs = [cycles(7, 1), cycles(7, 1, start_us=1e10, pid=9)]
        write_folder(tmp_path, runs[0] + runs[1], lambda _: f"{next(names)}.json")
        with pytest.raises(SeveralRunsError) as refused:
            open_trace(tmp_path)
        python, shell = choices(refused.value)
        assert [len(evaluated(line)) for line in python] == [7, 7]
        assert [evaluated(line) for line in python] == [typed(line) for line in shell]

    def test_names_cannot_break_out_of_a_line(self, tmp_path):
        for pid, name in enumerate(["a'b $(x).json", "c\n  hta-widgets; rm.json"]):
            write(tmp_path / name, events_of(Recorded(pid=pid, start_us=pid * 1e7)))
        with pytest.raises(SeveralRunsError) as refused:
            open_trace(tmp_path)
        python, shell = choices(refused.value)
        assert sorted(evaluated(line)[0] for line in python) == sorted(map(str, tmp_path.iterdir()))
        assert typed(shell[0]) == [str(tmp_path / "a'b $(x).json")]
        assert shell[1] == "move its files to a folder of their own, and open that"
        assert all("\n" not in line for line in refused.value.in_shell("x"))

    def check_choices(self, error, runs, folder: Path):
        """Each line, in Python and in a shell, opens exactly the files of one run."""
        python, shell = choices(error)
        wanted = [sorted(str(folder / tensorboard(each)) for each in run) for run in runs]
        assert [sorted(evaluated(line)) for line in python] == wanted
        assert [sorted(typed(line)) for line in shell] == wanted
        for run in wanted:
            assert open_trace(run, progress=False).ranks


class TestServers:
    def test_the_front_end_of_vllm_is_left_out(self, tmp_path):
        write_folder(tmp_path, cycles(2, 2), vllm)
        front = cycles(1, 2, world_size=None, pid=9, has_gpu_work=False)
        write_folder(tmp_path, front, vllm_front_end)
        job = opened(tmp_path)
        assert steps_of(job) == {0: 7, 1: 7}
        assert any("async_llm" in each and "are left out" in each for each in job.notices)

    def test_so_is_what_has_no_gpu_work_beside_the_only_gpu(self, tmp_path):
        write_folder(tmp_path, [Recorded(pid=5), Recorded(pid=6, has_gpu_work=False, start_us=2e9)])
        job = opened(tmp_path)
        assert job.sources[0].path.name.startswith("node_5.")
        assert any("node_6" in each and "no GPU work" in each for each in job.notices)

    def test_processes_without_gpu_work_are_listed_where_there_is_nothing_else(self, tmp_path):
        write_folder(tmp_path, [Recorded(pid=pid, has_gpu_work=False) for pid in (5, 6)])
        with pytest.raises(SeveralRunsError):
            open_trace(tmp_path)

    def test_dp_replicas_of_one_rank_each_are_runs(self, tmp_path):
        for replica in range(2):
            made = Recorded(pid=50 + replica, world_size=1, start_us=1e6 + replica)
            name = f"dp{replica}_pp0_tp0_dcp0_ep0_rank0.{made.stamp_ns}.pt.trace.json.gz"
            write_folder(tmp_path, [made], lambda _, name=name: name)
        with pytest.raises(SeveralRunsError) as refused:
            open_trace(tmp_path)
        assert [len(evaluated(line)) for line in choices(refused.value)[0]] == [1, 1]


@st.composite
def recorded_jobs(draw):
    """Ranks and cycles of a job: times, processes and the order of the files are drawn."""
    ranks = draw(st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True))
    count = draw(st.integers(1, 5))
    starts, time = [], draw(st.integers(0, 10**15))
    for _ in range(count):
        starts.append(time)
        time += draw(st.integers(10**9, 10**12))
    present = {(rank, cycle) for rank in ranks for cycle in range(count)}
    lost = draw(st.sets(st.sampled_from(sorted(present)), max_size=len(present) - 1))
    has_pid, has_rank = draw(st.booleans()), draw(st.booleans())
    made = []
    for rank, cycle in sorted(present - lost):
        start = starts[cycle] + draw(st.integers(0, 10**8))
        name = f"w{rank}_{1000 + rank}.{10**18 + start}.pt.trace.json"
        stated = Stated(
            world_size=64 if has_rank else None,
            process=1000 + rank if has_pid else None,
            start_ns=start,
            step=3 + cycle,
        )
        made.append((cycle, Recording.of(RankSource(Path(name)), rank, stated)))
    return draw(st.permutations(made))


@given(recorded_jobs())
def test_each_cycle_is_found_whatever_the_order_and_what_is_lost(made):
    (run,) = runs_of([each for _, each in made])
    truth: dict[int, set[Recording]] = {}
    for cycle, each in made:
        truth.setdefault(cycle, set()).add(each)
    assert run.cycles is not None
    found = [{*each} for each in run.cycles]
    ranks = {each.rank for _, each in made}
    if all(len(one) == len(ranks) for one in truth.values()):
        assert found == [truth[cycle] for cycle in sorted(truth)]
    # Where files are lost, only a rank that is there twice tells true cycles apart.
    for each in found:
        assert len({one.rank for one in each}) == len(each)
        assert set().union(*(one for one in truth.values() if one & each)) == each


@given(recorded_jobs(), recorded_jobs())
def test_runs_are_never_mixed(first, second):
    other = [
        each._replace(process=("other", each.process[1]), start_ns=each.start_ns + 10**16)
        for _, each in second
    ]
    both = [each for _, each in first] + other
    runs = runs_of(both)
    assert sorted(each.name for run in runs for each in run.recordings) == sorted(
        each.name for each in both
    )
    for run in runs:
        if run.cycles is not None:
            ranks = [each.rank for each in run.recordings]
            processes = {(each.rank, each.process) for each in run.recordings}
            assert len(processes) == len(set(ranks))


def test_errors_of_a_shell_are_those_of_python_unless_they_differ():
    assert HtaWidgetsError("as it is").in_shell("hta-widgets report") == ["as it is"]
