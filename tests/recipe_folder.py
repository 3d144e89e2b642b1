"""Folders as the overlap recipe of Nsight Systems writes them, with slow ranks planted in them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CYCLE = ("Compute", "Overlap", "Communicate", "Empty")
USUAL_NS = {"Compute": 500_000, "Overlap": 150_000, "Communicate": 250_000, "Empty": 50_000}
SLOW_RANKS = (5, 77, 300)
SLOW_NODE = 20
RANKS_PER_NODE = 8
SESSION_NS = 3_000_000_000
"""When the first rank starts, on the clock that the recipe gives all ranks."""


def write_recipe_folder(
    folder: Path,
    ranks: int = 512,
    segments: int = 200,
    *,
    slow_ranks: Iterable[int] = SLOW_RANKS,
    slow_node: int = SLOW_NODE,
) -> dict[int, Path]:
    """Write ``files.parquet`` and one ``type_*.parquet`` per rank.

    Every rank starts within 100 µs and spends about the same time on each type, give or take 5 %.
    Slow ranks compute 40 % longer and wait so much less for the others; ranks of the slow node
    compute 12 % longer. Names are sorted as text, in which rank 10 comes before rank 2.

    Returns
    -------
    dict of rank to Path
        The files, by rank.
    """
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    stems = {}
    for rank in range(ranks):
        node = rank // RANKS_PER_NODE
        slower = 1.4 if rank in set(slow_ranks) else 1.12 if node == slow_node else 1.0
        stems[rank] = f"profile_4086675_node{node}_rank{rank}"
        write_segments(type_file(folder, stems[rank]), _segments(generator, segments, slower))
    write_files(folder, sorted(stems.values()))
    return {rank: type_file(folder, stem) for rank, stem in stems.items()}


def write_files(folder: Path, stems: Iterable[str]) -> None:
    pq.write_table(pa.table({"File": list(stems)}), folder / "files.parquet")


def write_segments(path: Path, segments: Iterable[tuple[int, int, str]]) -> Path:
    """Write ``(start, end, type)``, in ns."""
    start, end, kind = zip(*segments, strict=True)
    columns = {"start": start, "end": end, "OverlapType": kind}
    columns["duration"] = [last - first for first, last in zip(start, end, strict=True)]
    pq.write_table(pa.table(columns), path)
    return path


def type_file(folder: Path, stem: str) -> Path:
    return folder / f"type_{stem}.parquet"


def _segments(
    generator: np.random.Generator, count: int, slower: float
) -> list[tuple[int, int, str]]:
    """Segments without holes between them, of which the first and the last are not empty."""
    kinds = [CYCLE[i % len(CYCLE)] for i in range(count)]
    if kinds[-1] == "Empty":
        kinds[-1] = "Compute"
    usual = np.array([USUAL_NS[kind] for kind in kinds])
    extra = usual * (slower - 1) * (np.array(kinds) == "Compute")
    less = USUAL_NS["Compute"] * (slower - 1) * (np.array(kinds) == "Communicate")
    lengths = (usual * generator.uniform(0.95, 1.05, count) + extra - less).astype(np.int64)
    edges = SESSION_NS + int(generator.integers(100_000)) + np.concatenate([[0], lengths.cumsum()])
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), kinds, strict=True))
