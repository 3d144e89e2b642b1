"""Launch calls of a rank by their API, and what each API launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from hta_widgets.analyses.launch_stats.launched_work import launched_work
from hta_widgets.grouping import grouped, reduce_runs
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.ranks.rank import Rank


def by_api(of_rank: Rank, *, include_memory: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Tables `LaunchStats.apis` and `LaunchStats.launched` of one rank."""
    rank, work = of_rank.trace.rank, launched_work(of_rank, include_memory_events=include_memory)
    texts, names, calls = work.events.name.values, work.call_names, work.calls
    by_type = grouped(names, work.kernel_type)
    apis_of_types = names[by_type.first]
    launched = {
        "launch_api": apis_of_types,
        "kernel_type": [KernelType(code).name for code in work.kernel_type[by_type.first].tolist()],
        "operations": by_type.sizes,
        "gpu_duration_ns": by_type.reduce(np.add, work.gpu_duration_ns),
    }
    first_type = np.flatnonzero(np.diff(apis_of_types, prepend=-1))
    by_api = grouped(names[calls.first])
    call_ns, delay_ns = work.each_call_ns, calls.delay_ns
    apis = {
        "launch_api": apis_of_types[first_type],
        "calls": by_api.sizes,
        "operations": reduce_runs(np.add, by_type.sizes, first_type),
        "mean_cpu_duration_ns": by_api.reduce(np.add, call_ns) / by_api.sizes,
        "max_cpu_duration_ns": by_api.reduce(np.maximum, call_ns),
        "median_launch_delay_ns": [float(np.median(delay_ns[each])) for each in by_api.parts],
    }
    return _named(rank, texts, apis), _named(rank, texts, launched)


def _named(rank: int, names: Sequence[str], columns: Mapping[str, Any]) -> pd.DataFrame:
    """Table of APIs by name, with the rank in front, most operations first."""
    apis = [names[code] for code in columns["launch_api"].tolist()]
    ranks = np.full(len(apis), rank, dtype=np.int64)
    table = pd.DataFrame({"rank": ranks, **columns, "launch_api": apis})
    order = ["operations", "launch_api"]
    return table.sort_values(order, ascending=[False, True], ignore_index=True, kind="stable")
