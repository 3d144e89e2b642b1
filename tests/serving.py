"""Servers of folders, each in a separate process that prints a line for each request."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).parents[1]


class OfFolder:
    """What handlers have that answer for a folder."""

    folder: Path

    def log_message(self, *_):
        """Log nothing else."""


def say(what):
    """Write a line at once, whatever others write."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def serve(handler: type[BaseHTTPRequestHandler]) -> None:
    """Serve the folder that the process was given; the first line says the port."""
    handler.folder = Path(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    say(server.server_port)
    server.serve_forever()


@contextmanager
def served(module: str, folder: Path, log: Path) -> Iterator[str]:
    """Run a server until the block ends, and give its address; what it says is added to the log."""
    with log.open("a") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module, str(folder)],
            stdout=output,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
        )
    try:
        while not (said := log.read_text()).endswith("\n"):
            assert process.poll() is None
        yield f"127.0.0.1:{said.strip()}"
    finally:
        process.kill()
        process.wait()
