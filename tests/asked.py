"""Can questions on a slow job be answered from what ``hta-widgets mcp`` says, and nothing else?

``python -m tests.asked`` writes labelled jobs into folders whose names tell nothing, asks each
question as a client does, over the protocol, and reads the answer out of the text. No model takes
part: what is tested is whether the text has the answer. It is compared with what was planted in
the job, or with a count over the JSON of its traces; the engine that answered is not asked for it.
"""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from mcp import Client, StdioServerParameters

from tests.diagnosis.labelled import LabelledJob, labelled_jobs

FIRST_STEP = 10
"""Number of the first recorded step of the simulated jobs; the last one is not analysed."""

BESIDE_SPANS = 0.03
"""A step of the simulator begins and ends on the host, one of the answers on the GPU."""

PRICE = 0.1
"""A price is that of the recorded job by replay; the label is the time of a job without it."""

JOBS = {
    "slow GPU": "slow_gpu, data_parallel, full, seed 0",
    "paused": "host_pause, data_parallel, full, seed 0",
    "cold": "warm_up, data_parallel, full, seed 0",
    "float32": "no_tensor_cores, data_parallel, full, seed 1",
    "incomplete": "missing_rank, data_parallel, full, seed 0",
    "hot": "gpu_throttling, data_parallel, full, seed 0",
    "copies": "slow_host_copies, data_parallel, full, seed 0",
    "memory": "allocator_retries, data_parallel, full, seed 0",
    "link": "slow_link, pipeline, full, seed 3",
}


@dataclass
class Planted:
    """What is known of a job without asking for it."""

    job: LabelledJob
    folder: Path

    def events(self, rank: int) -> list[dict[str, Any]]:
        """The events of a rank, as its trace has them."""
        with gzip.open(self.folder / f"rank-{rank}.json.gz") as file:
            found: list[dict[str, Any]] = json.load(file)["traceEvents"]
        return found

    def work(self, rank: int, category: str = "kernel") -> list[dict[str, Any]]:
        """The GPU work of a rank."""
        return [each for each in self.events(rank) if each.get("cat") == category]

    @cached_property
    def steps_us(self) -> dict[int, list[float]]:
        """Lengths of each analysed step on all ranks."""
        found: dict[int, list[float]] = {}
        for rank in self.job.plan.files:
            for each in self.events(rank):
                step = re.fullmatch(r"ProfilerStep#(\d+)", each.get("name", ""))
                if step and each.get("cat") == "user_annotation":
                    found.setdefault(int(step[1]), []).append(float(each["dur"]))
        found.pop(max(found))
        return found

    @property
    def slowest_step(self) -> int:
        """The analysed step that lasts longest, on the mean rank."""
        return max(self.steps_us, key=lambda step: fmean(self.steps_us[step]))

    def biggest(self, rank: int) -> str:
        """The kernel with most time on a rank."""
        taken: Counter[str] = Counter()
        for each in self.work(rank):
            taken[each["name"]] += each["dur"]
        return taken.most_common(1)[0][0]


class Question(NamedTuple):
    """What somebody asks, what a client then calls, and where the answer is read."""

    words: str
    job: str
    tool: str
    arguments: dict[str, Any]
    read: Callable[[str], object]
    known: Callable[[Planted], object]
    within: float = 0.0


class Answered(NamedTuple):
    """A question with what was read, and what is true."""

    question: Question
    read: object
    known: object

    @property
    def is_right(self) -> bool:
        """Whether the two are the same, within the part that the question allows."""
        if isinstance(self.read, float) and isinstance(self.known, float):
            return abs(self.read - self.known) <= self.question.within * abs(self.known)
        return self.read == self.known


def first(pattern: str) -> Callable[[str], object]:
    """Read the text that a pattern finds, on one line; a number where it is one."""

    def read(text: str) -> object:
        found = re.search(pattern, " ".join(text.split()))
        if found is None:
            return None
        value = found[1]
        return float(value) if re.fullmatch(r"[\d.]+", value) else value

    return read


def numbers(pattern: str) -> Callable[[str], object]:
    """Read ranks or steps, such as ``0, 2-3``."""

    def read(text: str) -> object:
        value = first(pattern)(text)
        if value is None:
            return None
        written = f"{value:g}" if isinstance(value, float) else str(value)
        return frozenset(each for part in written.split(", ") for each in _between(part))

    return read


def _between(part: str) -> range:
    start, _, end = part.partition("-")
    return range(int(start), int(end or start) + 1)


def cell(column: str, least: str = "") -> Callable[[str], object]:
    """Read a column of the first row of a CSV, or of the row with least of another column."""

    def read(text: str) -> object:
        lines = text.splitlines()
        start = next(place for place, line in enumerate(lines) if column in line.split(","))
        rows = [*csv.DictReader(io.StringIO("\n".join(_table(lines[start:]))))]
        row = min(rows, key=lambda each: float(each[least])) if least else rows[0]
        return float(row[column]) if re.fullmatch(r"[\d.]+", row[column]) else row[column]

    return read


def _table(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if not line or line.startswith("("):
            return
        yield line


def ranks(planted: Planted) -> frozenset[int]:
    """Who is to blame."""
    return planted.job.ranks[0]


def sick_steps(planted: Planted) -> frozenset[int]:
    """Steps in which the host of a rank stops."""
    return frozenset(FIRST_STEP + each.step for each in planted.job.plan.pauses) & {
        *planted.steps_us
    }


def copied(planted: Planted) -> list[dict[str, Any]]:
    """Copies from the host on rank 0, of more than a value."""
    found = [each for each in planted.work(0, "gpu_memcpy") if "HtoD" in each["name"]]
    return [each for each in found if each["args"]["bytes"] > 1_000_000]


DIAGNOSE: dict[str, Any] = {}

QUESTIONS = (
    Question(
        "Why is the job slow?",
        *("slow GPU", "diagnose", DIAGNOSE),
        first(r"1\. .*?: (\w+), "),
        lambda planted: planted.job.causes[0],
    ),
    Question(
        "Which rank is late?",
        *("slow GPU", "diagnose", DIAGNOSE),
        numbers(r"slow_gpu, rank ([\d, -]+),"),
        ranks,
    ),
    Question(
        "How many times as long does it compute?",
        *("slow GPU", "diagnose", DIAGNOSE),
        first(r"computes ([\d.]+) times as long"),
        lambda planted: float(planted.job.plan.gpu_factors[planted.job.plan.culprit]),
        0.03,
    ),
    Question(
        "How much of a step would a healthy GPU give back, in ms?",
        *("slow GPU", "diagnose", DIAGNOSE),
        first(r"1\. ([\d.]+) ms "),
        lambda planted: planted.job.label.loss_ms,
        PRICE,
    ),
    Question(
        "How long is a step, in ms?",
        *("slow GPU", "diagnose", DIAGNOSE),
        first(r"steps [\d-]+ of ([\d.]+) ms"),
        lambda planted: fmean(map(fmean, planted.steps_us.values())) / 1e3,
        BESIDE_SPANS,
    ),
    Question(
        "Which rank waits least for the others in step 12?",
        *("slow GPU", "table"),
        {"analysis": "step_table", "steps": [12], "columns": ["rank", "waiting_ns"]},
        cell("rank", least="waiting_ns"),
        lambda planted: float(planted.job.plan.culprit),
    ),
    Question(
        "Which kernel takes most time on rank 1?",
        *("slow GPU", "table"),
        {"analysis": "kernel_breakdown", "table": "kernels", "ranks": [1], "sort": "sum_ns"},
        cell("name"),
        lambda planted: planted.biggest(1),
    ),
    Question(
        "How long is the longest kernel of rank 0, in ns?",
        *("slow GPU", "events"),
        {"rank": 0, "kind": "kernel", "rows": 1},
        cell("duration_ns"),
        lambda planted: max(each["dur"] for each in planted.work(0)) * 1e3,
        1e-9,
    ),
    Question(
        "Is anything wrong with the job on other GPUs?",
        *("healthy", "diagnose", DIAGNOSE),
        first(r"^(No finding|\d+ findings?)"),
        lambda _: "No finding",
    ),
    Question(
        "What did the other GPUs bring, in ms per step?",
        *("slow GPU", "compare", {"after": "healthy"}),
        lambda text: float(re.search(r"(?m)^ +all .*?−([\d.]+)$", text)[1]),  # type: ignore[index]
        lambda planted: planted.job.label.loss_ms,
        PRICE,
    ),
    Question(
        "In which steps does the host stop?",
        *("paused", "diagnose", DIAGNOSE),
        numbers(r"host_pause, rank \d+, steps ([\d, -]+?\d) "),
        sick_steps,
    ),
    Question(
        "For how long, in ms?",
        *("paused", "diagnose", DIAGNOSE),
        first(r"stalls for up to ([\d.]+) ms"),
        lambda planted: planted.job.plan.pauses[0].pause_ns / 1e6,
        PRICE,
    ),
    Question(
        "Which step is slowest?",
        *("cold", "table"),
        {"analysis": "step_table", "sort": "period_ns", "rows": 1, "columns": ["step"]},
        cell("step"),
        lambda planted: float(planted.slowest_step),
    ),
    Question(
        "Which steps are of a warm-up, and should not count?",
        *("cold", "diagnose", DIAGNOSE),
        numbers(r"warm_up, all ranks, steps ([\d-]+)"),
        lambda planted: frozenset(FIRST_STEP + each for each in planted.job.plan.cold_steps),
    ),
    Question(
        "Which number format do the slowest products have?",
        *("float32", "table"),
        {"analysis": "roofline", "sort": "gpu_ns", "rows": 1, "columns": ["dtype", "gpu_ns"]},
        cell("dtype"),
        lambda planted: "fp32" if planted.job.plan.decoder.fp32_head else "bf16",
    ),
    Question(
        "Whose trace is missing?",
        *("incomplete", "diagnose", DIAGNOSE),
        numbers(r"missing_rank, rank (\d+)"),
        lambda planted: frozenset(range(planted.job.plan.ranks)) - {*planted.job.plan.files},
    ),
    Question(
        "Is it known that the network is slow, with that trace missing?",
        *("incomplete", "diagnose", DIAGNOSE),
        lambda text: "inconclusive" not in text and "cannot be told apart" not in text,
        lambda planted: not {*planted.job.plan.gpu_factors} - {*planted.job.plan.files},
    ),
    Question(
        "From which step on are clocks lowered, and on which rank?",
        *("hot", "diagnose", DIAGNOSE),
        first(r"gpu_throttling, (rank \d+, steps \d+)"),
        lambda planted: (
            f"rank {planted.job.plan.culprit}, "
            f"steps {FIRST_STEP + planted.job.plan.throttling.first_step}"  # type: ignore[union-attr]
        ),
    ),
    Question(
        "How fast are batches copied to the GPU, in GB/s?",
        *("copies", "diagnose", DIAGNOSE),
        first(r"MB each per step at ([\d.]+) GB/s"),
        lambda planted: (
            sum(each["args"]["bytes"] for each in copied(planted))
            / sum(each["dur"] for each in copied(planted))
            / 1e3
        ),
        0.05,
    ),
    Question(
        "Which rank runs out of memory?",
        *("memory", "diagnose", DIAGNOSE),
        numbers(r"allocator_retries, rank (\d+),"),
        lambda planted: frozenset(planted.job.plan.allocator_retries),
    ),
    Question(
        "Between which ranks is the link slow?",
        *("link", "diagnose", DIAGNOSE),
        numbers(r"slow_link, ranks ([\d, -]+),"),
        ranks,
    ),
)


def write_jobs(folder: Path) -> dict[str, Planted]:
    """Write the jobs that questions are asked of, into folders that are numbered."""
    known = {each.name: each for each in labelled_jobs()}
    written = {}
    chosen = {name: known[label] for name, label in JOBS.items()}
    chosen["healthy"] = replace(chosen["slow GPU"], plan=chosen["slow GPU"].twin)
    for place, (name, job) in enumerate(chosen.items()):
        written[name] = Planted(job, job.write(folder / f"job-{place}"))
    return written


async def ask(jobs: dict[str, Planted], questions: Sequence[Question]) -> list[Answered]:
    """Ask the server, started as an assistant starts it; each answer is read for itself."""
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "hta_widgets", "mcp"], env={**os.environ}
    )
    answered = []
    async with Client(command) as client:
        for each in questions:
            planted = jobs[each.job]
            arguments = {"path": str(planted.folder), **each.arguments}
            if each.tool == "compare":
                arguments["before"] = arguments.pop("path")
                arguments["after"] = str(jobs[arguments["after"]].folder)
            said = await client.call_tool(each.tool, arguments)
            answered.append(Answered(each, each.read(said.content[0].text), each.known(planted)))
    return answered


def main() -> None:
    """Print each question with what was read and what is true, and how many are answered."""
    with TemporaryDirectory() as folder:
        answered = asyncio.run(ask(write_jobs(Path(folder)), QUESTIONS))
    lines = [
        f"{'right' if each.is_right else 'WRONG'}  {each.question.words}  "
        f"{each.read!r}, known: {each.known!r}\n"
        for each in answered
    ]
    right = sum(each.is_right for each in answered)
    sys.stdout.writelines([*lines, f"{right} of {len(answered)} questions are answered\n"])


if __name__ == "__main__":
    main()
