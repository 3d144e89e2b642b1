"""What the pages on analyses begin with: a chart of the sample job, and what the panel says of it.

``python -m tests.analysis_pictures`` makes them anew.
"""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hta_widgets import Dashboard
from hta_widgets.figures.svg.picture import svg
from hta_widgets.panels import Panel
from hta_widgets.sample import write_sample

PAGES = Path(__file__).parents[1] / "docs" / "analyses"
PICTURES = PAGES / "pictures"
PANELS = {"step_table": "steps"}
"""Panels that have another name than the page."""
CHARTS = {"kernel_breakdown": 1, "duration_tails": 1}
"""Which chart of a panel says most, where it is not the first."""
BEGINNING = re.compile(r"\A(# .+\n\n\*[^*]+\*\n\n)(?:!\[.*\]\(pictures/.+\)\n\n.+\n\n)?")
MARKDOWN = re.compile(r"([\\`*_<>\[\]|])")


def illustrate(page: Path, panel: Panel[Any]) -> None:
    """Write the chart of a panel beside its page, and both on top of it, if it draws one."""
    result = panel.result
    charts = [*panel.draw(result).items()]
    if not charts:
        return
    title, drawn = charts[CHARTS.get(page.stem, 0)]
    picture = PICTURES / f"{page.stem}.svg"
    picture.write_text(svg(drawn, points=1_000) + "\n", encoding="utf-8")
    name = re.sub(r" \(.*", "", title)
    said = MARKDOWN.sub(r"\\\1", getattr(result, "finding", ""))
    text = f"The [sample job](../sample-job.md){f': {said}' if said else '.'}"
    begin = f"![{name}](pictures/{picture.name})\n\n{text}\n\n"
    old = page.read_text(encoding="utf-8")
    page.write_text(BEGINNING.sub(lambda top: top[1] + begin, old), encoding="utf-8")


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder:
        write_sample(Path(folder) / "sample", progress=False)
        panels = Dashboard(Path(folder) / "sample").panels
        for each in sorted(PAGES.glob("*.md")):
            panel = panels.get(PANELS.get(each.stem, each.stem))
            if panel is not None:
                illustrate(each, panel)
