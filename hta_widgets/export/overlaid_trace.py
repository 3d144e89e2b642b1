"""Mark kernel sequences in a copy of the trace, so that the search of a trace viewer finds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from hta_widgets.analyses.kernel_sequences import NO_PATTERN, KernelSequences, pattern_of_events
from hta_widgets.arrays import Int64Array
from hta_widgets.errors import ParameterError
from hta_widgets.export.extended_trace import (
    add_argument,
    atomic_open,
    closing,
    existing_folder,
    name_of_copy,
    require_no_trace,
    rewritten,
)
from hta_widgets.names.shorten import cut_in_the_middle
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.kineto.decode import Fields
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.model.events import Events, Kind
from hta_widgets.trace.remote.urls import PathLike

PREFIX = "overlaid_"
PATTERNS = "Patterns"
"""Argument of marked events, and the word to search for in a trace viewer."""

NAMES_KEY = "hta_widgets_names"
"""Key of the names that numbers replace, in a trace without a profiler span."""

LONGEST_PATTERN = 2_000
"""Maximum number of characters of a pattern in each of its events."""

_WITHOUT_DURATION = (Kind.COUNTER, Kind.INSTANT)
_COMPLETE = b'"X"'
_SPANS = b'"Spans"'
_PROFILER = "PyTorch Profiler"

_encode = msgspec.json.encode


def write_overlaid_trace(
    job: Job,
    result: KernelSequences,
    output_dir: PathLike,
    *,
    top_k: int = 5,
    compress_other_kernels: bool = True,
) -> Path:
    """Write ``overlaid_<name of the trace>``, in which the events of the top patterns are marked.

    The operator, all calls inside it and the GPU work that they launch get an argument
    ``Patterns: {pattern: count}``; a pattern longer than 2,000 characters is cut in the middle.
    The copy is gzipped if the original is compressed; the original is never overwritten.
    `open_trace` leaves copies out of a folder that has originals.

    Parameters
    ----------
    job : Job
    result : KernelSequences
        The sequences of this job.
    output_dir : path
        An existing folder.
    top_k : int
        Number of patterns, the most frequent first.
    compress_other_kernels : bool
        Keep the copy small: all other complete events lose their arguments, and numbers replace
        their names. The profiler's own event lists numbers and names as its arguments; without
        such an event, the list is at the end, under the key ``hta_widgets_names``.

    Returns
    -------
    Path
        The file written; an older one of that name is replaced.

    Raises
    ------
    ParameterError
        If the folder is not writable, `top_k` is less than 1, there are no patterns, or the copy
        would replace a trace of this job.
    WriteError
        If the system refuses to write the copy.
    TraceFormatError
        If the trace of the rank is not a Kineto trace.
    """
    source = job.sources[result.rank].kineto_file
    target = existing_folder(output_dir) / f"{PREFIX}{name_of_copy(source.name)}"
    _check(result, top_k)
    require_no_trace(job, target)
    overlay = _Overlay.of(job, result, top_k, compress=compress_other_kernels)
    with atomic_open(target, compressed_like=source) as out:
        for part in overlay.parts(EventText(source)):
            out.write(part)
    return target


def _check(result: KernelSequences, top_k: int) -> None:
    if top_k < 1:
        msg = f"top_k must be 1 or more, got {top_k}"
        raise ParameterError(msg)
    if result.patterns.empty:
        msg = f"there is no pattern to mark: {result.finding}"
        raise ParameterError(msg)


class _Overlay:
    """Rewrites each event: marked, compressed or unchanged.

    `patterns` has the JSON of the argument for the events of each pattern, `by_index` the pattern
    of each event by its position in the file, -1 for none. `numbers` replace the names of events
    without a pattern; without `numbers`, these events keep name and arguments.
    """

    def __init__(
        self,
        patterns: Sequence[bytes],
        by_index: Int64Array,
        numbers: Mapping[str, int] | None,
    ) -> None:
        self._patterns = [msgspec.Raw(pattern) for pattern in patterns]
        self._by_index = by_index
        self._numbers = numbers
        self._seen_names: dict[bytes, msgspec.Raw] = {}
        self._names_said = False

    @classmethod
    def of(cls, job: Job, result: KernelSequences, top_k: int, *, compress: bool) -> _Overlay:
        events = job.rank(result.rank).trace.events
        belongs = pattern_of_events(job, result, top_k)
        by_index = np.full(int(events.index.max(initial=-1)) + 1, NO_PATTERN, dtype=np.int64)
        by_index[events.index] = belongs
        top = result.patterns.head(top_k)
        texts = [cut_in_the_middle(pattern, LONGEST_PATTERN) for pattern in top["pattern"]]
        patterns = [
            _encode({text: count}) for text, count in zip(texts, top["count"].tolist(), strict=True)
        ]
        return cls(patterns, by_index, _numbers(events, belongs) if compress else None)

    def parts(self, text: EventText) -> Iterator[bytes]:
        """Text of the copy, piece by piece."""
        yield from rewritten(text, self._change)
        yield self._closed(closing(text).lstrip())

    def _change(self, position: int, event: Fields) -> bool:
        known = position < self._by_index.size
        pattern = int(self._by_index[position]) if known else NO_PATTERN
        if pattern != NO_PATTERN:
            add_argument(event, PATTERNS, self._patterns[pattern])
        elif self._numbers is not None and bytes(event.get("ph", b"")) == _COMPLETE:
            self._compress(event, self._numbers)
        return True

    def _compress(self, event: Fields, numbers: Mapping[str, int]) -> None:
        if self._is_profiler(event):
            event["args"] = msgspec.Raw(_encode(_by_number(numbers)))
            self._names_said = True
            return
        event.pop("args", None)
        if "name" in event:
            event["name"] = self._number(bytes(event["name"]), numbers)

    def _number(self, name: bytes, numbers: Mapping[str, int]) -> msgspec.Raw:
        """JSON of the number of a name, or of the name itself if it has none."""
        if name not in self._seen_names:
            number = numbers.get(_text(name))
            self._seen_names[name] = msgspec.Raw(name if number is None else b'"%d"' % number)
        return self._seen_names[name]

    def _is_profiler(self, event: Fields) -> bool:
        is_span = bytes(event.get("pid", b"")) == _SPANS
        return is_span and _PROFILER in _text(bytes(event.get("name", b'""')))

    def _closed(self, ending: bytes) -> bytes:
        """End of the file, with the names unless an event has them."""
        if self._numbers is None or self._names_said:
            return b"\n" + ending
        names = b'],\n"%s": %s' % (NAMES_KEY.encode(), _encode(_by_number(self._numbers)))
        return b"\n" + names + ending.removeprefix(b"]")


def _numbers(events: Events, belongs: Int64Array) -> dict[str, int]:
    """Number the names of all events that have a duration but no pattern."""
    others = (belongs == NO_PATTERN) & ~np.isin(events.kind, _WITHOUT_DURATION)
    codes = np.unique(events.name.codes[others]).tolist()
    return {events.name.values[code]: code for code in codes}


def _by_number(numbers: Mapping[str, int]) -> dict[str, str]:
    return {str(number): name for name, number in numbers.items()}


def _text(value: bytes) -> str:
    """Text of a JSON string; any other JSON unchanged."""
    decoded = msgspec.json.decode(value)
    return decoded if isinstance(decoded, str) else value.decode()
