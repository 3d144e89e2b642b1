"""Read where the CPU was from an Nsight Systems export, which samples it unless told otherwise."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from hta_widgets.arrays import Int64Array
from hta_widgets.grouping import grouped
from hta_widgets.names.shorten import plain_name
from hta_widgets.trace.loaders.columns import ColumnBlock
from hta_widgets.trace.loaders.nsys.events import FARTHEST_NS, processes_of, threads_of
from hta_widgets.trace.loaders.nsys.tables import ALLOWED, SAMPLES, STACKS, NsysTables
from hta_widgets.trace.model.events import NO_FIELDS, SideTable, TextColumn

MOST_FRAMES: Final = 1_000_000
"""Frames of stacks above which no samples are read: these take 3 s."""

_LIBRARY: Final = re.compile(r"\.so(?:\.|$)|^\[|^python|\.dll$", re.IGNORECASE)
_OF_SYSTEM: Final = re.compile(
    r"^(?:\[|ld-|python|lib(?:c|m|pthread|dl|rt|gcc_s|stdc\+\+|cuda|cudart|nvidia-|python)\b)",
    re.IGNORECASE,
)
"""Modules of the operating system, the driver and the interpreter: what the program does in them
says less than which of its functions called them."""

_OF_LANGUAGE: Final = re.compile(r"(?:^|[\s*&])(?:std|__gnu_cxx)::")
"""Functions that a compiler put into the program, such as ``float std::generate_canonical<…>(…)``:
of a benchmark that filled a matrix, they had 11,500 of 12,100 samples, and what called them 600."""

_QUALIFIERS: Final = re.compile(
    r"(?<=\))(?: const| volatile| noexcept| &{1,2}| \[clone \S{1,40}\])+\Z"
)
"""What follows the signature of some functions: ``Results::print(int) const``."""

_OF_TOOLS: Final = re.compile(
    r"^(?:0x|__cudart|libcudart_static|cudaError cuda|NSYS_|_?Py[A-Z_]|\[|_start$|_init$|$)"
)
"""Functions of CUDA, the recorder and the interpreter, and addresses without a name."""

_OWN, _OF_OTHERS, _BY_COMPILER, _NAMELESS = range(4)


def read_samples(tables: NsysTables, process: int | None, first_ns: int) -> SideTable:
    """The table of `DetailGroup.CPU_SAMPLES`; the trace begins at `first_ns` of the session."""
    if not tables.size(SAMPLES) or tables.size(STACKS) > MOST_FRAMES:
        return NO_FIELDS
    samples, frames = _whole(tables, SAMPLES, process), _whole(tables, STACKS, None)
    if not samples or not frames:
        return NO_FIELDS
    order = np.argsort(samples["start"], kind="stable")
    start_ns = samples["start"][order]
    order = order[(start_ns >= 0) & (start_ns < FARTHEST_NS)]  # of the session; no time is less
    samples = {name: column[order] for name, column in samples.items()}
    codes, names = _functions(tables, samples["id"], frames)
    return SideTable(
        np.full(codes.size, -1, dtype=np.int64),
        {
            "time_ns": samples["start"] - first_ns,
            "pid": processes_of(samples["globalTid"]),
            "tid": threads_of(samples["globalTid"]),
            "function": TextColumn(codes.astype(np.int32), names),
        },
    )


def _whole(tables: NsysTables, table: str, process: int | None) -> ColumnBlock:
    blocks = [*tables.chunks(table, process, wanted=ALLOWED[table])]
    names = ALLOWED[table] if blocks else ()
    return {name: np.concatenate([block[name] for block in blocks]) for name in names}


def _functions(
    tables: NsysTables, ids: Int64Array, frames: ColumnBlock
) -> tuple[Int64Array, tuple[str, ...]]:
    """The function of each sample, as codes of names."""
    kinds = grouped(frames["symbol"], frames["module"])
    symbols, modules = (frames[name][kinds.first].tolist() for name in ("symbol", "module"))
    texts = tables.strings({*symbols, *modules})
    names = [plain_name(_QUALIFIERS.sub("", texts.get(symbol, ""))) for symbol in symbols]
    classes = [
        _class_of(name, texts.get(module, "")) for name, module in zip(names, modules, strict=True)
    ]
    of_frame = np.array(classes, dtype=np.int64)[kinds.of_rows]
    of_frame[frames["unresolved"] == 1] = _NAMELESS
    order = np.lexsort((frames["stackDepth"], of_frame, frames["id"]))
    known, first = np.unique(frames["id"][order], return_index=True)
    at = np.minimum(np.searchsorted(known, ids), known.size - 1)
    chosen = order[first[at]]
    is_named = (known[at] == ids) & (of_frame[chosen] != _NAMELESS)
    distinct_names = tuple(dict.fromkeys(("", *names)))
    numbers = {name: number for number, name in enumerate(distinct_names)}
    of_kind = np.array([numbers[name] for name in names], dtype=np.int64)
    return np.where(is_named, of_kind[kinds.of_rows[chosen]], 0), distinct_names


def _class_of(name: str, path: str) -> int:
    """Whose a function is: what says most about the program comes first."""
    module = re.split(r"[/\\]", path)[-1]
    if _OF_TOOLS.search(name) or _OF_SYSTEM.search(module):
        return _NAMELESS
    if _OF_LANGUAGE.search(name):
        return _BY_COMPILER
    return _OF_OTHERS if _LIBRARY.search(module) else _OWN
