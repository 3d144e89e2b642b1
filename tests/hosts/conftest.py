"""Fixtures of the host tests: a browser, a Jupyter server, its kernels, and renderers of npm."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import anywidget
import nbformat
import pytest
from nbclient import NotebookClient

from hta_widgets.sample import write_sample
from tests.browser.conftest import chromium, lab_session
from tests.browser.lab_pages import Lab, notebook
from tests.hosts.shown import cells

__all__ = ["chromium", "lab_session"]

HERE = Path(__file__).parent

IPYWIDGETS_8 = "python3"
IPYWIDGETS_7 = "ipywidgets7"
"""Names of the kernels with these versions."""

NAMED = "HTA_WIDGETS_IPYWIDGETS7"
"""Names the Python of an environment with the package and ipywidgets 7."""


@pytest.fixture(scope="session")
def kernels(lab_session: Lab) -> None:
    """Let the server start a kernel with ipywidgets 7 as well."""
    python = os.environ.get(NAMED)
    if python is None:
        pytest.fail(f"{NAMED} must name a Python with hta_widgets and ipywidgets 7.")
    folder = lab_session.root.parent / "data_dir" / "kernels" / IPYWIDGETS_7
    folder.mkdir(parents=True)
    argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "ipywidgets 7", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """The packages that package.json names."""
    folder = HERE / "node_modules"
    if not folder.is_dir():
        pytest.fail(f"The renderer libraries are missing: run `npm ci` in {HERE}.")
    return folder


@pytest.fixture(scope="session")
def anywidget_amd() -> Path:
    """The front end of anywidget as an AMD module."""
    return Path(anywidget.__file__).parent / "nbextension" / "index.js"


def bundled(name: str, node_modules: Path, folder: Path) -> Path:
    """Build a script with the libraries that it imports, but for the renderer of VS Code."""
    script = folder / f"{name}.js"
    bundle = [str(node_modules / ".bin" / "esbuild"), str(HERE / f"{name}.mjs"), "--bundle"]
    options = ["--format=esm", "--external:./ipywidgets.js", "--alias:ws=./websocket.mjs"]
    loaders = [
        f"--loader:.{ending}=empty" for ending in ("css", "svg", "woff", "woff2", "ttf", "eot")
    ]
    command = [*bundle, *options, *loaders, "--define:global=globalThis", f"--outfile={script}"]
    subprocess.run(command, check=True, cwd=HERE, capture_output=True)
    return script


@pytest.fixture(scope="session")
def vscode_script(node_modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script of the page of VS Code."""
    return bundled("vscode", node_modules, tmp_path_factory.mktemp("vscode"))


@pytest.fixture(scope="session")
def colab_script(node_modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script of the page of Colab."""
    return bundled("colab", node_modules, tmp_path_factory.mktemp("colab"))


@pytest.fixture(scope="session")
def colab_manager(node_modules: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script of Colab's output frames."""
    return bundled("colab_manager", node_modules, tmp_path_factory.mktemp("colab_manager"))


@pytest.fixture(scope="session")
def job4(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a job of four ranks."""
    folder = tmp_path_factory.mktemp("job4")
    write_sample(folder, ranks=4, steps=3, progress=False)
    return str(folder)


@pytest.fixture(scope="session")
def executed(job4: str) -> nbformat.NotebookNode:
    """A notebook that was executed without a browser, with the states of its widgets."""
    book = notebook(cells(job4))
    NotebookClient(book).execute()
    return book
