"""The command ``hta-widgets`` writes its files and serves a notebook that already ran."""

from __future__ import annotations

import ast
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

import fsspec
import nbformat
import pytest

from hta_widgets import __version__, cli
from hta_widgets.cli.notebook import (
    demo_notebook,
    notebook_stem,
    trace_notebook,
    write_notebook,
)
from hta_widgets.cli.traces import GivenTrace
from tests.kineto_text import kernel, write


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, bool, int | None]]:
    """Record what would be served instead of starting a server."""
    calls: list[tuple[Path, bool, int | None]] = []

    def serve(path: Path, port: int | None, *, in_browser: bool) -> None:
        calls.append((path, in_browser, port))

    monkeypatch.setattr(cli, "lab", SimpleNamespace(serve=serve))
    return calls


@pytest.fixture
def server(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "hta_widgets", "demo", str(tmp_path), "--ranks=2", "--steps=1"]
    process = subprocess.Popen(
        [*command, "--no-browser"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def test_demo_writes_traces_and_notebook(
    tmp_path: Path, served: list[tuple[Path, bool, int | None]]
) -> None:
    code = cli.main(["demo", str(tmp_path / "new"), "--ranks", "2", "--steps", "1"])
    assert code == 0
    assert served == [(tmp_path / "new" / "first_look.ipynb", True, None)]
    traces = sorted(path.name for path in (tmp_path / "new" / "trace").iterdir())
    assert traces == ["rank-0.json.gz", "rank-1.json.gz"]


def test_open_writes_a_notebook_for_the_traces(
    tmp_path: Path, served: list[tuple[Path, bool, int | None]]
) -> None:
    trace = write(tmp_path / "job 7.pt.trace.json", [kernel(0, 1)])
    notebooks = tmp_path / "notebooks"
    options = ["--folder", str(notebooks), "--no-browser", "--port", "9000"]
    assert cli.main(["open", str(trace), *options]) == 0
    path = notebooks / "hta_widgets_job_7.ipynb"
    assert served == [(path, False, 9000)]
    assert f'open_trace("{trace}")' in sources(path)[1]
    assert "dash = Dashboard(job)\n" in sources(path)[1]
    later = write(tmp_path / "job 8.json", [kernel(0, 1)])
    assert cli.main(["open", str(trace), *options, "--compare", str(later)]) == 0
    assert f'dash = Dashboard(job, compare="{later}")\n' in sources(served[-1][0])[1]


@pytest.mark.parametrize(
    "name", ["run \N{ROCKET}", 'a"b\\c', "é\N{GREEK SMALL LETTER MU}", "a\x7fb"]
)
def test_any_path_opens_again_from_its_notebook(
    tmp_path: Path, served: list[tuple[Path, bool, int | None]], name: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    write(folder / "rank-0.json", [kernel(0, 1)])
    assert cli.main(["open", str(folder), "--folder", str(tmp_path)]) == 0
    (code,) = (line for line in sources(served[0][0])[1].splitlines() if "open_trace(" in line)
    opened: dict[str, Any] = {}
    exec(f"from hta_widgets import open_trace\n{code}", opened)  # noqa: S102
    assert opened["job"].ranks == (0,)


def test_bytes_of_a_path_that_are_not_utf8_are_escaped(tmp_path: Path) -> None:
    source = "/traces/\udcff.json"
    notebook = trace_notebook([GivenTrace(source, "\udcff.json")])
    path = write_notebook(tmp_path, "notebook", notebook)
    code = "".join(notebook["cells"][1]["source"])
    assert ast.literal_eval(code.partition("open_trace(")[2].partition(")")[0]) == source
    assert path.read_text(encoding="utf-8").isascii()


@pytest.mark.parametrize(
    ("name", "heading"),
    [
        ('<img src="https://a.b/c">', r"\<img src\=\"https\:\/\/a.b\/c\"\>"),
        ("run_7", r"run\_7"),
        ("a\n# b", "a\N{REPLACEMENT CHARACTER}\\# b"),
        ("$x$ ![x](y) \\", r"\$x\$ \!\[x\]\(y\) \\"),
    ],
)
def test_the_heading_shows_the_name_as_text(name: str, heading: str) -> None:
    notebook = trace_notebook([GivenTrace("/traces", name)])
    assert "".join(notebook["cells"][0]["source"]).splitlines()[0] == f"# {heading}"


def test_open_of_several_files_lists_them(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path in paths:
        path.touch()
    notebook = trace_notebook([GivenTrace.from_argument(str(path)) for path in paths])
    assert f'open_trace(["{paths[0]}", "{paths[1]}"])' in "".join(notebook["cells"][1]["source"])


def test_missing_path_is_one_line_and_code_2(
    tmp_path: Path,
    served: list[tuple[Path, bool, int | None]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    missing = tmp_path / "nothing"
    assert cli.main(["open", str(missing)]) == 2
    assert capsys.readouterr().err == f"hta-widgets: {missing} does not exist\n"
    assert not served


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[str]:
    """URL of a job of one rank, in memory of this process."""
    system = fsspec.filesystem("memory")
    trace = write(tmp_path / "rank3.json", [kernel(0, 1)])
    system.pipe_file("/hta_widgets_cli/run.1/rank3.json", trace.read_bytes())
    yield "memory://hta_widgets_cli/run.1"
    system.rm("/hta_widgets_cli", recursive=True)


def test_open_of_a_url_writes_it_as_it_is(
    tmp_path: Path, bucket: str, served: list[tuple[Path, bool, int | None]]
) -> None:
    assert cli.main(["open", f"{bucket}/", "--folder", str(tmp_path)]) == 0
    [(path, _, _)] = served
    assert path == tmp_path / "hta_widgets_run.ipynb"
    introduction, dashboard = sources(path)[:2]
    assert "# run.1\n" in introduction
    namespace: dict[str, Any] = {}
    exec(dashboard, namespace)  # noqa: S102  # as the notebook's kernel does
    assert namespace["job"].ranks == (3,)
    assert namespace["job"].name == bucket


def test_open_of_a_file_url_writes_its_path(tmp_path: Path) -> None:
    (tmp_path / "a b.json").touch()
    trace = GivenTrace.from_argument((tmp_path / "a b.json").as_uri())
    assert trace == (str(tmp_path / "a b.json"), "a b.json")


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("memory://nowhere", "memory://nowhere does not exist"),
        ("nope://a", "nope://a has a protocol that fsspec does not know"),
        ("file:///nowhere/at/all", "does not exist"),
        ("https://me:hunter2@host/a.json", "https://***@host/a.json: the notebook would store"),
        ("https://host/a.json?sig=hunter2", "https://host/a.json?***: the notebook would store"),
    ],
)
def test_url_that_cannot_be_opened_is_one_line_and_code_2(
    url: str,
    words: str,
    tmp_path: Path,
    served: list[tuple[Path, bool, int | None]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["open", url, "--folder", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert "hunter2" not in said
    assert not served
    assert not list(tmp_path.iterdir())


def test_missing_jupyterlab_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda _: None)
    assert cli.main(["demo", str(tmp_path)]) == 2
    assert "pip install 'hta_widgets[lab]'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_argument_out_of_range_is_an_error_of_the_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["demo", str(tmp_path), "--ranks", "0"]) == 2
    assert "ranks must be 1 or more, got 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [[], ["fly"], ["open"], ["demo", "--ranks", "two"], ["diagnose", "--fail-on", "traces"]],
)
def test_usage_error_exits_with_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        cli.main(arguments)
    assert exit_info.value.code == 2


@pytest.mark.parametrize("arguments", [["demo", "--steps", "1"], ["open", "a.json", "--folder"]])
def test_a_folder_that_cannot_be_written_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
) -> None:
    write(tmp_path / "a.json", [kernel(0, 1)])
    monkeypatch.chdir(tmp_path)
    assert cli.main([*arguments, "a.json"]) == cli.USER_ERROR  # a file where a folder should be
    said = capsys.readouterr().err
    assert "cannot be written" in said
    assert "write to another folder" in said


def test_open_refuses_what_has_no_trace_before_it_serves_anything(
    tmp_path: Path, served: list[tuple[Path, bool, int | None]], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.md").touch()
    assert cli.main(["open", str(tmp_path), "--folder", str(tmp_path)]) == cli.USER_ERROR
    assert "has no trace" in capsys.readouterr().err
    assert not served
    assert not list(tmp_path.glob("*.ipynb"))


COMMANDS = {
    *("demo", "open", "diagnose", "table", "compare", "baseline", "report"),
    *("run", "anonymise", "mcp", "skill", "cache", "doctor"),
}


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_says_what_a_command_does_and_is_typed_as_it_stands(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An example that was copied from the help of ``compare`` had ``step:2%%``."""
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    text = capsys.readouterr().out
    usage, what, *_ = text.split("\n\n")
    assert usage.startswith(f"usage: hta-widgets {command}")
    assert what.rstrip().endswith("."), "no description"
    assert "%%" not in text


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    listed = re.findall(r"^    (\w+)", capsys.readouterr().out, re.MULTILINE)
    assert set(listed) == COMMANDS


def test_an_unknown_option_is_said_with_those_of_its_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["diagnose", "traces", "--fail-on"])
    said = capsys.readouterr().err
    assert "--fail-on-findings" in said
    assert said.endswith("hta-widgets diagnose: error: unknown: --fail-on\n")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        cli.main(["--version"])
    assert exit_info.value.code == 0
    assert capsys.readouterr().out == f"hta-widgets {__version__}\n"


@pytest.mark.parametrize(
    "notebook",
    [demo_notebook("trace", 4), trace_notebook([GivenTrace('/a/odd "name".json', 'odd "name"')])],
)
def test_notebooks_are_valid(notebook: dict[str, Any]) -> None:
    nbformat.validate(nbformat.from_dict(notebook))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            compile("".join(cell["source"]), cell["id"], "exec")
    assert [cell["cell_type"] for cell in notebook["cells"]] == ["markdown", "code"]


def test_same_cells_reuse_the_file_and_keep_its_outputs(tmp_path: Path) -> None:
    path = write_notebook(tmp_path, "look", demo_notebook("trace", 4))
    ran = json.loads(path.read_text(encoding="utf-8"))
    ran["cells"][1]["execution_count"] = 1
    path.write_text(json.dumps(ran), encoding="utf-8")
    assert write_notebook(tmp_path, "look", demo_notebook("trace", 4)) == path
    assert json.loads(path.read_text(encoding="utf-8")) == ran


def test_other_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "look.ipynb").write_text("not a notebook", encoding="utf-8")
    second = write_notebook(tmp_path, "look", demo_notebook("trace", 4))
    third = write_notebook(tmp_path, "look", demo_notebook("trace", 8))
    assert [second.name, third.name] == ["look_2.ipynb", "look_3.ipynb"]
    assert (tmp_path / "look.ipynb").read_text(encoding="utf-8") == "not a notebook"


def test_notebook_is_named_after_the_first_trace() -> None:
    traces = [GivenTrace(f"/runs/{name}", name) for name in ("rank-0.json.gz", "x")]
    assert notebook_stem(traces) == "hta_widgets_rank-0"


def test_demo_serves_a_notebook_that_ran_and_stops_on_interrupt(
    server: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    assert "/tree/first_look.ipynb?" in url
    with urlopen(url, timeout=10) as page:  # noqa: S310
        assert page.status == 200
    sessions = "/api/sessions?".join((url.partition("/lab/")[0], url.partition("?")[2]))
    with urlopen(sessions, timeout=10) as page:  # noqa: S310
        (session,) = json.loads(page.read())
    assert session["path"] == "first_look.ipynb"
    notebook = json.loads((tmp_path / "first_look.ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert any("application/vnd.jupyter.widget-view+json" in o.get("data", {}) for o in outputs)

    server.send_signal(signal.SIGINT)
    assert server.wait(timeout=20) == 0
    more, said = server.communicate()
    assert more == ""
    assert "Traceback" not in said
    assert "arning" not in said
    assert "TCP" not in said


def sources(path: Path) -> list[str]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"]]
