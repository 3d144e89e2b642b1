"""All numbers of a job as JSON, by any Python: this one, one without threads, one in a browser.

It imports nothing that a browser lacks: it runs there as it is.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from contextlib import closing
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from hta_widgets import Dashboard, analyses, open_trace
from hta_widgets.diagnosis import diagnosis
from hta_widgets.errors import HtaWidgetsError


def all_numbers(path: str | Path) -> dict[str, object]:
    """The verdict, each table of each analysis, and what a report says, of the job at a path."""
    job = open_trace(path, progress=False)
    verdict = diagnosis(job)
    found: dict[str, object] = {"verdict": verdict.finding, "ranks": list(job.ranks)}
    found["findings"] = [each.to_dict() for each in verdict.findings]
    for name in sorted(module.name for module in iter_modules(analyses.__path__)):
        analysis = getattr(import_module(f"hta_widgets.analyses.{name}"), name, None)
        if inspect.isfunction(analysis) and hasattr(analyses, name):
            found[name] = _answer(analysis, job)
    with TemporaryDirectory() as folder, closing(Dashboard(job)) as dashboard:
        report = dashboard.to_html(Path(folder) / "report.html").read_text("utf-8")
    found["report"] = re.findall(r'<div id="summary">.*</main>', report, re.DOTALL)
    return json.loads(json.dumps(found, default=_plain))


def _answer(analysis, job):
    needed = [
        each.name
        for each in inspect.signature(analysis).parameters.values()
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    ]
    arguments = {"rank": job.ranks[0], "operator_name": "aten::addmm", "second": job, "after": job}
    given = {name: arguments[name] for name in needed[1:] if name in arguments}
    try:
        return analysis(job, **given)
    except HtaWidgetsError as error:
        return str(error)


def _plain(value):
    """What JSON has no form for."""
    if isinstance(value, pd.DataFrame):
        columns = {str(name): value[name].tolist() for name in value}
        return {"rows": len(value), "columns": columns}
    if isinstance(value, pd.Series | np.ndarray | np.generic):
        return value.tolist()
    if dataclasses.is_dataclass(value):
        return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
    if isinstance(value, frozenset | set):
        return sorted(map(str, value))
    if isinstance(value, pd.Timedelta | timedelta):
        return value.total_seconds()
    return str(type(value).__name__)
