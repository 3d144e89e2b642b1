"""The traces to measure on: real ones, longer ones made from them, or the sample job."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.children import CHECKOUT

SHARED = CHECKOUT.parent / "shared"

V100 = "kineto/ddp_rank1of2/rank-1.json.gz"
H100 = "kineto/h100_qwen/*.json.gz"
SMALL = {
    "Triton kernel": "kineto/triton/*.json.gz",
    "AlexNet": "kineto/alexnet/*.json.gz",
    "recommender": "kineto/dlrm_2rank/rank-0.json.gz",
}

Files = dict[int, str]


@dataclass(frozen=True)
class Traces:
    """Where traces come from, and the folder that those made here are kept in.

    Attributes
    ----------
    work : Path
    real : Path
        Folder of real traces; the sample job stands in where there is none.
    scale_tool : Path
        Makes traces longer; `benchmarks.tiling` does where there is none.
    """

    work: Path
    real: Path
    scale_tool: Path

    def tiled(self, name: str, source: str, *, events: int, ranks: int = 1) -> Files:
        """Return traces of at least that many events per rank, made on first use."""
        folder = self.work / "traces" / f"{name}-{events}x{ranks}"
        if not folder.is_dir():
            partial = folder.with_suffix(".part")
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            print(f"  writing {folder.name}", file=sys.stderr, flush=True)
            self._write(partial, source, events, ranks)
            partial.rename(folder)
        return {rank: str(folder / f"rank-{rank}.json.gz") for rank in range(ranks)}

    def small(self) -> dict[str, Files]:
        """Small real traces as they are, by what they are of."""
        found = {name: self._real(pattern) for name, pattern in SMALL.items()}
        return {name: {0: str(path)} for name, path in found.items() if path}

    @property
    def are_real(self) -> bool:
        """Whether there are real traces."""
        return self._real(V100) is not None and self._real(H100) is not None

    def _real(self, pattern: str) -> Path | None:
        return next(iter(sorted(self.real.glob(pattern))), None)

    def _write(self, folder: Path, source: str, events: int, ranks: int) -> None:
        trace = self._real(source)
        if trace is None:
            command = sample_command(folder, ranks, events)
        elif self.scale_tool.is_file():
            amount = ["--events", str(events), "--ranks", str(ranks)]
            command = [str(self.scale_tool), str(trace), str(folder), *amount]
        else:
            task = {"source": str(trace), "target": str(folder), "events": events, "ranks": ranks}
            command = ["-m", "benchmarks.tiling", json.dumps(task)]
        run_apart(command)


def sample_command(folder: Path, ranks: int, events: int) -> list[str]:
    """How Python is called to write a sample job."""
    given = f"{str(folder)!r}, ranks={ranks}, events={events}"
    given += ", recording=Recording(), progress=False"
    return ["-c", f"from hta_widgets.sample import Recording, write_sample; write_sample({given})"]


def run_apart(command: list[str]) -> None:
    """Run Python in a process whose memory is not that of a measurement."""
    command = [sys.executable, *command]
    subprocess.run(command, cwd=CHECKOUT, check=True, stdout=subprocess.DEVNULL)
