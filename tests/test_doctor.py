"""The doctor says where it runs, what it found and what to do, and nothing that is private."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import anywidget
import ipywidgets
import pytest
from jupyter_core import paths as jupyter_paths

import hta_widgets
from hta_widgets import cli
from hta_widgets.cli.doctor import host, packages, report
from hta_widgets.cli.doctor.host import Place, find_place
from hta_widgets.panels.base import front_end
from hta_widgets.trace.cache import files as cache_files

MANAGER = "@jupyter-widgets/jupyterlab-manager"
FITTING = "5.0.17" if ipywidgets.__version__.startswith("8.") else "3.1.11"
LAB = ["/envs/lab/bin/python", "/envs/lab/bin/jupyter-lab", "--IdentityProvider.token=s3cret"]
KERNEL = SimpleNamespace(kernel=object(), user_ns={})
TERMINAL = Place(host.NONE)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A user whose home is empty, on a machine without Jupyter's files of all users."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.setattr(jupyter_paths, "SYSTEM_JUPYTER_PATH", [])
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(home / "jupyter"))
    monkeypatch.setenv(cache_files.VARIABLE, str(home / "cache"))
    return home


@pytest.fixture
def server(tmp_path: Path):
    """An environment that serves the whole front end."""
    serve(tmp_path / "server", "anywidget", anywidget.__version__)
    serve(tmp_path / "server", MANAGER, FITTING)
    return tmp_path / "server"


def serve(environment: Path, name: str, version: str):
    folder = environment / "share" / "jupyter" / "labextensions" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"version": version}))


def problems(place: Place = TERMINAL):
    return report(place).partition("\n\n")[0] + "\n"


def nothing(*_: object) -> bool:
    return False


class TestReport:
    def test_a_healthy_environment(self, server):
        text = report(Place(host.JUPYTERLAB, server))
        assert f"hta_widgets  {hta_widgets.__version__}\n" in text
        assert f"anywidget   {anywidget.__version__}\n" in text
        assert f"JupyterLab, which runs in {server}\n" in text
        assert f"anywidget {anywidget.__version__}, {MANAGER} {FITTING} in {server}" in text
        assert text.startswith("No problem was found.\n\nhta_widgets")

    def test_the_command_and_the_function_print_it(self, capsys):
        assert cli.main(["doctor"]) == 0
        printed = capsys.readouterr().out
        hta_widgets.doctor()
        assert [line.split()[0] for line in printed.splitlines() if line] == [
            line.split()[0] for line in capsys.readouterr().out.splitlines() if line
        ]
        assert "\n\nhta_widgets  " in printed

    def test_home_is_a_tilde(self, alone):
        text = report(TERMINAL)
        assert "~/cache, writable, " in text
        assert str(alone) not in text

    def test_a_path_that_only_looks_like_home_stays(self, alone):
        beside, below = Path(f"{alone}-2"), Path(f"/mnt{alone}")
        assert f"runs in {beside}\n" in report(Place(host.VOILA, beside))
        assert f"runs in {below}\n" in report(Place(host.VOILA, below))
        assert "runs in ~/lab\n" in report(Place(host.VOILA, alone / "lab"))

    def test_no_argument_of_the_server_is_shown(self):
        text = report(find_place({}, {}, KERNEL, [LAB]))
        assert "/envs/lab" in text
        assert "s3cret" not in text

    def test_names_of_folders_cannot_move_the_cursor(self, monkeypatch, alone):
        monkeypatch.setenv(cache_files.VARIABLE, f"{alone}/\x1b[2Jcache")
        assert "~/?[2Jcache" in report(TERMINAL)


@pytest.mark.parametrize(
    ("expected", "modules", "environ", "shell", "commands"),
    [
        (Place(host.COLAB), {"google.colab": None}, {}, KERNEL, [LAB]),
        (
            Place(host.MARIMO),
            {"marimo": SimpleNamespace(running_in_notebook=lambda: True)},
            {},
            None,
            [],
        ),
        (
            TERMINAL,
            {"marimo": SimpleNamespace(running_in_notebook=lambda: False)},
            {},
            None,
            [],
        ),
        (Place(host.DATABRICKS), {}, {"DATABRICKS_RUNTIME_VERSION": "18.0"}, KERNEL, []),
        (
            Place(host.VS_CODE),
            {},
            {},
            SimpleNamespace(kernel=object(), user_ns={"__vsc_ipynb_file__": "a.ipynb"}),
            [LAB],
        ),
        (Place(host.VS_CODE), {}, {"VSCODE_PID": "7"}, KERNEL, [["/usr/bin/code"]]),
        (TERMINAL, {}, {"VSCODE_PID": "7"}, None, [["/usr/bin/bash"]]),
        (Place(host.JUPYTERLAB, Path("/envs/lab")), {}, {"VSCODE_PID": "7"}, KERNEL, [LAB]),
        (Place(host.JUPYTERLAB, Path("/envs/lab")), {}, {}, None, [["bash"], ["python"], LAB]),
        (Place(host.JUPYTERLAB), {}, {}, KERNEL, [["python", "-m", "jupyterlab"]]),
        (
            Place(host.NOTEBOOK, Path("/e")),
            {},
            {},
            KERNEL,
            [["/e/bin/python", "/e/bin/jupyter-notebook"]],
        ),
        (Place(host.NOTEBOOK, Path("/e")), {}, {}, KERNEL, [["/e/bin/python", "-m", "notebook"]]),
        (Place(host.NBCLASSIC, Path("/e")), {}, {}, KERNEL, [["/e/bin/jupyter-nbclassic"]]),
        (Place(host.VOILA, Path("/e")), {}, {}, KERNEL, [["/e/bin/python", "/e/bin/voila"]]),
        (Place(host.OTHER_KERNEL), {}, {}, KERNEL, [["/usr/bin/spyder"], []]),
        (TERMINAL, {}, {}, None, []),
    ],
)
def test_where_it_runs(expected, modules, environ, shell, commands):
    assert find_place(modules, environ, shell, commands) == expected


class TestFrontEnd:
    def test_a_server_in_an_environment_without_anywidget(self, tmp_path):
        lab = tmp_path / "server"
        said = problems(Place(host.JUPYTERLAB, lab))
        assert f"Problem: JupyterLab finds no anywidget in {lab}\n" in said
        assert "Fix: pip install anywidget there, restart JupyterLab and reload" in said
        assert "finds no jupyterlab_widgets" in said

    def test_another_version_on_the_page(self, server):
        serve(server, "anywidget", "0.9.21")
        ours = anywidget.__version__
        assert problems(Place(host.JUPYTERLAB, server)) == (
            f"Problem: JupyterLab has anywidget 0.9.21, but this Python has {ours}\n"
            f"    Fix: pip install anywidget=={ours} in {server}, and reload the page\n"
        )

    @pytest.mark.parametrize(
        ("kernel", "served", "cure"),
        [
            ("7.7.1", "5.0.17", "pip install 'ipywidgets>=8', then restart the kernel"),
            ("8.1.8", "3.1.11", "pip install 'jupyterlab_widgets>=3' in "),
        ],
    )
    def test_boxes_and_sliders_that_are_not_drawn(self, server, monkeypatch, kernel, served, cure):
        serve(server, MANAGER, served)
        installed = {"ipywidgets": kernel, "anywidget": anywidget.__version__}
        monkeypatch.setattr("hta_widgets.cli.doctor.front_end.installed_version", installed.get)
        said = problems(Place(host.JUPYTERLAB, server))
        assert f"Problem: {MANAGER} {served} cannot draw ipywidgets {kernel}\n" in said
        assert cure in said
        assert "cannot draw" not in problems(Place(host.VOILA, server))

    def test_extensions_of_the_user_count(self, alone, tmp_path):
        folder = alone / "jupyter" / "nbextensions" / "anywidget"
        folder.mkdir(parents=True)
        place = Place(host.NBCLASSIC, tmp_path / "server")
        assert problems(place) == "No problem was found.\n"
        assert "anywidget in ~/jupyter\n" in report(place)

    def test_a_broken_package_json_has_no_version(self, server):
        file = server / "share" / "jupyter" / "labextensions" / "anywidget" / "package.json"
        file.write_text("[1]")
        assert problems(Place(host.VOILA, server)) == "No problem was found.\n"

    @pytest.mark.parametrize("place", [Place(host.COLAB), Place(host.MARIMO)])
    def test_what_a_host_brings_itself_is_not_missed(self, place):
        assert f"comes with {place.host.name}\n" in report(place)
        assert problems(place) == "No problem was found.\n"

    def test_a_checkout_whose_front_end_is_older_than_its_sources(self, monkeypatch):
        monkeypatch.setattr(front_end, "is_up_to_date", lambda: False)
        assert f"run `{front_end.BUILD_COMMAND}` in " in problems()


class TestPackages:
    def test_one_that_is_too_old(self, monkeypatch):
        monkeypatch.setattr(packages, "installed_version", lambda _: "0.9.21")
        assert "Problem: anywidget is 0.9.21; at least 0.11 is needed\n" in problems()
        assert "Fix: pip install 'anywidget>=0.11', then restart the kernel\n" in problems()

    def test_one_that_is_missing(self, monkeypatch):
        monkeypatch.setattr(packages, "installed_version", lambda _: None)
        assert "Problem: tqdm is missing; at least " in problems()
        assert "jupyterlab  not installed\n" in report(TERMINAL)

    def test_one_that_was_replaced_while_in_use(self, monkeypatch):
        there = anywidget.__version__
        monkeypatch.setattr(anywidget, "__version__", "0.9.21")
        assert problems() == (
            f"Problem: anywidget 0.9.21 is in use, but {there} is now installed\n"
            "    Fix: restart the kernel\n"
        )

    def test_panels_that_cannot_be_imported(self, monkeypatch):
        def fail(name):
            raise ImportError(name)

        monkeypatch.setattr(packages, "import_module", fail)
        assert "panels cannot be imported (ImportError: hta_widgets.panels)" in problems()


class TestCache:
    def test_a_folder_that_cannot_be_made(self, monkeypatch, alone):
        (alone / "file").touch()
        monkeypatch.setenv(cache_files.VARIABLE, str(alone / "file" / "cache"))
        assert "~/file/cache, not writable, " in report(TERMINAL)
        assert problems() == (
            "Problem: traces are not cached, because ~/file/cache cannot be written to\n"
            "    Fix: set HTA_WIDGETS_CACHE to a folder of your own, or to off\n"
        )

    def test_a_folder_on_a_drive_that_is_gone(self, monkeypatch):
        # As on Windows, where not even the outermost folder is there.
        gone = SimpleNamespace(exists=nothing)
        stub = SimpleNamespace(path=gone, access=nothing, W_OK=2, X_OK=1)
        monkeypatch.setattr("hta_widgets.cli.doctor.os", stub)
        assert "traces are not cached, because ~/cache cannot be written to" in problems()

    def test_off_is_no_problem(self, monkeypatch):
        monkeypatch.setenv(cache_files.VARIABLE, "off")
        assert "off (HTA_WIDGETS_CACHE=off)" in report(TERMINAL)
        assert problems() == "No problem was found.\n"
