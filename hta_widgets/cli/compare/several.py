"""Several jobs as text, Markdown and JSON: a row for each, against the first."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from hta_widgets.cli.compare.document import document
from hta_widgets.cli.compare.markdown import plain
from hta_widgets.diagnosis.change.several import SeveralJobs
from hta_widgets.quantities import percent, signed
from hta_widgets.terminal import MARGIN, MOST_CHARACTERS, cut, section, wrapped

_NS_PER_MS: Final = 1e6
_NAME: Final = 24


def _cells(row: dict[str, Any]) -> list[str]:
    mean = f"{row['mean_ns'] / _NS_PER_MS:,.3f}"
    return [f"{row['steps']:,}", mean, signed(row["change_percent"], percent), row["verdict"]]


def text(found: SeveralJobs) -> str:
    """Write the finding, a row for each job, where the time of each goes, and what changed."""
    lines = wrapped(found.finding)
    lines += ["", f"{MARGIN}{'':{_NAME}}{'steps':>6}{'ms per step':>13}{'change':>10}  verdict"]
    for number, row in enumerate(found.table.to_dict("records"), start=1):
        steps, mean, change, verdict = _cells(row)  # type: ignore[arg-type]
        name = cut(f"{number} {row['job']}", _NAME - 1)
        lines.append(f"{MARGIN}{name:{_NAME}}{steps:>6}{mean:>13}{change:>10}  {verdict}".rstrip())
    numbers = "".join(f"{number:>13}" for number in range(1, len(found.jobs) + 1))
    lines += ["", f"{MARGIN}{'ms of a step, by job':{_NAME}}{numbers}"]
    for label, of_jobs in (found.times / _NS_PER_MS).iterrows():
        cells = "".join(f"{value:>13,.3f}" for value in of_jobs)
        lines.append(f"{MARGIN}{label!s:{_NAME}}{cells}")
    said = [f"{each.second.name}: {each.finding}" for each in found.changes]
    lines += section("Each against the first:", [cut(each, MOST_CHARACTERS) for each in said])
    return "\n".join(lines) + "\n"


def markdown(found: SeveralJobs) -> str:
    """The same as Markdown that fits the comment of a pull request."""
    lines = ["### hta-widgets: several jobs", "", plain(found.finding), ""]
    lines += ["| job | steps | ms per step | change | verdict |", "|:--|--:|--:|--:|:--|"]
    for row in found.table.to_dict("records"):
        cells = [plain(str(row["job"])), *_cells(row)]  # type: ignore[arg-type]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    for each in found.changes:
        lines.append(f"- {plain(each.second.name)}: {plain(each.finding)}")
    return "\n".join(lines) + "\n"


def json_text(found: SeveralJobs) -> str:
    """The document of each change from the first job, as `hta-widgets compare --json` writes it."""
    changes = [document(each) for each in found.changes]
    return json.dumps({"sentence": found.finding, "changes": changes}, indent=1) + "\n"


SEVERAL: Final[dict[str, Callable[[SeveralJobs], str]]] = {
    "text": text,
    "json": json_text,
    "markdown": markdown,
}
"""By the form that is asked for."""
