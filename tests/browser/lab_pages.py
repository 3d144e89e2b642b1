"""A real JupyterLab, and notebooks opened in it."""

from __future__ import annotations

import ast
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Browser, Locator, Page, WebSocket, expect

START_S = 60
CELLS_MS = 60_000
ANSWER_S = 20
expect.set_options(timeout=ANSWER_S * 1000)
PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}

SETTINGS = {
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    "@jupyter-widgets/jupyterlab-manager/plugin.jupyterlab-settings": {"saveState": True},
}

EXPOSING = {"lab": "LabApp", "notebook": "JupyterNotebookApp"}

RUN_ALL = """async () => {
    const panel = jupyterapp.shell.currentWidget;
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info;
    await jupyterapp.commands.execute('notebook:run-all-cells');
}"""

KERNEL_IS_IDLE = """() =>
    globalThis.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'
"""

ASK_KERNEL = """async (code) => {
    const { kernel } = jupyterapp.shell.currentWidget.sessionContext.session;
    const request = { code: '', silent: true, user_expressions: { value: code } };
    const reply = await kernel.requestExecute(request).done;
    return reply.content.user_expressions.value;
}"""


class LabPage:
    """A notebook on screen."""

    def __init__(self, page: Page, folder: Path, name: str) -> None:
        self.page = page
        self.path = folder / name
        self.received_bytes = 0
        self.dialogs: list[str] = []
        page.on("websocket", self._count)
        page.on("dialog", self._dialog)

    def _count(self, socket: WebSocket) -> None:
        def add(frame: str | bytes) -> None:
            self.received_bytes += len(frame)

        if "/channels" in socket.url:
            socket.on("framereceived", add)

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def wait_for_kernel(self) -> None:
        """Wait until JupyterLab is there and its kernel idle."""
        self.page.wait_for_function(KERNEL_IS_IDLE, timeout=CELLS_MS)

    def reload(self) -> None:
        """Save the notebook and load the page again."""
        self.save()
        self.page.reload()
        self.wait_for_kernel()

    def run_all(self) -> None:
        """Run every cell and fail on the first error."""
        self.page.evaluate(RUN_ALL)
        errors = self.page.locator(".jp-RenderedText[data-mime-type*=stderr], .jp-OutputArea-error")
        failed = [
            text for text in errors.all_inner_texts() if "Traceback" in text or "Error" in text
        ]
        assert not failed, failed[0]

    def panel(self, number: int = 0) -> Locator:
        """The panel with this number, from the top of the notebook."""
        return self.page.locator(".hta-panel").nth(number)

    def python(self, expression: str) -> Any:
        """Value of an expression in the notebook's kernel, as JSON has it."""
        code = f"__import__('json').dumps({expression})"
        answer = self.page.evaluate(ASK_KERNEL, code)
        assert answer["status"] == "ok", answer
        return json.loads(ast.literal_eval(answer["data"]["text/plain"]))

    def wait_for(self, expression: str, expected: Any, seconds: float = ANSWER_S) -> None:
        """Wait until an expression in the kernel has a value."""
        deadline = time.monotonic() + seconds
        while (value := self.python(expression)) != expected:
            assert time.monotonic() < deadline, f"{expression} is {value!r}, not {expected!r}"
            self.page.wait_for_timeout(50)

    def wait_until(self, holds: Callable[[], bool], seconds: float = ANSWER_S) -> None:
        """Wait until something that the page shows is so."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"not so after {seconds} s"
            self.page.wait_for_timeout(50)

    def execute(self, statement: str) -> None:
        """Run a statement in the kernel."""
        self.python(f"exec({statement!r})")

    def charts(self, number: int = 0) -> list[Any]:
        """What plotly drew in a panel: the traces of each chart."""
        return (
            self.panel(number)
            .locator(".js-plotly-plot")
            .evaluate_all("nodes => nodes.map(node => JSON.parse(JSON.stringify(node.data)))")
        )

    def command(self, name: str, arguments: dict[str, Any] | None = None) -> None:
        """Run a JupyterLab command."""
        self.page.evaluate(
            "([name, args]) => jupyterapp.commands.execute(name, args)", [name, arguments or {}]
        )

    @contextmanager
    def theme(self, name: str) -> Iterator[None]:
        """Show the page in a theme, and in the light one again afterwards."""
        try:
            self.command("apputils:change-theme", {"theme": f"JupyterLab {name}"})
            light = json.dumps(str(name == "Light").lower())
            self.page.wait_for_function(f"() => document.body.dataset.jpThemeLight === {light}")
            self.page.wait_for_timeout(500)
            yield
        finally:
            self.command("apputils:change-theme", {"theme": "JupyterLab Light"})

    def save(self) -> int:
        """Save the notebook and return its size in bytes."""
        self.page.evaluate("() => jupyterapp.shell.currentWidget.context.save()")
        return self.path.stat().st_size

    def screenshot(self, name: str) -> None:
        """Keep a picture of all panels where HTA_WIDGETS_SCREENSHOTS says, if it does."""
        folder = os.environ.get("HTA_WIDGETS_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.page.wait_for_timeout(400)
            self.page.screenshot(path=str(Path(folder) / f"{name}.png"))


class Lab:
    """A JupyterLab server and the browser that visits it."""

    def __init__(self, browser: Browser, url: str, token: str, root: Path) -> None:
        self.browser = browser
        self.url = url
        self.token = token
        self.root = root
        self._pages: list[Page] = []

    def open(self, cells: list[str], *, width: int = 1280, height: int = 900) -> LabPage:
        """Write a notebook, open it alone on a page and run all its cells."""
        name = f"{secrets.token_hex(4)}.ipynb"
        code = [nbformat.v4.new_code_cell(cell) for cell in cells]
        nbformat.write(nbformat.v4.new_notebook(cells=code, metadata=PYTHON), self.root / name)
        page = self.browser.new_page(viewport={"width": width, "height": height})
        self._pages.append(page)
        shown = LabPage(page, self.root, name)
        page.goto(f"{self.url}/doc/tree/{name}?token={self.token}")
        shown.wait_for_kernel()
        shown.run_all()
        return shown

    def close_pages(self) -> None:
        """Close what the last test opened."""
        while self._pages:
            self._pages.pop().close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _isolated(home: Path) -> dict[str, str]:
    """Environment in which nothing of the user's Jupyter is read or written."""
    names = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
    folders = {f"JUPYTER_{name}": str(home / name.lower()) for name in names}
    folders["JUPYTERLAB_SETTINGS_DIR"] = str(home / "settings")
    folders["JUPYTERLAB_WORKSPACES_DIR"] = str(home / "workspaces")
    folders["IPYTHONDIR"] = str(home / "ipython")
    for name, content in SETTINGS.items():
        path = home / "settings" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return {**os.environ, **folders}


def wait_until_up(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until a server answers, and fail with its log if it does not."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and server.poll() is None:
        try:
            urllib.request.urlopen(address, timeout=1).close()  # noqa: S310
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            return
    msg = f"The server did not start:\n{log.read_text()[-2000:]}"
    raise RuntimeError(msg)


@contextmanager
def jupyter(app: str, home: Path) -> Iterator[tuple[str, str, Path]]:
    """Start JupyterLab or Notebook on a free port; gives its address, its token and its folder."""
    root = home / "notebooks"
    root.mkdir()
    port, token, log = free_port(), secrets.token_hex(16), home / "server.log"
    command = [sys.executable, "-m", "jupyter", app, "--no-browser", "--allow-root"]
    command += [
        "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
    ]
    command += [f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={root}"]
    command += [f"--{EXPOSING[app]}.expose_app_in_browser=True"]
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, env=_isolated(home), stdout=output, stderr=output, start_new_session=True
        )
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_up(f"{url}/api/status?token={token}", server, log)
        yield url, token, root
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=20)
