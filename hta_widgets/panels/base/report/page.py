"""HTML of a report: its security policy, a static summary, the saved widgets and their script."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from hta_widgets.atomic_write import atomic_write
from hta_widgets.errors import ParameterError, write_errors
from hta_widgets.panels.base.front_end import static_file
from hta_widgets.trace.remote.urls import PathLike
from hta_widgets.version import __version__

MARK: Final = '<meta name="generator" content="hta_widgets '
"""Identifies a report, which may be overwritten, unlike other files."""

MARKED_BYTES: Final = 4096
"""Number of bytes at the start of a report that contain the mark."""

_IN_HTML: Final = b"&<>`"
_INSTEAD: Final = b",.:/"
_NEEDLESS_ENDS: Final = re.compile("</t[dhr]>")
"""End tags of cells and rows, which HTML does not need."""

_NOTE: Final = (
    "You can hover, zoom and select. Parameters are fixed, and numbers are as they were saved."
)

_STYLE: Final = """
:root { color-scheme: light dark; --page: #fff; --ink: #1a1a1a; --quiet: #595959; --line: #d0d0d0; }
@media (prefers-color-scheme: dark) {
  :root { --page: #161616; --ink: #e8e8e8; --quiet: #a8a8a8; --line: #444; }
}
body { margin: 0; padding: 8px 16px 24px; background: var(--page); color: var(--ink); }
body, h1, h2 { font: 13px/1.45 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; gap: 2px 12px; color: var(--quiet); }
h1 { margin: 0; font-weight: 600; color: var(--ink); overflow-wrap: anywhere; }
h2 { display: inline; }
h2::after { content: "."; }
.live #summary, html:not(.live) #note, html:not(.live) #widget { display: none; }
#summary table { display: block; overflow-x: auto; border-collapse: collapse; margin: 4px 0 16px; }
#summary th, #summary td {
  max-width: 60ch; padding: 1px 8px; border: 1px solid var(--line); text-align: left;
  vertical-align: top; font-size: 11px; overflow-wrap: break-word;
}
#summary img { max-width: 100%; }
#summary > div + div { margin-top: 24px; border-top: 1px solid var(--line); padding-top: 8px; }
@media print {
  :root { color-scheme: light; --page: #fff; --ink: #000; --quiet: #444; --line: #bbb; }
  .live #summary { display: block; }
  #note, #widget { display: none; }
}
"""


def page(title: str, summaries: Sequence[str], models: bytes) -> str:
    """HTML of a report: summaries without scripts, and `saved_models` that show the first."""
    script = static_file("report.js").read_text(encoding="utf-8").strip()
    name = escape(title)
    whole = "\n".join(f"<div>{each}</div>" for each in summaries)
    summary = _NEEDLESS_ENDS.sub("", whole)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy(script)}">
{MARK}{escape(__version__)}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>{_STYLE}</style>
<script>{script}</script>
</head>
<body>
<header><h1>{name}</h1><div id="note"><h2>Saved report</h2> {_NOTE}</div></header>
<main><div id="widget"></div><div id="summary">{summary}</div></main>
<script type="application/gzip" id="models">{_packed(models)}</script>
</body>
</html>
"""


def policy(script: str) -> str:
    """What the page may do: run one script and what that unpacks, and use styles and images.

    It makes no request: nothing is loaded, fetched, sent or framed. Plotly needs inline styles;
    ``blob:`` is needed to import modules and to save pictures of charts.

    A policy has no rule for links that a reader follows, and none for WebRTC that browsers support;
    the front end uses neither, and no other script runs.
    """
    sum_ = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = {
        "default-src": "'none'",
        "script-src": f"'sha256-{sum_}' blob:",
        "style-src": "'unsafe-inline'",
        "img-src": "data: blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _packed(content: bytes) -> str:
    """Compressed bytes as text, which contains no name of a trace verbatim.

    Base 85 is one sixteenth shorter than base 64; without ``<`` and ``&``, HTML takes it as text.
    """
    text = base64.b85encode(gzip.compress(content, mtime=0))
    return text.translate(bytes.maketrans(_IN_HTML, _INSTEAD)).decode()


_ENDINGS: Final = (".html", ".htm")


def report_target(path: PathLike) -> Path:
    """Check the path of a report before anything is computed.

    Raises a `ParameterError` if the name does not end in ``.html``, the folder does not exist, or
    the file exists and is not a report; a `WriteError` if the system refuses to read that file.
    """
    target = Path(path).expanduser()
    if target.suffix.lower() not in _ENDINGS:
        msg = f"the name of a report must end in .html, got {target.name!r}"
        raise ParameterError(msg)
    if not target.parent.is_dir():
        msg = f"{target.parent} is not a folder; create it first, or choose another path"
        raise ParameterError(msg)
    with write_errors(target):
        if target.exists() and not _is_report(target):
            msg = (
                f"{target} exists and is not an hta_widgets report, so it is not overwritten; "
                "choose another path"
            )
            raise ParameterError(msg)
    return target


def write_report(target: Path, html: str) -> None:
    """Write the HTML of a report; an existing report stays until the new one is complete."""
    with write_errors(target), atomic_write(target) as partial:
        partial.write_text(html, encoding="utf-8", errors="replace", newline="\n")


def _is_report(file: Path) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as content:
        return MARK.encode() in content.read(MARKED_BYTES)
