"""What the docs say of causes and of faults of recorders, made of what it is said of.

``python -m tests.generated_docs`` writes it into the docs anew.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from hta_widgets.diagnosis import CAUSES, Limits
from hta_widgets.diagnosis.causes import ALL_CAUSES
from tests.cause_pages import INDEX, completed, index, measured, page_of
from tests.diagnosis.recorder_faults.table import Table

DOCS = Path(__file__).parents[1] / "docs"
PAGE, SCHEMA = DOCS / "diagnosis.md", DOCS / "diagnosis.schema.json"
ROW = re.compile(r"^\| \[`(\w+)`\]\(causes/\w+\.md\) \| (.*) \| ([\d.]+) % \|\n", re.MULTILINE)
ENUM = re.compile(r'(?<="cause": \{\n          "enum": )\[.*\]')


def page_with_causes(page: str) -> str:
    """The page of the diagnosis with a row for each cause, in place of those that it has."""
    limits, rows = Limits(), [*ROW.finditer(page)]
    made = (
        f"| [`{each.name}`](causes/{each.name}.md) | {each.when} "
        f"| {getattr(limits, each.limit):g} % |\n"
        for each in ALL_CAUSES
    )
    return page[: rows[0].start()] + "".join(made) + page[rows[-1].end() :]


def schema_with_causes(schema: str) -> str:
    """The schema of a diagnosis as JSON with the names of all causes."""
    return ENUM.sub(json.dumps(CAUSES), schema)


if __name__ == "__main__":
    PAGE.write_text(page_with_causes(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    SCHEMA.write_text(schema_with_causes(SCHEMA.read_text(encoding="utf-8")), encoding="utf-8")
    INDEX.write_text(index(), encoding="utf-8")
    for each in ALL_CAUSES:
        text = completed(page_of(each).read_text(encoding="utf-8"), each, measured(each))
        page_of(each).write_text(text, encoding="utf-8")
    Table.read().write_page()
