"""An empty panel that names a profiler option also says which page has the recipe."""

from __future__ import annotations

import re
from typing import Final

PAGE: Final = "docs/recording.md"

_OPTION: Final = re.compile(
    r"\b(?:record_shapes|with_stack|profile_memory)=True|\bProfilerActivity\b|\bnsys profile\b"
)


def with_recipe(reason: str) -> str:
    """Add the page of recipes to the reason for an empty panel, if it names a profiler option.

    Examples
    --------
    >>> with_recipe("No memory events were recorded (profile_memory=True records them).")
    'No memory events were recorded (profile_memory=True records them). Recipes: docs/recording.md.'
    >>> with_recipe("The GPUs are never idle.")
    'The GPUs are never idle.'
    """
    return f"{reason} Recipes: {PAGE}." if _OPTION.search(reason) else reason
