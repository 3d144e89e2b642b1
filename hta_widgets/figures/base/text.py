"""Make text from a trace safe and readable inside a plotly figure.

Plotly interprets a subset of HTML in texts: a kernel name with ``<`` would be garbled, and a
malicious one would become a link.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hta_widgets.names.readable import distinct_labels, readable_name
from hta_widgets.names.shorten import short_name

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_DIRECTION_MARKS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
_CONTROL = (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
_SHOWN_AS = dict.fromkeys(map(chr, (*_DIRECTION_MARKS, *_CONTROL)), "�")
_REPLACED = str.maketrans(_ESCAPES | _SHOWN_AS)
_TO_REPLACE = re.compile(f"[{''.join(map(re.escape, _ESCAPES | _SHOWN_AS))}]")
_HOVER_LINE = 64
_HOVER_LINES = 6


def plot_text(text: str) -> str:
    """Escape text for plotly; control and direction marks are shown instead of having an effect.

    Examples
    --------
    >>> plot_text("Array<char*, 2>")
    'Array&lt;char*, 2&gt;'
    """
    return text.translate(_REPLACED) if _TO_REPLACE.search(text) else text


def plot_name(name: str, width: int = 48) -> str:
    """Readable label of a kernel, or short form of any other name, for an axis or a legend."""
    label = readable_name(name)
    return plot_text(label if label and len(label) <= width else short_name(name, width))


def plot_names(names: Sequence[str], width: int = 48, *, among: Iterable[str] = ()) -> list[str]:
    """Labels or short forms of names shown side by side, as `distinct_labels`."""
    return [plot_text(name) for name in distinct_labels(names, width, among=among)]


def hover_name(name: str) -> str:
    """Full name, wrapped to fit the screen; only extremely long names are cut."""
    lines = [name[start : start + _HOVER_LINE] for start in range(0, len(name), _HOVER_LINE)]
    shown = [plot_text(line) for line in lines[:_HOVER_LINES]]
    return "<br>".join(shown + (["…"] if len(lines) > _HOVER_LINES else []))
