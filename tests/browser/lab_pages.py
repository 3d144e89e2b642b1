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
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Browser, Locator, Page, WebSocket, expect

START_S = 60
END_S = 20
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

EXPOSING = {
    "lab": ["--LabApp.expose_app_in_browser=True"],
    "notebook": ["--JupyterNotebookApp.expose_app_in_browser=True"],
}

RUN_ALL = """async () => {
    const panel = jupyterapp.shell.currentWidget;
    await panel.context.ready;
    await panel.sessionContext.ready;
    await panel.sessionContext.session.kernel.info;
    await jupyterapp.commands.execute('notebook:run-all-cells');
}"""

OPEN_NEXT = """async (path) => {
    const before = jupyterapp.shell.currentWidget;
    const { id } = before.sessionContext.session.kernel;
    const command = 'docmanager:open';
    const next = await jupyterapp.commands.execute(command, { path, kernel: { id } });
    await Promise.all([next.revealed, next.context.ready]);
    jupyterapp.shell.activateById(next.id);
    before.dispose();
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""

FORGET = """
__import__('ipywidgets').Widget.close_all()
get_ipython().reset(new_session=True)
__import__('gc').collect()
"""

IN_MAIN_SHELL = """() => {
    jupyterapp.shell.currentWidget.sessionContext.session.kernel.commsOverSubshells = 'disabled';
}"""
"""JupyterLab 4.6 miscounts the comms of a subshell where a second notebook takes over a kernel, and
ends the subshell while they are in use: only pages of their own have subshells."""

SHUT_DOWN = "() => jupyterapp.shell.currentWidget?.sessionContext.shutdown().catch(() => {})"

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
        self.sent: list[bytes] = []
        self.dialogs: list[str] = []
        page.on("websocket", self._count)
        page.on("dialog", self._dialog)

    def leave(self) -> None:
        """Listen to the page no more."""
        self.page.remove_listener("websocket", self._count)
        self.page.remove_listener("dialog", self._dialog)

    def _count(self, socket: WebSocket) -> None:
        def add(frame: str | bytes) -> None:
            self.received_bytes += len(frame)

        def keep(frame: str | bytes) -> None:
            self.sent.append(frame.encode() if isinstance(frame, str) else frame)

        if "/channels" in socket.url:
            socket.on("framereceived", add)
            socket.on("framesent", keep)

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
    """A JupyterLab server and the browser that visits it.

    Loading JupyterLab and starting a kernel take longer than most tests, so tests share a page and
    a kernel, whose widgets, variables and notebook are new to each.
    """

    def __init__(self, browser: Browser, url: str, token: str, root: Path) -> None:
        self.browser = browser
        self.context = browser.new_context()  # its pages load JupyterLab's files once
        self.url = url
        self.token = token
        self.root = root
        self._shared: LabPage | None = None
        self._pages: list[Page] = []

    def open(
        self, cells: list[str], *, width: int = 1280, height: int = 900, alone: bool = False
    ) -> LabPage:
        """Write a notebook, open it and run all its cells.

        With ``alone`` it gets a page and a kernel of its own.
        """
        name = f"{secrets.token_hex(4)}.ipynb"
        nbformat.write(notebook(cells), self.root / name)
        shown = self._load(name) if alone or self._shared is None else self._follow(name)
        if alone:
            self._pages.append(shown.page)
        else:
            self._shared = shown
        shown.page.set_viewport_size({"width": width, "height": height})
        shown.wait_for_kernel()
        if not alone:
            shown.page.evaluate(IN_MAIN_SHELL)
        shown.run_all()
        return shown

    def _load(self, name: str) -> LabPage:
        page = self.context.new_page()
        shown = LabPage(page, self.root, name)
        page.goto(f"{self.url}/doc/tree/{name}?token={self.token}")
        return shown

    def _follow(self, name: str) -> LabPage:
        before = self._shared
        assert before is not None
        before.leave()
        before.execute(FORGET)
        before.page.mouse.move(0, 0)
        before.page.evaluate(OPEN_NEXT, name)
        return LabPage(before.page, self.root, name)

    def close_pages(self, *, shared: bool = False) -> None:
        """Close what the last test opened, and the shared page if the test may have broken it."""
        if shared and self._shared is not None:
            self._pages.append(self._shared.page)
            self._shared = None
        while self._pages:
            page = self._pages.pop()
            page.evaluate(SHUT_DOWN)
            page.close()


def notebook(cells: Iterable[str]) -> nbformat.NotebookNode:
    """A notebook with some cells of Python."""
    code = [nbformat.v4.new_code_cell(cell) for cell in cells]
    return nbformat.v4.new_notebook(cells=code, metadata=PYTHON)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def isolated(home: Path) -> dict[str, str]:
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
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
        else:
            return
    msg = f"The server did not start:\n{log.read_text()[-2000:]}"
    raise RuntimeError(msg)


@contextmanager
def served(
    module: list[str], address: str, log: Path, environment: dict[str, str]
) -> Iterator[None]:
    """Run a server, ``python -m`` and the rest of its command, until the block ends."""
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", *module],
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_until_up(address, server, log)
        yield
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(timeout=END_S)
        except subprocess.TimeoutExpired:  # some hang at times while they shut kernels down
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


@contextmanager
def jupyter(app: str, home: Path) -> Iterator[tuple[str, str, Path]]:
    """Start an application of Jupyter on a free port; gives its address, token and folder."""
    root = home / "notebooks"
    root.mkdir()
    port, token = free_port(), secrets.token_hex(16)
    command = ["jupyter", app, "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1"]
    command += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    command += [f"--IdentityProvider.token={token}", f"--ServerApp.root_dir={root}"]
    url = f"http://127.0.0.1:{port}"
    status = f"{url}/api/status?token={token}"
    with served([*command, *EXPOSING.get(app, [])], status, home / "server.log", isolated(home)):
        yield url, token, root
