"""How the work of a job is laid out over its ranks."""

from __future__ import annotations

from typing import Final

from hta_widgets.sample.layouts.data_parallel import DataParallel
from hta_widgets.sample.layouts.decode import Decode
from hta_widgets.sample.layouts.experts import Experts
from hta_widgets.sample.layouts.pipeline import Pipeline
from hta_widgets.sample.layouts.sharded import Sharded
from hta_widgets.sample.plan import Layout
from hta_widgets.sample.worker import Worker

WORKERS: Final[dict[Layout, type[Worker]]] = {
    "data_parallel": DataParallel,
    "sharded": Sharded,
    "pipeline": Pipeline,
    "experts": Experts,
    "decode": Decode,
}
"""What a rank does, by layout."""

__all__ = ["WORKERS"]
