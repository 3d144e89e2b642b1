"""Registry of trace formats: each has a folder next to this file and a line here."""

from __future__ import annotations

from typing import Final

from hta_widgets.trace.loaders.cupti.format import CUPTI_CSV
from hta_widgets.trace.loaders.kineto.format import KINETO
from hta_widgets.trace.loaders.nsys.format import NSYS
from hta_widgets.trace.loaders.overlap_recipe.format import OVERLAP_RECIPE
from hta_widgets.trace.model.formats import Format

FORMATS: Final[tuple[Format, ...]] = (KINETO, NSYS, OVERLAP_RECIPE, CUPTI_CSV)
