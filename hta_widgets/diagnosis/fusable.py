"""Kernels that one kernel could replace: chains of elementwise ones, and unfused attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from hta_widgets.arrays import Int64Array
from hta_widgets.diagnosis.limits import Limits
from hta_widgets.diagnosis.rank_answers import answers_of_all
from hta_widgets.names.readable import readable_name
from hta_widgets.names.shorten import kernel_word
from hta_widgets.quantities import NS_PER_MS
from hta_widgets.trace.job import Job

_WORDS: Final = 6
"""Kernels of a chain that are named."""

_COLUMNS: Final = ["kernels", "first_kernel", "count", "total_ms", "saved_ms"]


def fusable_kernels(job: Job, ranks: Sequence[int] = ()) -> pd.DataFrame:
    """List the kernels of some ranks, all when not given, that one kernel could replace.

    A row for the chains of the same elementwise kernels, and for each size of the scores of unfused
    attention, those that fusing shortens most first: ``kernels`` (in words), ``first_kernel``
    (empty of attention), ``count`` (how often they run), ``total_ms`` and ``saved_ms``, how much
    less fused ones would take: means of the ranks in one step, or without steps in the recording.
    Fused attention saves at least what is no product.
    """
    of_rank = job.remember(answers_of_all, Limits().trials).facts
    facts = [of_rank[rank].compute for rank in job.select_ranks(ranks)]
    steps = max(sum(each.step.size for each in facts), 1)
    found: dict[tuple[str, str], Int64Array] = {}

    def add(words: str, first: str, *values: int) -> None:
        found[words, first] = found.get((words, first), 0) + np.array(values, dtype=np.int64)

    for each in facts:
        for row in each.chains:
            words = in_words(row.names, row.kernels)
            add(words, row.names[0], row.times, row.total_ns, row.saved_ns)
        for scores, times, products_ns, others_ns in each.attention.rows:
            words = f"bmm → softmax → bmm, {scores.queries:,} queries × {scores.keys:,} keys"
            add(words, "", times, products_ns + others_ns, others_ns)
    rows = [
        (*key, times / steps, total_ns / steps / NS_PER_MS, saved_ns / steps / NS_PER_MS)
        for key, (times, total_ns, saved_ns) in found.items()
    ]
    table = pd.DataFrame(rows, columns=_COLUMNS)
    return table.sort_values("saved_ms", ascending=False, kind="stable", ignore_index=True)


def in_words(names: Sequence[str], kernels: int) -> str:
    """A chain of kernels in words.

    Examples
    --------
    >>> in_words(["add_bias", "gelu"], 3)
    'add_bias → gelu (3 kernels)'
    """
    words = []
    for name in names[:_WORDS]:
        does = readable_name(name).partition(" · ")[0].removeprefix("elementwise ")
        words.append(does or kernel_word(name))
    more = " → …" if len(names) > _WORDS else ""
    return f"{' → '.join(words)}{more} ({kernels:,} kernels)"
