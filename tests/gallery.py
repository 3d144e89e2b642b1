"""The verdicts of the gallery: what ``hta-widgets diagnose`` prints of public traces.

``python -m tests.gallery`` writes them into ``docs/gallery.md`` anew.
"""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from hta_widgets.cli import main
from tests.conftest import REAL_TRACES

PAGE = Path(__file__).parents[1] / "docs" / "gallery.md"
VERDICT = re.compile(
    r"(?<=^```\n\$ hta-widgets diagnose )(\S+)\n.*?(?=^```$)", re.MULTILINE | re.DOTALL
)


def with_verdicts(page: str) -> str:
    """The page with what the command prints of each trace, in place of what it has."""
    return VERDICT.sub(lambda found: f"{found[1]}\n{printed(found[1])}", page)


def printed(trace: str) -> str:
    """What the command prints of a trace."""
    with redirect_stdout(StringIO()) as text:
        main(["diagnose", str(REAL_TRACES / trace)])
    return text.getvalue()


if __name__ == "__main__":
    PAGE.write_text(with_verdicts(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
