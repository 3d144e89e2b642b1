"""Baselines: files that keep the summary of a job, to compare later jobs with it.

A baseline is an uncompressed Arrow stream: one row for each row of `Summary.spent`, and everything
else as JSON in the metadata of the schema. A file may come from anybody, so it is read only up to a
size, nothing in it is decompressed or run, and whatever differs from what is written is refused.
"""

from __future__ import annotations

import json
import math
import re
import struct
from os import PathLike
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

from hta_widgets.analyses.budget.classes import CLASS_OF
from hta_widgets.atomic_write import atomic_write
from hta_widgets.diagnosis.change.summary import COLUMNS, Summary
from hta_widgets.diagnosis.change.time_spent import KEYS, LONGEST_NAME
from hta_widgets.diagnosis.change.work_done import WORK, Amounts
from hta_widgets.errors import HtaWidgetsError, write_errors

SCHEMA_VERSION: Final = 2
"""Increased whenever an earlier version could not read the files written now."""

SUFFIX: Final = ".arrow"
FOLDER: Final = Path("hta_widgets_baselines")
"""Where named baselines are kept, relative to where a command runs, so that they can be committed
with a program."""

LARGEST_FILE: Final = 2_000_000
"""Most bytes of a file to read; files written here have some 100 kB."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_METADATA: Final = b"hta_widgets.baseline"
_TEXT: Final = pa.dictionary(pa.int32(), pa.string())
_SCHEMA: Final = pa.schema(
    [*(pa.field(name, _TEXT) for name in KEYS), ("count", pa.int64()), ("time_ns", pa.int64())]
)
_STEP_COLUMNS: Final = ("step", "job_ns", "period_ns", *COLUMNS)
_KERNEL_COLUMNS: Final = ("step", "count", "total_ns")
_RECORDED: Final = ("kernels", "host_code", "frames", "memory", "collectives")
_MOST_NS: Final = 2**55
"""Longest time in a file, more than a year: sums of all times that fit in it stay exact."""


class BaselineError(HtaWidgetsError):
    """A baseline cannot be found, read or written."""


def baseline_file(name: str, folder: Path = FOLDER) -> Path:
    """File of a baseline: by its name in a folder, or by a path that ends in ``.arrow``.

    Raises
    ------
    BaselineError
        If ``name`` is neither.
    """
    if name.endswith(SUFFIX):
        return Path(name)
    if not _NAME.fullmatch(name):
        msg = (
            f"{name[:80]!r} is not a baseline name: use letters, digits, dots and dashes, or the "
            f"path of a file that ends in {SUFFIX}"
        )
        raise BaselineError(msg)
    return folder / f"{name}{SUFFIX}"


def baselines(folder: Path = FOLDER) -> tuple[str, ...]:
    """Names of the baselines in a folder."""
    return tuple(sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}")))


def write_baseline(summary: Summary, path: str | PathLike[str]) -> int:
    """Write a baseline, replacing an earlier one, and return its size in bytes."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "name": summary.name,
        "environment": summary.environment,
        "steps": {name: summary.steps[name].tolist() for name in _STEP_COLUMNS},
        "kernels": {
            str(kernel): {name: own[name].tolist() for name in _KERNEL_COLUMNS}
            for kernel, own in summary.kernels.groupby("kernel")
        },
        "labels": summary.labels,
        "findings": [*summary.findings],
        "status": summary.status,
        "doubts": [*summary.doubts],
        "left_out": [*summary.left_out],
        "lacks": [*summary.lacks],
        "memory_bytes": summary.memory_bytes,
        "work": summary.work,
        "cpu_step_ns": summary.cpu_step_ns,
        "unprofiled_step_ns": summary.unprofiled_step_ns,
        "recordings": [*summary.recordings],
    }
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    columns = [
        *(pa.array(summary.spent[name].tolist(), pa.string()).dictionary_encode() for name in KEYS),
        pa.array(summary.spent["count"].to_numpy(), pa.int64()),
        pa.array(summary.spent["time_ns"].to_numpy(), pa.int64()),
    ]
    schema = _SCHEMA.with_metadata({_METADATA: text.encode()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_table(pa.Table.from_arrays(columns, schema=schema))
    target = Path(path)
    with write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(target) as partial:
            partial.write_bytes(sink.getvalue().to_pybytes())
    return int(sink.getvalue().size)


def read_baseline(name: str, folder: Path = FOLDER) -> Summary:
    """Read a baseline by its name or path, as `baseline_file` takes it.

    Raises
    ------
    BaselineError
        If there is none, or this version cannot read the file as a baseline.
    """
    path = baseline_file(name, folder)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        known = ", ".join(baselines(path.parent)[:20]) or "none"
        msg = (
            f"there is no baseline {path} ({error.strerror}); those in {path.parent} are: {known}. "
            "hta-widgets baseline save NAME PATH writes one"
        )
        raise BaselineError(msg) from error
    return parsed_baseline(data, str(path))


def parsed_baseline(data: bytes, name: str) -> Summary:
    """Read the contents of a file; errors call the file `name`.

    Raises
    ------
    BaselineError
        If this version cannot read them as a baseline.
    """
    if len(data) > LARGEST_FILE:
        msg = f"{name} has more than {LARGEST_FILE:,} bytes and is no baseline"
        raise BaselineError(msg)
    try:
        return _parsed(data)
    except _WRONG as error:
        msg = f"{name} is no baseline, or is damaged: {error}; save it again"
        raise BaselineError(msg) from error


_WRONG: Final = (
    *(pa.ArrowException, ValueError, KeyError, TypeError, AttributeError, IndexError),
    *(OverflowError, RecursionError, MemoryError, struct.error, OSError),
)
"""Errors that reading a malformed file raises."""


def _parsed(data: bytes) -> Summary:
    buffer = pa.py_buffer(data)
    _require_plain(buffer)
    table = pa.ipc.open_stream(buffer).read_all()
    text = (table.schema.metadata or {}).get(_METADATA, b"")
    _require(bool(text), "it has no metadata of hta_widgets")
    document = json.loads(text)
    version = document["schema_version"]
    _require(
        version == SCHEMA_VERSION,
        f"it has version {str(version)[:20]}, but this hta_widgets reads {SCHEMA_VERSION}",
    )
    _require(table.schema.equals(_SCHEMA), "its columns are different")
    table.validate(full=True)
    columns = {name: table.column(name).cast(pa.string()).to_pylist() for name in KEYS}
    numbers = {name: _whole(table.column(name).to_pylist()) for name in ("count", "time_ns")}
    for texts in columns.values():
        _texts(texts)
    _require({*columns["part"]} <= {*CLASS_OF}, "it has parts of a step that are not known")
    found = Summary(
        name=_text(document["name"]),
        environment=_environment(document["environment"]),
        steps=_table(document["steps"], _STEP_COLUMNS),
        spent=pd.DataFrame(
            {name: pd.Series(each, dtype=object) for name, each in columns.items()}
        ).assign(**{name: np.array(each, dtype=np.int64) for name, each in numbers.items()}),
        kernels=_kernel_table(document["kernels"]),
        labels=dict(zip(*map(_texts, _pairs(document["labels"])), strict=True)),
        findings=tuple(map(_finding, _list(document["findings"]))),
        status=_text(document["status"]),
        doubts=tuple(_texts(document["doubts"])),
        left_out=tuple(_whole(document["left_out"])),
        lacks=tuple(_texts(document["lacks"])),
        memory_bytes=_whole([document["memory_bytes"]])[0],
        work=_work(document["work"]),
        cpu_step_ns=_whole([document.get("cpu_step_ns", 0)])[0],
        unprofiled_step_ns=_whole([document.get("unprofiled_step_ns", 0)])[0],
        recordings=tuple(_whole(document["recordings"])),
    )
    counts = found.recordings or (len(found.steps),)
    _require(min(counts) >= 0 and sum(counts) == len(found.steps), "its recordings do not add up")
    whole = int(found.steps["period_ns"].sum())
    _require(int(found.spent["time_ns"].sum()) == whole, "its times do not add up")
    return found


def _require_plain(buffer: pa.Buffer) -> None:
    """Refuse compression: a small file could ask for any amount of memory."""
    messages = pa.ipc.MessageReader.open_stream(buffer)
    while True:
        try:
            message = messages.read_next_message()
        except StopIteration:
            return
        _require(not _is_compressed(message.metadata.to_pybytes()), "it is compressed")


_RECORD_BATCH, _DICTIONARY_BATCH = 3, 2


def _is_compressed(message: bytes) -> bool:
    """Whether the flatbuffer of a message declares that its body is compressed."""
    table = struct.unpack_from("<I", message, 0)[0]
    kind_at, header_at = _field(message, table, 1), _field(message, table, 2)
    if not kind_at or not header_at or message[kind_at] not in (_RECORD_BATCH, _DICTIONARY_BATCH):
        return False
    batch = _followed(message, header_at)
    if message[kind_at] == _DICTIONARY_BATCH:
        data_at = _field(message, batch, 1)
        if not data_at:
            return False
        batch = _followed(message, data_at)
    return bool(_field(message, batch, 3))


def _field(message: bytes, table: int, number: int) -> int:
    """Position of a field in a table of a flatbuffer, 0 if it is missing."""
    vtable = table - struct.unpack_from("<i", message, table)[0]
    entry = 4 + 2 * number
    if entry >= struct.unpack_from("<H", message, vtable)[0]:
        return 0
    offset = struct.unpack_from("<H", message, vtable + entry)[0]
    return int(table + offset) if offset else 0


def _followed(message: bytes, position: int) -> int:
    return int(position + struct.unpack_from("<I", message, position)[0])


def _require(holds: bool, why: str) -> None:  # noqa: FBT001
    if not holds:
        raise ValueError(why)


def _list(value: object) -> list[Any]:
    _require(isinstance(value, list), "a list is expected")
    return value  # type: ignore[return-value]


def _pairs(value: object) -> tuple[list[Any], list[Any]]:
    _require(isinstance(value, dict), "names with values are expected")
    return [*value], [*value.values()]  # type: ignore[misc, attr-defined]


def _text(value: object) -> str:
    _require(isinstance(value, str) and len(value) <= _LONGEST_TEXT, "a short text is expected")
    return str(value)


_LONGEST_TEXT: Final = 4 * LONGEST_NAME


def _texts(values: object) -> list[str]:
    return [_text(each) for each in _list(values)]


def _whole(values: object) -> list[int]:
    for each in _list(values):
        fits = isinstance(each, int) and not isinstance(each, bool) and abs(each) < _MOST_NS
        _require(fits, "a whole number is expected")
    return values  # type: ignore[return-value]


def _number(value: object) -> float:
    fits = isinstance(value, int | float) and math.isfinite(value)
    _require(fits, "a number is expected")
    return float(value)  # type: ignore[arg-type]


def _table(value: Any, names: tuple[str, ...]) -> pd.DataFrame:  # noqa: ANN401
    return pd.DataFrame({name: np.array(_whole(value[name]), dtype=np.int64) for name in names})


def _kernel_table(value: object) -> pd.DataFrame:
    names, tables = _pairs(value)
    parts = [
        _table(each, _KERNEL_COLUMNS).assign(kernel=name)
        for name, each in zip(_texts(names), tables, strict=True)
    ]
    empty = pd.DataFrame({name: np.zeros(0, dtype=np.int64) for name in _KERNEL_COLUMNS})
    table = pd.concat(parts, ignore_index=True) if parts else empty.assign(kernel="")
    return table[["kernel", *_KERNEL_COLUMNS]]


def _environment(value: Any) -> dict[str, Any]:  # noqa: ANN401
    recorded = value["recorded"]
    versions = _pairs(value["versions"])
    return {
        "world_size": _whole([value["world_size"]])[0],
        "ranks": _whole(value["ranks"]),
        "gpus": _texts(value["gpus"]),
        "steps_marked": value["steps_marked"] is True,
        "versions": dict(zip(*map(_texts, versions), strict=True)),
        "recorded": {name: recorded[name] is True for name in _RECORDED},
        "hta_widgets": _text(value["hta_widgets"]),
    }


def _work(value: object) -> Amounts:
    names, amounts = _pairs(value)
    _require({*names} <= {*WORK}, "it counts work that is not known")
    return dict(zip(_texts(names), _whole(amounts), strict=True))


def _finding(value: Any) -> dict[str, Any]:  # noqa: ANN401
    texts = ("cause", "bound", "sentence", "confidence")
    return {
        **{name: _text(value[name]) for name in texts},
        "ranks": _whole(value["ranks"]),
        **{name: _number(value[name]) for name in ("recoverable_ms", "percent")},
    }
