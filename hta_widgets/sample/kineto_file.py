"""The text that Kineto writes: header, one block of lines per event, footer."""

from __future__ import annotations

import gzip
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import IO, Protocol, TypeAlias

from hta_widgets.atomic_write import atomic_write
from hta_widgets.quantities import exact_microseconds

BASE_TIME_NS = 1_767_189_312_000_000_000
MARKER = '"producer": "hta_widgets sample"'

_FLUSH_AFTER = 4_096
_DEVICES_PER_HOST = 8
_FIRST_GPU_SORT_INDEX = 0x1000000
_SPANS_SORT_INDEX = 0x20000000
_DEVICE = """
    {{
      "id": {device}, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85024112640,
      "computeMajor": 9, "computeMinor": 0,
      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
      "regsPerBlock": 65536, "regsPerMultiprocessor": 65536, "warpSize": 32,
      "sharedMemPerBlock": 49152, "sharedMemPerMultiprocessor": 233472,
      "numSms": 132, "sharedMemPerBlockOptin": 232448
    }}"""


Row: TypeAlias = tuple[int, int]
"""Row in a trace viewer: process and thread, or device and stream."""
Span: TypeAlias = tuple[int, int]
"""Start and end in ns."""


class Section(Enum):
    """The parts of a trace, in the order in which Kineto writes them."""

    OPERATORS = "operators and annotations"
    MEMORY = "what the caching allocator did"
    PYTHON = "Python functions"
    ACTIVITIES = "CUDA calls, GPU work and GPU annotations"


class EventSink(Protocol):
    """Receives the text of the simulated events."""

    def write(self, section: Section, text: str, entries: int) -> None:
        """Take the text of events in a section; ``entries`` is their number."""


class EntryCounter:
    """An `EventSink` that only counts."""

    def __init__(self) -> None:
        self.entries = 0

    def write(self, section: Section, text: str, entries: int) -> None:  # noqa: ARG002
        """Count the events of all sections."""
        self.entries += entries


class _Texts:
    """A compressed file that is written in large pieces."""

    def __init__(self, file: IO[bytes], level: int) -> None:
        self.file = file
        self._compressed = _compressed(file, level)
        self._texts: list[str] = []

    def append(self, text: str) -> None:
        self._texts.append(text)
        if len(self._texts) >= _FLUSH_AFTER:
            self.flush()

    def flush(self) -> None:
        self._compressed.write("".join(self._texts).encode())
        self._texts.clear()

    def copy(self, spool: _Texts) -> None:
        """Append what a temporary file holds."""
        spool.close()
        spool.file.seek(0)
        with gzip.open(spool.file, "rb") as events:
            shutil.copyfileobj(events, self._compressed, 1 << 20)

    def close(self) -> None:
        self.flush()
        self._compressed.close()


class KinetoFile:
    """One trace file, written while the simulation runs.

    All sections but the first wait in compressed temporary files.
    """

    def __init__(self, file: IO[bytes], spools: Mapping[Section, IO[bytes]], header: str) -> None:
        self._file = _Texts(file, level=6)
        self._spools = {section: _Texts(spool, level=1) for section, spool in spools.items()}
        self._file.append(header)

    @classmethod
    @contextmanager
    def writing(cls, path: Path, header: str) -> Iterator[KinetoFile]:
        """Yield a trace to write and `finish`; the finished file appears at the path."""
        with ExitStack() as stack:
            file = stack.enter_context(stack.enter_context(atomic_write(path)).open("wb"))
            _, *later = Section
            spools = {section: stack.enter_context(tempfile.TemporaryFile()) for section in later}
            yield cls(file, spools, header)

    def write(self, section: Section, text: str, entries: int) -> None:  # noqa: ARG002
        """Append events to a section."""
        self._spools.get(section, self._file).append(text)

    def finish(self, footer: str) -> None:
        """Write the rest."""
        self._file.flush()
        for spool in self._spools.values():
            self._file.copy(spool)
        self._file.append(footer)
        self._file.close()


def is_sample_file(path: Path) -> bool:
    """Whether a file starts with what `header` writes."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return MARKER in file.read(8_192)
    except (OSError, EOFError, UnicodeDecodeError):
        return False


def complete_event(category: str, name: str, row: Row, span_ns: Span, args: str) -> str:
    """Write an event with a start and a duration."""
    (pid, tid), (start_ns, end_ns) = row, span_ns
    duration_ns = end_ns - start_ns
    return (
        f'\n  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", '
        f'"pid": {pid}, "tid": {tid},\n'
        f'    "ts": {exact_microseconds(start_ns)}, '
        f'"dur": {exact_microseconds(duration_ns)},\n'
        f'    "args": {{\n      {args}\n    }}\n  }},'
    )


def instant_event(category: str, name: str, row: Row, time_ns: int, args: str) -> str:
    """Write an event without a duration."""
    pid, tid = row
    return (
        f'\n  {{\n    "ph": "i", "cat": "{category}", "s": "t", "name": "{name}", '
        f'"pid": {pid}, "tid": {tid},\n    "ts": {exact_microseconds(time_ns)},\n'
        f'    "args": {{\n      {args}\n    }}\n  }},'
    )


def flow_event(phase: str, name: str, number: int, row: Row, time_ns: int) -> str:
    """Write one end of an arrow: phase ``s`` where it starts, ``f`` where it ends."""
    binding = ', "bp": "e"' if phase == "f" else ""
    pid, tid = row
    return (
        f'\n  {{\n    "ph": "{phase}", "id": {number}, "pid": {pid}, "tid": {tid}, '
        f'"ts": {exact_microseconds(time_ns)},\n'
        f'    "cat": "{name}", "name": "{name}"{binding}\n  }},'
    )


def header(
    rank: int,
    groups: Sequence[Mapping[str, object]],
    ranks: int,
    parameters: Mapping[str, object],
    flags: str,
) -> str:
    """Write everything up to the first event.

    The groups of this rank are written as PyTorch describes them; older versions do not. The
    parameters tell readers of the file how the job was made, and the flags what was recorded
    (`Recording.flags`).
    """
    distributed: dict[str, object] = {"backend": "nccl", "rank": rank, "world_size": ranks}
    if groups:
        distributed |= {
            "pg_count": len(groups),
            "pg_config": list(groups),
            "nccl_version": "2.27.3",
        }
    devices = ",".join(_DEVICE.format(device=device) for device in range(_DEVICES_PER_HOST))
    sample = f"{{{MARKER}, {json.dumps(parameters)[1:]}"
    return (
        f'\n{{\n  "schemaVersion": 1,\n  "deviceProperties": [{devices}\n  ],'
        '\n  "cupti_version": 26,'
        '\n  "cuda_runtime_version": 12080,'
        '\n  "cuda_driver_version": 12080,'
        f'\n  "distributedInfo": {json.dumps(distributed)},'
        f'\n  "sample": {sample},\n  {flags}'
        f'\n  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": {BASE_TIME_NS},'
        '\n  "traceEvents": ['
    )


def footer(
    pid: int, device: int, streams: Iterable[int], threads: dict[int, str], span_ns: tuple[int, int]
) -> str:
    """Write everything after the last event: names of rows, and the window of the recording."""
    start_ns, end_ns = span_ns
    rows = [_process_rows(pid, "python", "CPU", pid, start_ns)]
    rows += [
        _process_rows(index, "python", f"GPU {index}", _FIRST_GPU_SORT_INDEX + index, start_ns)
        for index in range(_DEVICES_PER_HOST)
    ]
    rows += [_thread_rows(device, stream, f"stream {stream} ", start_ns) for stream in streams]
    rows += [
        _thread_rows(pid, tid, f"thread {tid} ({name})", start_ns) for tid, name in threads.items()
    ]
    return "".join(rows) + _recording(start_ns, end_ns)


def _recording(start_ns: int, end_ns: int) -> str:
    start = exact_microseconds(start_ns)
    return (
        f'\n  {{\n    "ph": "X", "cat": "Trace", "ts": {start}, '
        f'"dur": {exact_microseconds(end_ns - start_ns)},\n'
        '    "pid": "Spans", "tid": "PyTorch Profiler",\n    "name": "PyTorch Profiler (0)",\n'
        '    "args": {\n      "Op count": 0\n    }\n  },'
        f'\n  {{\n    "name": "process_sort_index", "ph": "M", "ts": {start},\n'
        '    "pid": "Spans", "tid": 0,\n'
        f'    "args": {{\n      "sort_index": {_SPANS_SORT_INDEX}\n    }}\n  }},'
        '\n  {\n    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g",\n'
        f'    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {start}\n  }},'
        '\n  {\n    "name": "Record Window End", "ph": "i", "s": "g",\n'
        f'    "pid": "", "tid": "", "ts": {exact_microseconds(end_ns)}\n  }}\n  ],'
        '\n  "traceName": "/tmp/sample.json"\n}'
    )


def _process_rows(pid: int, name: str, label: str, sort_index: int, time_ns: int) -> str:
    return (
        _metadata("process_name", pid, 0, f'"name": "{name}"', time_ns)
        + _metadata("process_labels", pid, 0, f'"labels": "{label}"', time_ns)
        + _metadata("process_sort_index", pid, 0, f'"sort_index": {sort_index}', time_ns)
    )


def _thread_rows(pid: int, tid: int, name: str, time_ns: int) -> str:
    return _metadata("thread_name", pid, tid, f'"name": "{name}"', time_ns) + _metadata(
        "thread_sort_index", pid, tid, f'"sort_index": {tid}', time_ns
    )


def _metadata(kind: str, pid: int, tid: int, args: str, time_ns: int) -> str:
    return (
        f'\n  {{\n    "name": "{kind}", "ph": "M", "ts": {exact_microseconds(time_ns)}, '
        f'"pid": {pid}, "tid": {tid},\n    "args": {{\n      {args}\n    }}\n  }},'
    )


def _compressed(file: IO[bytes], level: int) -> gzip.GzipFile:
    """Compress without the name and time of the file, so that equal traces have equal bytes."""
    return gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=level, mtime=0)
