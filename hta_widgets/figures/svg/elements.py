"""SVG elements as text; widths of texts are estimated, as no browser is there to measure them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape, unescape
from math import inf
from unicodedata import east_asian_width

FONT_SIZE = 11
LINE_HEIGHT = 14

_WIDTH, _CAPITAL_WIDTH, _WIDE_WIDTH = 0.56, 0.72, 1.1
"""Mean character width, as a share of the font size, in the widest common sans-serif fonts."""

_BRIGHT = 140
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def decimal(value: float) -> str:
    """Write a coordinate with at most one decimal.

    Examples
    --------
    >>> decimal(12.04), decimal(0.26), decimal(-0.01)
    ('12', '0.3', '0')
    """
    text = f"{value:.1f}"
    return "0" if text == "-0.0" else text.removesuffix(".0")


def element(tag: str, content: str = "", **attributes: str | float) -> str:
    """Write an element around SVG content; in attribute names, ``_`` stands for ``-``.

    Attribute text is escaped; numbers get at most one decimal.

    Examples
    --------
    >>> element("rect", width=3.0, fill_opacity=".5", fill='"red"')
    '<rect width="3" fill-opacity=".5" fill="&quot;red&quot;"/>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
    )
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def _value(value: str | float) -> str:
    return escape(xml_text(value)) if isinstance(value, str) else decimal(value)


def xml_text(text: str) -> str:
    """Replace characters that XML does not allow; one would make the whole picture unreadable."""
    return _NOT_IN_XML.sub("�", text)


def lines_of(text: str) -> list[str]:
    """Split the text of a figure, which is escaped and has ``<br>`` between lines.

    Examples
    --------
    >>> lines_of("Array&lt;char&gt;<br>2")
    ['Array<char>', '2']
    """
    return [unescape(line) for line in text.split("<br>")]


def label(text: str, x: float, y: float, *, at_most: float = inf, **attributes: str | float) -> str:
    """Write a figure's text as one line, centred at height `y` and squeezed into a width (px)."""
    line = escape(xml_text(" ".join(lines_of(text))), quote=False)
    if text_width(text) > at_most:
        attributes |= {"textLength": at_most, "lengthAdjust": "spacingAndGlyphs"}
    return element("text", line, x=x, y=y + FONT_SIZE / 3, **attributes) if line else ""


def ink_on(color: str) -> str:
    """Black or white, whichever reads better on a colour such as ``#0072B2``."""
    red, green, blue = (int(color[at : at + 2], 16) for at in (1, 3, 5))
    return "#000" if 0.299 * red + 0.587 * green + 0.114 * blue > _BRIGHT else "#fff"


def text_width(text: str, size: float = FONT_SIZE) -> float:
    """Estimate the width (px) of a figure's text."""
    plain = " ".join(lines_of(text))
    capitals = sum(map(str.isupper, plain))
    wide = 0 if plain.isascii() else sum(east_asian_width(each) in "WF" for each in plain)
    usual = len(plain) - capitals - wide
    return size * (usual * _WIDTH + capitals * _CAPITAL_WIDTH + wide * _WIDE_WIDTH)


def widest(texts: Iterable[str]) -> float:
    """Estimate the width (px) of the widest of some texts."""
    return max(map(text_width, texts), default=0)


def outline(points: Sequence[tuple[float, float]], *, closed: bool = False) -> str:
    """Path through the points."""
    path = "L".join(f"{decimal(x)} {decimal(y)}" for x, y in points)
    return f"M{path}{'z' if closed else ''}"
