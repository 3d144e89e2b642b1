"""Record a block or a cell, and open a live profiler; without PyTorch, by one that imitates it."""

from __future__ import annotations

import enum
import gzip
import sys
from itertools import accumulate
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import pytest
from IPython.core.interactiveshell import InteractiveShell

import hta_widgets
from hta_widgets import Dashboard, cli, open_trace
from hta_widgets.errors import PackageError, ParameterError, WriteError
from hta_widgets.recording import profiler as recording
from hta_widgets.recording.script import run_script
from hta_widgets.sample import write_sample
from hta_widgets.trace.ranks.facts import unprofiled_step_ns


class Action(enum.Enum):
    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class FakeProfiler:
    """Does what ``torch.profiler.profile`` does with steps and files; it writes a sample."""

    trace = b""

    def __init__(self, *, schedule, on_trace_ready, record_shapes, profile_memory, with_stack):
        self.options = (record_shapes, profile_memory, with_stack)
        self.schedule, self.ready, self.number = schedule, on_trace_ready, 0
        self.actions = []
        self.profiler = SimpleNamespace(kineto_results=None)
        self.is_saved = False

    def __enter__(self):
        self.actions.append(self.schedule(0))
        return self

    def step(self):
        if self.actions[-1] is Action.RECORD_AND_SAVE:
            self.finish()
        self.number += 1
        self.actions.append(self.schedule(self.number))

    def __exit__(self, *_):
        if self.actions[-1] in (Action.RECORD, Action.RECORD_AND_SAVE):
            self.finish()

    def finish(self):
        self.profiler.kineto_results, self.is_saved = object(), False
        self.ready(self)

    def export_chrome_trace(self, path):
        if self.profiler.kineto_results is None:
            raise AssertionError
        if self.is_saved:
            raise RuntimeError
        self.is_saved = True
        Path(path).write_bytes(self.trace)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder, ranks=1, steps=3, events=3000)
    return gzip.decompress(next(folder.iterdir()).read_bytes())


@pytest.fixture(autouse=True)
def fake_torch(trace, monkeypatch, tmp_path):
    module = ModuleType("torch.profiler")
    module.profile, module.ProfilerAction = FakeProfiler, Action
    monkeypatch.setattr(FakeProfiler, "trace", trace)
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.setitem(sys.modules, "torch.profiler", module)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def shown(monkeypatch):
    found = []
    monkeypatch.setattr("IPython.display.display", found.append)
    return found


def test_a_block_is_recorded_and_opens(shown, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    with hta_widgets.profile(memory=True) as profiler:
        for _ in range(4):
            profiler.step()
    assert profiler.options == (True, True, False)
    assert [path.name for path in Path("traces").iterdir()] == ["rank-3.json.gz"]
    job = open_trace(profiler, progress=False)
    assert job.sources[0].path == Path("traces/rank-3.json.gz").absolute().relative_to(Path.cwd())
    assert job.rank(0).steps.distinct == open_trace("traces", progress=False).rank(0).steps.distinct
    assert shown == []


def test_the_dashboard_is_shown_in_a_notebook_on_rank_0(shown, monkeypatch):
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    with hta_widgets.profile():
        pass
    with hta_widgets.profile(show=False):
        pass
    monkeypatch.setenv("RANK", "1")
    with hta_widgets.profile():
        pass
    assert [isinstance(each, Dashboard) for each in shown] == [True]
    shown[0].close()


def test_a_script_says_where_the_trace_is_once(shown, monkeypatch, capsys):
    with hta_widgets.profile("runs/new"):
        pass
    path = Path("runs/new/rank-0.json.gz")
    assert capsys.readouterr() == ("", f"Wrote {path}: hta-widgets diagnose runs/new\n")
    monkeypatch.setenv("RANK", "1")
    with hta_widgets.profile():
        pass
    monkeypatch.setenv("RANK", "0")
    with hta_widgets.profile(show=False):
        pass
    assert capsys.readouterr() == ("", "")
    assert shown == []


@pytest.mark.parametrize(
    ("steps", "actions"),
    [
        ({}, "RRRRR"),
        ({"wait": 1, "warmup": 2}, "NWWRR"),
        ({"wait": 1, "warmup": 1, "active": 2}, "NWRSN"),
        ({"active": 1}, "SNNNN"),
    ],
)
def test_the_schedule_is_one_cycle(steps, actions):
    letters = {
        "N": Action.NONE,
        "W": Action.WARMUP,
        "R": Action.RECORD,
        "S": Action.RECORD_AND_SAVE,
    }
    with hta_widgets.profile(**steps) as profiler:
        for _ in range(4):
            profiler.step()
    assert profiler.actions == [letters[each] for each in actions]


@pytest.mark.parametrize(
    ("wait", "step_ns"),
    [(0, 0), (4, 0), (5, (10 + 10 + 16) // 3), (6, (10 + 16 + 10) // 3)],
)
def test_how_long_steps_take_without_the_profiler_is_in_the_trace(wait, step_ns, monkeypatch):
    """The earlier half sets up what is needed, and what is recorded takes longer."""
    takes = [1000, 100, 10, 10, 16, 10][:wait] + [70] * 4
    begins = iter([0, *accumulate(takes)])
    monkeypatch.setattr("hta_widgets.recording.profiler.perf_counter_ns", lambda: next(begins))
    with hta_widgets.profile(wait=wait, warmup=1, active=2) as profiler:
        for _ in takes:
            profiler.step()
    rank = open_trace("traces", progress=False).rank(0)
    assert unprofiled_step_ns(rank) == step_ns
    assert not rank.trace.faults.is_cut


def test_what_ends_before_the_recording_is_said():
    with (
        pytest.warns(UserWarning, match="within the first 5 steps"),
        hta_widgets.profile(wait=3, warmup=2) as profiler,
    ):
        profiler.step()
    assert not Path("traces").exists()


def test_a_block_that_raises_is_written_and_raises(shown):
    with pytest.raises(ZeroDivisionError), hta_widgets.profile(show=True):
        raise ZeroDivisionError
    assert Path("traces/rank-0.json.gz").is_file()
    assert shown == []


def test_the_rank_is_that_of_the_process_group(monkeypatch):
    group = ModuleType("torch.distributed")
    group.is_available = group.is_initialized = lambda: True
    group.get_rank = lambda: 7
    monkeypatch.setitem(sys.modules, "torch.distributed", group)
    with hta_widgets.profile("out"):
        pass
    assert Path("out/rank-7.json.gz").is_file()


def test_errors_say_what_to_do(monkeypatch):
    for steps in ({"wait": -1}, {"active": 0}):
        with pytest.raises(ParameterError, match="0 or more steps"), hta_widgets.profile(**steps):
            pass
    with pytest.raises(ParameterError, match="unexpected"), hta_widgets.profile(with_everything=1):
        pass
    Path("file").touch()
    with pytest.raises(WriteError, match="cannot be written"), hta_widgets.profile("file"):
        pass
    monkeypatch.setitem(sys.modules, "torch.profiler", None)
    with pytest.raises(PackageError, match="pip install 'torch'"), hta_widgets.profile():
        pass


def test_a_live_profiler_opens_and_writes_once():
    profiler = FakeProfiler(
        schedule=lambda _: Action.RECORD,
        on_trace_ready=lambda _: None,
        record_shapes=False,
        profile_memory=False,
        with_stack=False,
    )
    with pytest.raises(ParameterError, match="still recording"):
        open_trace(profiler)
    with profiler:
        pass
    first, again = (open_trace(profiler, progress=False).sources[0].path for _ in range(2))
    assert first == again
    assert first.is_file()
    with profiler:
        pass
    board = Dashboard(profiler)
    assert board.job.sources[0].path != first
    board.close()
    profiler.finish()
    profiler.export_chrome_trace("mine.json")
    with pytest.raises(ParameterError, match="open the saved file by its path"):
        open_trace(profiler)


@pytest.fixture
def shell():
    made = InteractiveShell()
    made.run_line_magic("load_ext", "hta_widgets")
    return made


def test_the_magic_records_a_cell(shell, shown, monkeypatch):
    monkeypatch.setattr(recording, "_is_in_notebook", lambda: True)
    shell.user_ns["profiler"] = "mine"
    shell.run_cell_magic(
        "gpu_profile", "--folder out --active 2 --stacks", "profiler.step(); x = 1"
    )
    assert shell.user_ns["x"] == 1
    assert shell.user_ns["profiler"] == "mine"
    assert Path("out/rank-0.json.gz").is_file()
    assert len(shown) == 1
    shown[0].close()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--steps 3", "unrecognized arguments"),
        ("--folder 'x", "No closing quotation"),
        ("--active 0", "active 1 or more"),
    ],
)
def test_the_magic_says_what_is_wrong(line, words, shell, capsys):
    shell.run_cell(f"%%gpu_profile {line}\npass")
    said = capsys.readouterr()
    assert words in said.out + said.err
    assert not Path("traces").exists()


def test_a_cell_that_fails_shows_its_own_error_only(shell, shown, capsys):
    shell.run_cell("%%gpu_profile\n1 / 0")
    said = capsys.readouterr().out
    assert "ZeroDivisionError" in said
    assert "_CellFailedError" not in said
    assert "profiler" not in shell.user_ns
    assert shown == []


class FakeOptimizer:
    """Calls the hooks of all optimizers after its steps, as PyTorch's do."""

    hooks: ClassVar[list] = []

    def step(self):
        for hook in self.hooks:
            hook(self, (), {})


@pytest.fixture
def optimizers(monkeypatch):
    hooks = []
    monkeypatch.setattr(FakeOptimizer, "hooks", hooks)
    module = ModuleType("torch.optim.optimizer")

    def register(hook):
        hooks.append(hook)
        return SimpleNamespace(remove=lambda: hooks.remove(hook))

    module.register_optimizer_step_post_hook = register
    module.Optimizer = FakeOptimizer
    monkeypatch.setitem(sys.modules, "torch.optim", ModuleType("torch.optim"))
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", module)
    return hooks


SCRIPT = """
import sys
from beside import STEPS
from torch.optim.optimizer import Optimizer
one, other = Optimizer(), Optimizer()
for _ in range(STEPS):
    one.step()
    other.step()
assert __name__ == "__main__"
print(sys.argv[1:])
sys.exit(7)
"""


@pytest.mark.parametrize("how", ["script", "module"])
def test_a_script_is_recorded_as_it_is(how, optimizers, tmp_path, capsys, monkeypatch):
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    (folder / "beside.py").write_text("STEPS = 6")
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    before = sys.argv, sys.path[:]
    if how == "module":
        monkeypatch.chdir(folder)
    what = ["--module", "train"] if how == "module" else [str(folder / "train.py")]
    out = str(tmp_path / "traces")
    with pytest.raises(SystemExit) as exit_:
        cli.main(["run", "--folder", out, "--wait", "2", "--warmup", "1", *what, "--lr", "1"])
    assert exit_.value.code == 7
    said = capsys.readouterr()
    assert said.out == "['--lr', '1']\n"
    assert said.err.endswith(f"rank-0.json.gz. Next: hta-widgets diagnose {out}\n")
    assert said.err.startswith("hta-widgets: recorded ")
    assert (tmp_path / "traces" / "rank-0.json.gz").is_file()
    assert (sys.argv, sys.path) == before
    assert optimizers == []


@pytest.mark.usefixtures("optimizers")
def test_the_steps_are_those_of_the_first_optimizer(tmp_path):
    script, said = tmp_path / "train.py", []
    script.write_text(
        SCRIPT.replace("from beside import STEPS", "STEPS = 6").replace("sys.exit(7)", "")
    )
    made = []

    class Profiler(FakeProfiler):
        def __enter__(self):
            made.append(self)
            return super().__enter__()

    sys.modules["torch.profiler"].profile = Profiler
    recorded = {"shapes": True, "memory": False, "stacks": False}
    run_script(str(script), [], said.append, wait=1, warmup=1, active=2, **recorded)
    assert [action.name[0] for action in made[0].actions] == list("NWRRNNN")
    written = Path("traces/rank-0.json.gz")
    assert said == [f"recorded {written}; the script goes on. Next: hta-widgets diagnose traces"]
    run_script(str(script), [], said.append, wait=9, warmup=1, active=2, **recorded)
    assert said[1].startswith("nothing was recorded: the first 10 steps are left out (--wait, ")
    assert "the script ended after 6 optimizer steps" in said[1]


def test_a_script_that_is_not_there_is_said(capsys):
    assert cli.main(["run", "none.py"]) == cli.USER_ERROR
    assert "none.py is not a file" in capsys.readouterr().err


def test_pytorch_itself(monkeypatch, tmp_path):
    monkeypatch.undo()
    torch = pytest.importorskip("torch")
    with hta_widgets.profile(tmp_path, active=4) as profiler:
        for _ in range(5):
            torch.ones(4, 4) @ torch.ones(4, 4)
            profiler.step()
    job = open_trace(profiler, progress=False)
    assert job.rank(0).steps.distinct == (0, 1, 2, 3)
