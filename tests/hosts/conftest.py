"""Fixtures of the host tests: a browser, a Jupyter server, and the renderer libraries of npm."""

from __future__ import annotations

import subprocess
from pathlib import Path

import anywidget
import pytest

from hta_widgets.sample import write_sample
from tests.browser.conftest import chromium, lab_session

__all__ = ["chromium", "lab_session"]

HERE = Path(__file__).parent


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
    command = [*bundle, *options, "--define:global=globalThis", f"--outfile={script}"]
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
def job4(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Folder of a job of four ranks."""
    folder = tmp_path_factory.mktemp("job4")
    write_sample(folder, ranks=4, steps=3, progress=False)
    return str(folder)
