"""Start JupyterLab on a notebook that has already run, with its kernel still alive.

When JupyterLab opens a notebook, it joins the session of that path if there is one. So the server
first starts a session, runs the cells in its kernel and saves their outputs. The page that opens
afterwards finds the outputs in the file and the widgets in the kernel.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
import webbrowser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any, Final, TextIO
from urllib.parse import quote

import nbformat
from jupyter_core.utils import ensure_async
from jupyter_server.serverapp import ServerApp
from jupyterlab.labapp import LabApp
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from hta_widgets.errors import HtaWidgetsError

_TELL_AFTER_S: Final = 5
"""Silence (s) after which the command says that it is still working."""

_ANNOUNCEMENTS: Final = "@jupyterlab/apputils-extension:announcements"

KERNEL_NAME = "python3"
WORKSPACE = "hta-widgets"
"""A workspace of its own: the tabs of the user's last JupyterLab belong to other folders."""


def serve(notebook: Path, port: int | None, *, in_browser: bool) -> None:
    """Run a notebook, show it in JupyterLab, and return when the user stops the server.

    Its folder is the root of the file browser. If the port is in use, JupyterLab takes the next
    free one.
    """
    address = _stdout_of_our_own()
    token = secrets.token_hex(24)
    server = LabApp.initialize_server(argv=_arguments(notebook.parent, port, token))
    server.web_app.settings["page_config_hook"] = _without_announcements
    # In a terminal, Jupyter asks for confirmation on Ctrl-C, but nothing can be lost here.
    signal.signal(signal.SIGINT, lambda *_: server.stop(from_signal=True))
    startup = _Startup(server, notebook, token, address, in_browser=in_browser)
    server.io_loop.add_callback(startup.run)
    server.start()
    if startup.error is not None:
        msg = f"{notebook.name} could not be run: {startup.error}"
        raise HtaWidgetsError(msg) from startup.error


class _Startup:
    """Runs the notebook and opens its page once the server listens."""

    def __init__(
        self,
        server: ServerApp,
        notebook: Path,
        token: str,
        address: TextIO,
        *,
        in_browser: bool,
    ) -> None:
        self.error: Exception | None = None
        self._address = address
        self._server = server
        self._notebook = notebook
        self._in_browser = in_browser
        page = f"lab/workspaces/{WORKSPACE}/tree/{quote(notebook.name)}"
        self._url = f"{server.connection_url}{page}?reset&token={token}"

    async def run(self) -> None:
        """Run the notebook and open its page."""
        try:
            await self._execute()
        except Exception as error:  # noqa: BLE001
            self.error = error
            self._server.stop()
            return
        _print(self._url, self._address)
        _print("Press Ctrl-C to stop.")
        if self._in_browser:
            webbrowser.open(self._url)

    async def _execute(self) -> None:
        server, name = self._server, self._notebook.name
        async with _told("Starting Python"):
            session = await server.session_manager.create_session(
                path=name, name=name, type="notebook", kernel_name=KERNEL_NAME
            )
        kernel = server.kernel_manager.get_kernel(session["kernel"]["id"])
        notebook = nbformat.read(self._notebook, as_version=4)  # type: ignore[no-untyped-call]
        async with _told(f"Reading the traces and running {self._notebook}"):
            await _run_cells(NotebookClient(notebook, km=kernel, timeout=None))
        contents = server.contents_manager
        contents.notary.mark_cells(notebook, trusted=True)  # type: ignore[no-untyped-call]
        model = {"type": "notebook", "format": "json", "content": notebook}
        await ensure_async(contents.save(model, name))  # type: ignore[no-untyped-call]


async def _run_cells(client: NotebookClient) -> None:
    """Run the code cells in a kernel of the server, up to the first that fails.

    `NotebookClient.execute` would do the same, but takes over Ctrl-C from the server.
    """
    await client.async_start_new_kernel_client()
    try:
        for index, cell in enumerate(client.nb.cells):
            await client.async_execute_cell(cell, index)
    except CellExecutionError as error:
        _print(f"{error.ename}: {error.evalue}")
    finally:
        if client.kc is not None:
            client.kc.stop_channels()


def _without_announcements(_: object, page: dict[str, Any]) -> dict[str, Any]:
    """Leave out JupyterLab's question about news, which would cover the timeline."""
    disabled = page.get("disabledExtensions", [])
    return {**page, "disabledExtensions": [*disabled, _ANNOUNCEMENTS]}


def _arguments(folder: Path, port: int | None, token: str) -> list[str]:
    arguments = [
        "--no-browser",
        f"--ServerApp.root_dir={folder.resolve()}",
        # Safe for root: the server listens only on this machine, and requires the token.
        "--ServerApp.allow_root=True",
        f"--IdentityProvider.token={token}",
        # ipykernel 7 warns of plain TCP, even on one machine.
        "--KernelManager.transport_encryption=auto",
        "--Application.log_level=ERROR",
    ]
    return arguments if port is None else [*arguments, f"--ServerApp.port={port}"]


@asynccontextmanager
async def _told(doing: str) -> AsyncIterator[None]:
    """Say what is being done, and every few seconds how long it has taken."""
    started = monotonic()

    async def go_on_telling() -> None:
        while True:
            await asyncio.sleep(_TELL_AFTER_S)
            _print(f"{doing} ... {monotonic() - started:.0f} s")

    _print(f"{doing} ...")
    telling = asyncio.ensure_future(go_on_telling())
    try:
        yield
    finally:
        telling.cancel()


def _stdout_of_our_own() -> TextIO:
    """Keep standard output for the address alone, so that a program can read it.

    From now on, what Jupyter, its extensions and the kernels (which inherit it) write there goes
    to standard error: on a busy machine, such a line was seen before the address.
    """
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return own


def _print(text: str, file: TextIO | None = None) -> None:
    print(text, file=file or sys.stderr, flush=True)
