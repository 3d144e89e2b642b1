"""The parts of the pages on causes that are made: what to do, and a job before and after.

``python -m tests.generated_docs`` writes them into the docs anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hta_widgets import diagnose, open_trace
from hta_widgets.diagnosis.cause import Cause
from hta_widgets.diagnosis.causes import ALL_CAUSES
from hta_widgets.diagnosis.finding import Advice
from tests.kineto_text import write
from tests.server_loops import OF_INFERENCE
from tests.simulator import write_job
from tests.simulator.plan import Layout

PAGES = Path(__file__).parents[1] / "docs" / "causes"
INDEX = PAGES / "README.md"
TITLE = re.compile(r"^# (.+)\n\n\*`\w+`: (.+)\*$", re.MULTILINE)
TO_DO = re.compile(r"(?<=^## What to do\n).*?(?=^## )", re.MULTILINE | re.DOTALL)
MEASURED = re.compile(r"(?<=^## Before and after\n).*\Z", re.MULTILINE | re.DOTALL)
NOT_TOLD = "not told"
NUMBERS = re.compile(rf"\| ([\d.]+) ms \| ([\d.]+) ms \| (?:([\d.]+) ms|{NOT_TOLD}) \|")
LAYOUTS: dict[str, Layout] = {"slow_link": "pipeline"}
"""Layouts of simulated jobs, other than the usual one: a ring of all ranks has no other link."""

INFERENCE_JOBS = {
    "step_gap": "A loop of an inference server that schedules after each step, and the same one "
    "step ahead of its GPU",
    "preprocessing": "One request whose input takes the CPU 30 ms, and the same with half a "
    "millisecond",
}

SHELL = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:python|unset|export|vllm serve|hta-widgets"
    r"|nvidia-smi|amd-smi|ibstat|py-spy|nsys) "
)
"""How lines of a shell begin."""
CPP = re.compile(r"(?:cuda|cublas)[A-Z]\w+\(")
"""How code of C++ begins."""


class Measured(NamedTuple):
    """A simulated job with one cause, and its twin without, in ms of the mean step.

    Attributes
    ----------
    before_ms, after_ms : float
    price_ms : float
        What the diagnosis of the first says that the cause costs; 0 where it cannot be told.
    """

    before_ms: float
    after_ms: float
    price_ms: float


def page_of(cause: Cause) -> Path:
    """The page on a cause."""
    return PAGES / f"{cause.name}.md"


def index() -> str:
    """The list of all pages."""
    rows = "".join(_row_of(each) for each in ALL_CAUSES)
    return f"""# Causes

A page for each cause that a [diagnosis](../diagnosis.md) names: symptom, proof, what it is not,
what to do, and a job before and after.

| page | in a word | `cause` |
|---|---|---|
{rows}"""


def _row_of(cause: Cause) -> str:
    found = TITLE.match(page_of(cause).read_text(encoding="utf-8"))
    assert found, f"the page on {cause.name} does not begin with its title and a sentence"
    return f"| [{found[1]}]({cause.name}.md) | {found[2]} | `{cause.name}` |\n"


def with_advice(page: str, cause: Cause) -> str:
    """The page with all that may be advised, in place of what it has."""
    return TO_DO.sub(lambda _: f"\n{_list_of(cause.advice)}\n", page)


def with_measurement(page: str, cause: Cause, measured: Measured) -> str:
    """The page with what a simulated job takes, in place of what it has."""
    numbers = " | ".join(f"{each:.2f} ms" if each else NOT_TOLD for each in measured)
    layout = f" --layout {LAYOUTS[cause.name]}" if cause.name in LAYOUTS else ""
    jobs = f"""\
A simulated job on four GPUs and its twin with the same seed
(`python -m tests.simulator {cause.name}{layout}`, and with `--healthy`). Its mean step:"""
    if cause.name in OF_INFERENCE:
        jobs = f"{INFERENCE_JOBS[cause.name]}\n(`tests/server_loops.py`). The mean step:"
    text = f"""
{jobs}

| before | after | the diagnosis of the first prices the cause at |
|---:|---:|---:|
| {numbers} |
"""
    return MEASURED.sub(lambda _: text, page)


def measured(cause: Cause) -> Measured:
    """Write the jobs and diagnose them."""
    with TemporaryDirectory() as folder:
        sick, healthy = (Path(folder, name) for name in ("before", "after"))
        if cause.name in OF_INFERENCE:
            for path in (sick, healthy):
                write(path, OF_INFERENCE[cause.name](healthy=path == healthy))
            return _diagnosed(sick, healthy, cause)
        layout = LAYOUTS.get(cause.name)
        write_job(sick, cause.name, layout=layout)
        write_job(healthy, cause.name, layout=layout, healthy=True)
        return _diagnosed(sick, healthy, cause)


def _diagnosed(sick: Path, healthy: Path, cause: Cause) -> Measured:
    before, after = (diagnose(open_trace(each, progress=False)) for each in (sick, healthy))
    price_ms = next(each.recoverable_ms for each in before if each.cause == cause.name)
    return Measured(before.step_ns / 1e6, after.step_ns / 1e6, price_ms)


def measured_on(page: str) -> Measured:
    """What a page says that was measured."""
    found = NUMBERS.search(page)
    assert found, "nothing is measured: run `python -m tests.generated_docs`"
    return Measured(*(float(each or 0) for each in found.groups()))


def _list_of(advice: Sequence[Advice]) -> str:
    return "\n".join(_item_of(each) for each in advice)


def _item_of(advice: Advice) -> str:
    """A piece of advice as an item of a list, with its conditions and its code."""
    where = [
        f"{words} {', '.join(each.value for each in conditions)}"
        for words, conditions in (("where:", advice.needs), ("not where:", advice.unless))
        if conditions
    ]
    item = f"- {advice.do}" + (f" *({'; '.join(where)})*\n" if where else "\n")
    if not advice.code:
        return item
    is_of_shell = SHELL.match(f"{advice.code} ")
    language = "sh" if is_of_shell else "cpp" if CPP.match(advice.code) else "python"
    code = "".join(f"  {line}\n" for line in advice.code.splitlines())
    return f"{item}\n  ```{language}\n{code}  ```\n"
