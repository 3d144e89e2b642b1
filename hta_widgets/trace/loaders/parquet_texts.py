"""Texts of Parquet files: each is read once, however often it occurs, and their size is bounded."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hta_widgets.lazy_modules import pa, pq
from hta_widgets.trace.loaders.decompression_limit import most_unpacked_bytes


@contextmanager
def opened_parquet(path: Path, texts: Collection[str]) -> Iterator[pq.ParquetFile]:
    """Open a file; its columns with these names, if they are texts, become dictionaries."""
    with pq.ParquetFile(path) as file:
        metadata, schema = file.metadata, file.schema_arrow
    found = [each.name for each in schema if each.name in texts and is_text(each.type)]
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=found) as file:
        yield file


class TextBudget:
    """Amount of text that a Parquet file may hold, counting every occurrence."""

    def __init__(self, path: Path) -> None:
        self._packed_bytes = path.stat().st_size
        self._left = most_unpacked_bytes(self._packed_bytes)

    def spend(self, values: pa.Array) -> None:
        """Count the texts of a column.

        Raises `ValueError` if there are more than a file of its size may hold.
        """
        if not (pa.types.is_dictionary(values.type) and is_text(values.type.value_type)):
            return
        texts = values.dictionary.cast(pa.large_binary())
        edges = np.frombuffer(texts.buffers()[1], np.int64, len(texts) + 1, 8 * texts.offset)
        codes = values.indices.drop_null().to_numpy()
        self._left -= int(np.diff(edges)[codes].sum())
        if self._left < 0:
            msg = f"its {self._packed_bytes:,} bytes hold more text than a trace of that size can"
            raise ValueError(msg)


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
