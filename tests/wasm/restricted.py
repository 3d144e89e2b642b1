"""All numbers of a job by a Python without processes, threads and isal, as one in a browser.

``python -m tests.wasm.restricted JOB``. It must be the first to import anything of the package.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading


def refuse(*_arguments, **_named):
    """Refuse as a Python for WebAssembly does."""
    msg = "can't start new thread"
    raise RuntimeError(msg)


def restrict() -> None:
    """Take away what a browser has not."""
    missing = ("_multiprocessing", "_posixsubprocess", "_posixshmem", "fcntl", "isal", "psutil")
    sys.modules.update(dict.fromkeys(missing))  # their imports fail
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "execv", "execve"):
        setattr(os, name, refuse)
    subprocess.Popen.__init__ = refuse
    for name in ("_start_new_thread", "_start_joinable_thread"):
        if hasattr(threading, name):
            setattr(threading, name, refuse)


if __name__ == "__main__":
    restrict()
    from hta_widgets.trace.ranks import loader
    from tests.wasm.all_numbers import all_numbers

    loader.PARALLEL_BYTES = 0  # otherwise this trace is too small for workers
    json.dump(all_numbers(sys.argv[1]), sys.stdout)
