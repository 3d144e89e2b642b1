"""Run each measurement in a separate process; runs to be compared alternate."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.stopwatch import MARK

CHECKOUT = Path(__file__).parents[1]
_SAMPLE_EVERY_S = 0.05
NO_BYTE_CODE = "PYTHONDONTWRITEBYTECODE"
_KB_PER_MB = 1024
_MAXRSS_PER_MB = 2**20 if sys.platform == "darwin" else 2**10


@dataclass(frozen=True)
class Outcome:
    """What one child did.

    Attributes
    ----------
    answer : dict
        What it said.
    cpu_s, wall_s : float
        Of the whole process, interpreter and imports included.
    peak_mb : float
        Largest resident memory of the process, or of one of its children.
    tree_mb : float
        Largest memory of the whole process tree (sum of PSS); 0 where it was not sampled.
    """

    answer: dict[str, Any]
    cpu_s: float
    wall_s: float
    peak_mb: float
    tree_mb: float


Run = Callable[[], Outcome | None]


@dataclass(frozen=True)
class Child:
    """A script of this folder, and the Python that runs it."""

    python: Path
    script: str

    def run(
        self,
        task: str,
        *,
        timeout_s: float = 1800,
        cache: str = "off",
        sample_tree: bool = False,
        **arguments: object,
    ) -> Outcome | None:
        """Do a task in a new process; None, with a message, if it fails or takes too long."""
        command: list[str | Path] = [
            self.python,
            "-m",
            f"benchmarks.{self.script}",
            task,
            json.dumps(arguments),
        ]
        environment = os.environ | {"HTA_WIDGETS_CACHE": cache, "PYTHONWARNINGS": "ignore"}
        environment.pop(NO_BYTE_CODE, None)  # what pip installed, as HTA is, has its byte code
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complaints:
            began = time.perf_counter()
            process = subprocess.Popen(
                command,
                cwd=CHECKOUT,
                env=environment,
                stdout=said,
                stderr=complaints,
                start_new_session=True,
            )
            alarm = threading.Timer(timeout_s, _end, [process.pid])
            alarm.start()
            memory = _TreeMemory(process.pid) if sample_tree else None
            _, status, usage = os.wait4(process.pid, 0)
            wall_s = time.perf_counter() - began
            alarm.cancel()
            tree_mb = memory.peak_mb() if memory else 0.0
            process.returncode = os.waitstatus_to_exitcode(status)
            answer = _answer_in(said)
            if process.returncode or answer is None:
                _complain(f"{self.script} {task}", process.returncode, complaints)
                return None
        cpu_s = usage.ru_utime + usage.ru_stime
        return Outcome(answer, cpu_s, wall_s, usage.ru_maxrss / _MAXRSS_PER_MB, tree_mb)


def by_turns(runs: Mapping[str, Run], repeats: int) -> dict[str, list[Outcome]]:
    """Run all once, then all once more, and so on; the clock of a shared machine drifts.

    What has failed once is not tried again.
    """
    found: dict[str, list[Outcome]] = {name: [] for name in runs}
    failed: set[str] = set()
    for _ in range(repeats):
        for name, run in runs.items():
            outcome = None if name in failed else run()
            if outcome is None:
                failed.add(name)
            else:
                found[name].append(outcome)
    return found


def middle(outcomes: list[Outcome], figure: Callable[[Outcome], float]) -> float | None:
    """Median of a figure; None without outcomes."""
    return median(map(figure, outcomes)) if outcomes else None


def _end(process: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)


def _answer_in(said: Any) -> dict[str, Any] | None:  # noqa: ANN401
    said.seek(0)
    lines = said.read().decode("utf-8", "replace").splitlines()
    answers = [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]
    return dict(json.loads(answers[-1])) if answers else None


def _complain(what: str, returncode: int, complaints: Any) -> None:  # noqa: ANN401
    complaints.seek(0)
    last = complaints.read().decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
    print(f"  {what} failed ({returncode}): {last[0][:200]}", file=sys.stderr, flush=True)


class _TreeMemory:
    """The memory of a process and all below it, sampled; shared pages count once (PSS)."""

    def __init__(self, process: int) -> None:
        self._process = process
        self._peak_kb = 0
        self._done = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    def peak_mb(self) -> float:
        """Stop, and return the largest sum that was seen."""
        self._done.set()
        self._sampler.join()
        return self._peak_kb / _KB_PER_MB

    def _sample(self) -> None:
        while not self._done.wait(_SAMPLE_EVERY_S):
            self._peak_kb = max(self._peak_kb, sum(map(_pss_kb, _tree(self._process))))


def _tree(process: int) -> list[int]:
    found = [process]
    for each in found:
        for children in Path(f"/proc/{each}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, children.read_text().split())
    return found


def _pss_kb(process: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0
