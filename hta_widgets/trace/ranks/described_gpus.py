"""What the metadata of a trace say of its GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hta_widgets.trace.loaders.columns import whole_number


def described_gpus(metadata: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Properties of each GPU by its number, that of its place in the list if it has none."""
    listed = metadata.get("deviceProperties")
    found: dict[int, Mapping[str, Any]] = {}
    for place, each in enumerate(listed if isinstance(listed, list) else []):
        if isinstance(each, Mapping):
            number = whole_number(each.get("id", place))
            if number is not None:
                found[number] = each
    return found
