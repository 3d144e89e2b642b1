"""The notebooks that the command line writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from string import punctuation
from typing import Any

from hta_widgets.cli.traces import GivenTrace
from hta_widgets.errors import write_errors

_DEMO_INTRODUCTION = """\
# First look

The traces in the folder `trace` come from a simulated training job on {ranks} GPUs. Its bottlenecks
were planted: a slow GPU, a starved data loader, exposed communication, and an optimizer that cannot
launch fast enough. The dashboard names them, the most expensive first, and says what to do; *Show*
highlights one in the timeline. Change a control or click a bar, and all panels follow.\
"""
_INTRODUCTION = "# {name}\n\nChange a control or click a bar, and all panels follow."
_DASHBOARD = """\
from hta_widgets import Dashboard, open_trace

job = open_trace({source}{options})
dash = Dashboard(job{compare})
dash\
"""
_PUNCTUATION = re.compile(rf"(?![.-])[{re.escape(punctuation)}]")


def demo_notebook(trace_folder: str, ranks: int) -> dict[str, Any]:
    """Build the notebook of the sample job; the trace folder is relative to it."""
    return _notebook(_DEMO_INTRODUCTION.format(ranks=ranks), trace_folder)


def trace_notebook(
    traces: Sequence[GivenTrace],
    later: GivenTrace | None = None,
    *,
    cycle: int | None = None,
    captures: GivenTrace | None = None,
    compare_cycle: int | None = None,
) -> dict[str, Any]:
    """Build the notebook of a user's traces: one file or folder, or several files.

    They are compared with `later` and its cycle `compare_cycle`, or without `later`, with another
    cycle of the same traces. `cycle` and `captures` are as in `open_trace`.
    """
    sources = [trace.source for trace in traces]
    name = ", ".join(trace.name for trace in traces)
    return _notebook(
        _INTRODUCTION.format(name=_markdown(name)),
        sources[0] if len(sources) == 1 else sources,
        options=_argument("cycle", cycle)
        + _argument("captures", None if captures is None else captures.source),
        compare=_compare(later, compare_cycle),
    )


def _compare(later: GivenTrace | None, cycle: int | None) -> str:
    """The dashboard's argument that says what to compare with, if anything."""
    if later is None:
        return "" if cycle is None else f", compare=job.open_cycle({cycle})"
    source = _python_literal(later.source)
    opened = source if cycle is None else f"open_trace({source}, cycle={cycle})"
    return f", compare={opened}"


def _argument(name: str, value: int | str | None) -> str:
    text = _python_literal(value) if isinstance(value, str) else value
    return "" if value is None else f", {name}={text}"


def notebook_stem(traces: Sequence[GivenTrace]) -> str:
    """Name the notebook of a user's traces after the first of them.

    Examples
    --------
    >>> notebook_stem([GivenTrace("s3://runs/job 7.pt.trace.json.gz", "job 7.pt.trace.json.gz")])
    'hta_widgets_job_7'
    """
    name = traces[0].name.split(".")[0]
    return f"hta_widgets_{re.sub(r'[^A-Za-z0-9_-]', '_', name) or 'trace'}"


def write_notebook(folder: Path, stem: str, notebook: dict[str, Any]) -> Path:
    """Write a notebook to a new file, or find one that already has these cells.

    The folder is created if it does not exist. The file is ``<stem>.ipynb``, or ``<stem>_2.ipynb``
    and so on if that name is taken.
    """
    with write_errors(folder / f"{stem}.ipynb"):
        folder.mkdir(parents=True, exist_ok=True)
        path = next(
            path
            for path in _possible_paths(folder, stem)
            if not path.exists() or _sources(_read(path)) == _sources(notebook)
        )
        if not path.exists():
            path.write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")
    return path


def _notebook(
    introduction: str, source: str | list[str], *, options: str = "", compare: str = ""
) -> dict[str, Any]:
    opened = _DASHBOARD.format(source=_python_literal(source), options=options, compare=compare)
    cells = [
        ("introduction", "markdown", introduction),
        ("dashboard", "code", opened),
    ]
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {
                "name": "python3",
                "display_name": "Python 3 (ipykernel)",
                "language": "python",
            },
            "language_info": {"name": "python"},
        },
        "cells": [_cell(*cell) for cell in cells],
    }


def _python_literal(source: str | list[str]) -> str:
    """Python code of a text; bytes of a path that are not UTF-8 are escaped."""
    return json.dumps(source, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def _markdown(text: str) -> str:
    """Markdown that shows a text verbatim, on one line."""
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return _PUNCTUATION.sub(r"\\\g<0>", shown)


def _cell(cell_id: str, cell_type: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "id": cell_id,
        "cell_type": cell_type,
        "metadata": {},
        "source": source.splitlines(keepends=True),
    }
    if cell_type == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell


def _possible_paths(folder: Path, stem: str) -> Iterator[Path]:
    yield folder / f"{stem}.ipynb"
    for number in count(2):
        yield folder / f"{stem}_{number}.ipynb"


def _read(path: Path) -> dict[str, Any]:
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return notebook if isinstance(notebook, dict) else {}


def _sources(notebook: dict[str, Any]) -> list[str] | None:
    cells = notebook.get("cells")
    return None if cells is None else ["".join(cell["source"]) for cell in cells]
