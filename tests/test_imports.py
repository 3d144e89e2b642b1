"""Workers load ranks without the packages that draw them."""

from __future__ import annotations

import ast
import os
import pkgutil
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from types import FunctionType

import pytest

import hta_widgets
from hta_widgets import analyses, panels
from hta_widgets.trace.cache import files as cache_files
from hta_widgets.trace.cache.trace_file import LoadedTrace, write_trace
from hta_widgets.trace.loaders.kineto.load import load_kineto
from tests.kineto_text import call, kernel, step, write

MODULES = sorted(
    found.name
    for found in pkgutil.walk_packages(hta_widgets.__path__, "hta_widgets.")
    if found.name != "hta_widgets.__main__"  # runs the command
)
NAMED_OTHERWISE = {
    "modules": "ModuleTree",
    "operators": "OperatorTable",
    "server_steps": "ServerStepTable",
}
"""Results that do not have the name of their analysis."""


def imported(file):
    """Modules of this package that a file imports, also for type checkers only."""
    nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
    names = {each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            names |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return names & {*MODULES}


def test_no_modules_of_panels_import_each_other():
    """Not even two of them in a round, or for type checkers."""
    folder = Path(panels.__file__).parent
    graph = {}
    for file in folder.rglob("*.py"):
        *packages, name = file.relative_to(folder.parents[1]).with_suffix("").parts
        if name != "__init__":
            graph[".".join([*packages, name])] = imported(file)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))


def test_loading_needs_no_widgets_and_no_figures():
    code = (
        "import sys, hta_widgets.trace.ranks.loader, hta_widgets.analyses.rank_overlap;"
        "print(sorted({'plotly', 'ipywidgets', 'anywidget', 'traitlets'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_panels_draw_without_plotly():
    code = "import sys, hta_widgets.panels; print('plotly' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_opening_a_trace_needs_only_what_reads_it(tmp_path):
    trace = write(tmp_path / "rank-0.json.gz", [step(0, 0, 10), call(1, 2, 1), kernel(4, 5)])
    code = (
        "import sys; from hta_widgets import TraceAnalysis;"
        f"rank = TraceAnalysis({str(trace)!r}, progress=False).job.rank(0);"
        "_ = rank.gpu_work, rank.parents, rank.steps, rank.notices;"
        "not_needed = {'pandas', 'pyarrow', 'plotly', 'ipywidgets', 'loky', 'tqdm', 'fsspec'};"
        "print(sorted(not_needed & sys.modules.keys()))"
    )
    environment = {**os.environ, cache_files.VARIABLE: cache_files.OFF}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment
    )
    assert done.stdout.strip() == "[]"


def test_opening_a_kept_trace_needs_neither_pandas_nor_what_arrow_computes(tmp_path):
    trace = load_kineto(write(tmp_path / "rank-0.json", [call(1, 2, 1), kernel(4, 5)]), 0)
    kept = tmp_path / "kept.arrow"
    write_trace(LoadedTrace(trace, {}), "key", kept)
    code = (
        "import sys; from pathlib import Path;"
        "from hta_widgets.trace.cache.trace_file import read_trace;"
        f"print(len(read_trace(Path({str(kept)!r}), 'key').trace.events));"
        "print(sorted({'pandas', 'pyarrow.compute'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["2", "[]"]


@pytest.mark.parametrize(
    "first", ["import hta_widgets.analyses.idle_time.gaps", "import hta_widgets.analyses"]
)
def test_an_analysis_is_a_function_whatever_was_imported_before(first):
    code = (
        f"{first}; from hta_widgets.analyses import idle_time, overlap;"
        "from hta_widgets.analyses.idle_time import idle_time as the_same;"
        "import hta_widgets.analyses.overlap; print(idle_time is the_same, callable(overlap),"
        "hta_widgets.analyses.overlap is overlap)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["True"] * 3


def test_one_analysis_imports_no_other():
    code = (
        "import sys, hta_widgets.analyses.rank_overlap;"
        "print([name for name in sys.modules if name.startswith('hta_widgets.analyses.launch')])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_all_analyses_can_be_imported_from_one_place():
    files = Path(analyses.__file__).parent.iterdir()
    modules = {file.stem for file in files if not file.name.startswith("_")}
    parts = {"budget", "communication", "plain_text", "result", "time"}
    names = modules - parts  # of analyses
    assert names < set(analyses.__all__)
    for name in names:
        capitalised = "".join(part.capitalize() for part in name.split("_"))
        result_name = NAMED_OTHERWISE.get(name, capitalised)
        assert issubclass(getattr(analyses, result_name), analyses.Result)
        assert getattr(analyses, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = analyses.nothing


@pytest.mark.parametrize(
    "package", [hta_widgets, analyses, panels], ids=lambda package: package.__name__
)
def test_a_package_shows_what_is_public_and_nothing_else(package):
    assert dir(package) == sorted(package.__all__)
    assert all(getattr(package, name) for name in package.__all__)


def test_examples_write_a_sample_with_one_import():
    code = "import hta_widgets; print(hta_widgets.sample.write_sample.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "write_sample\n"


def test_what_is_not_there_is_said():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = hta_widgets.nothing


def imported_as(name: str) -> object:
    """What ``import a.b.c as d`` gives, which Python looks up attribute by attribute."""
    names: dict[str, object] = {}
    exec(f"import {name} as given", names)  # noqa: S102
    return names["given"]


def test_every_module_can_be_imported_under_another_name():
    """Also below an analysis, of which `hta_widgets.analyses` shows the function, not the module.

    Python makes no difference between ``import a.b as d`` and ``from a import b as d``, so that
    functions stay what they are under their documented names, and have all names of their modules.
    """
    for name in MODULES:
        given, module = imported_as(name), import_module(name)
        parent, _, last = name.rpartition(".")
        if last in getattr(import_module(parent), "__all__", ()):
            assert isinstance(given, FunctionType), name
            assert given.__name__ == last
            for known, value in vars(module).items():
                if not known.startswith("__"):
                    assert getattr(given, known) is value, (name, known)
        else:
            assert given is module, name


def test_names_of_functions_and_modules_stay_apart_elsewhere():
    """A new function that hides the module it comes from must be one of the documented ones."""
    functions = {name for name in MODULES if isinstance(imported_as(name), FunctionType)}
    documented = {f"{analyses.__name__}.{name}" for name in analyses.__all__ if name.islower()}
    assert functions == documented


def test_every_module_can_be_imported_first():
    """Each package and all of its modules from the last to the first, with none of ours loaded.

    What they need of others stays loaded: it takes most of the time.
    """
    packages = [name for name in MODULES if name.count(".") == 1]
    code = f"""
import sys
modules = {MODULES}
for package in {packages}:
    for name in [name for name in sys.modules if name.partition(".")[0] == "hta_widgets"]:
        del sys.modules[name]
    for name in reversed(modules):
        if name == package or name.startswith(f"{{package}}."):
            exec(f"import {{name}} as given")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
