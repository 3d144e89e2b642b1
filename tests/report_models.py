"""What a report holds, read as its script does."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

IN_PAGE = "&<>`", ",.:/"
"""What the page has in place of digits of base 85."""


def models_in(html: str) -> list[dict[str, Any]]:
    """The ``state`` of each widget of a page, and its ``bytes`` by their path."""
    text = html.rpartition('id="models">')[2].partition("<")[0]
    digits = text.translate(str.maketrans(*reversed(IN_PAGE)))
    return models_of(gzip.decompress(base64.b85decode(digits)))


def models_of(content: bytes) -> list[dict[str, Any]]:
    """The same of `saved_models`."""
    states, _, rest = content.partition(b"\0")
    models: list[dict[str, Any]] = json.loads(states)
    for model in models:
        model["bytes"] = {}
        for each in model.pop("buffers"):
            part, rest = rest[: each["size"]], rest[each["size"] :]
            width = 1 if len(part) % 4 else 4 if len(part) % 8 else 8
            count = len(part) // width
            planes = [part[count * n : count * (n + 1)] for n in range(width)]
            part = bytes(value for number in zip(*planes, strict=True) for value in number)
            model["bytes"][tuple(each["path"])] = part
    assert not rest
    return models
