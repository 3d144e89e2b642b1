"""Read a CSV file block by block, in constant memory, into typed columns."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hta_widgets.arrays import Int64Array, Mask
from hta_widgets.errors import TraceFormatError
from hta_widgets.intervals import Times
from hta_widgets.lazy_modules import pa, pacsv, pc
from hta_widgets.names.shorten import cut_in_the_middle
from hta_widgets.trace.loaders.columns import integers
from hta_widgets.trace.loaders.timestamps import UNREADABLE, decimal_text_to_ns

BLOCK_BYTES = 4 * 2**20
"""Also the maximum length of a row."""

_HEADER_BYTES = 2**16
_REASON_WIDTH = 200
_DIGITS = 38


_IN_FULL = r"\.[28]0"
"""Fractions .20 and .80, which are rounded only if they are printed with a single digit."""

_EARLIEST_NS, _LATEST_NS, _LONGEST_NS = -(2**61), 2**62, 2**60


class CsvTable:
    """A CSV file with a header; quotes, a byte order mark and any line ends are accepted.

    `columns` are in lower case; none if the header is unreadable. `malformed` are the rows so far
    with a different number of columns, which are left out.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns = _header(path)
        self.malformed = 0

    def blocks(
        self, names: Iterable[str], on_read: Callable[[int], object] | None = None
    ) -> Iterator[dict[str, pa.Array]]:
        """Yield those of the named columns that exist, block by block, as bytes.

        Raises `TraceFormatError` if the file cannot be read.
        """
        positions = {name: str(self.columns.index(name)) for name in names if name in self.columns}
        try:
            with self.path.open("rb", buffering=0) as opened:
                file = _ValidText(opened)
                reader = self._reader(file, list(positions.values()))
                reached = rows = 0
                for batch in reader:
                    block = batch.slice(1) if rows == 0 else batch
                    rows += batch.num_rows
                    yield {name: block.column(at) for name, at in positions.items()}
                    before, reached = reached, file.bytes_read
                    if on_read:
                        on_read(reached - before)
        except (pa.ArrowException, OSError) as error:
            reason = cut_in_the_middle(str(error), _REASON_WIDTH)
            msg = f"{self.path} cannot be read as CSV: {reason}"
            raise TraceFormatError(msg) from error

    def _reader(self, file: _ValidText, positions: list[str]) -> pacsv.CSVStreamingReader:
        """Open the file with columns named by position; its header is the first row."""
        names = [str(position) for position in range(len(self.columns))]
        return pacsv.open_csv(
            file,
            read_options=pacsv.ReadOptions(block_size=BLOCK_BYTES, column_names=names),
            parse_options=pacsv.ParseOptions(
                newlines_in_values=True, invalid_row_handler=self._skip
            ),
            convert_options=pacsv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(names, pa.binary()),
                include_columns=positions,
            ),
        )

    def _skip(self, row: pacsv.InvalidRow) -> str:
        lines = row.text.strip("\r\n").splitlines()  # many, after a quote that is never closed
        self.malformed += max(len(lines), 1)
        return "skip"


class _ValidText(io.RawIOBase):
    """A file with ``?`` in place of each byte that is not valid UTF-8, which pyarrow rejects."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.bytes_read = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return at most `size` bytes; none only at the end."""
        while True:
            pending = len(self._decoder.getstate()[0])
            data = self._file.read(max(size - pending, 1))
            self.bytes_read += len(data)
            if data.isascii() and data and not pending:
                return data
            valid = self._decoder.decode(data, final=not data).encode("utf-8", "replace")
            if valid or not data:
                return valid


def nanoseconds(column: pa.Array) -> Times:
    """Convert µs in decimal text to ns, exactly; `UNREADABLE` where the text is not a time."""
    try:
        decimals = column.cast(pa.string()).cast(pa.decimal128(_DIGITS, 3))
        size, buffers, offset = len(decimals), decimals.buffers(), decimals.offset
        whole = pa.Array.from_buffers(pa.decimal128(_DIGITS, 0), size, buffers, offset=offset)
        return np.asarray(whole.cast(pa.int64()).to_numpy(), np.int64)
    except pa.ArrowException:
        return decimal_text_to_ns(column.to_pylist())


def whole_numbers(column: pa.Array) -> Int64Array:
    """Convert text to integers, `ABSENT` where it is not one; 7.0, as pandas may write it, is 7."""
    try:
        return np.asarray(column.cast(pa.string()).cast(pa.int64()).to_numpy(), np.int64)
    except pa.ArrowException:
        texts = (text.decode("ascii", "replace").strip() for text in column.to_pylist())
        return integers([text.removesuffix(".0") for text in texts])


def distinct_texts(column: pa.Array) -> tuple[list[str], list[int]]:
    """Return the distinct texts of a column, and the position of each row's text among them."""
    encoded = column.dictionary_encode()
    texts = [text.decode("utf-8", "replace") for text in encoded.dictionary.to_pylist()]
    return texts, encoded.indices.to_pylist()


def _header(path: Path) -> tuple[str, ...]:
    """Names of the columns, from the first line that is not empty."""
    try:
        with path.open("rb") as file:
            beginning = file.read(_HEADER_BYTES).decode("utf-8-sig", "replace")
        rows = csv.reader(io.StringIO(beginning, newline=""))
        first: list[str] = next((row for row in rows if row), [])
    except (OSError, csv.Error):
        return ()
    return tuple(name.strip().lower() for name in first)


class Rows(NamedTuple):
    """Readable rows of a block of a table."""

    start_ns: Times
    duration_ns: Times
    columns: Mapping[str, pa.Array]
    """The requested columns that exist, as bytes."""
    coarse: int
    unreadable: int
    """Number of rows left out because their times have too few digits, or for another reason."""
    in_full: bool
    """Whether any time is written with more digits than a rounded one."""


def readable_rows(
    table: CsvTable, names: Iterable[str], on_read: Callable[[int], object] | None = None
) -> Iterator[Rows]:
    """Yield the readable rows of a table with the named columns, block by block.

    Raises `TraceFormatError` if the file cannot be read.
    """
    length = "dur" if "dur" in table.columns else "end"
    for columns in table.blocks(dict.fromkeys(("start", length, *names)), on_read):
        coarse = _is_coarse(columns["start"])
        start_ns, duration_ns = _times(columns, coarse)
        readable = duration_ns != UNREADABLE
        in_full = bool(pc.any(pc.match_substring_regex(columns["start"], _IN_FULL)).as_py())
        kept = columns
        if not readable.all():
            mask = pa.array(readable)
            kept = {name: column.filter(mask) for name, column in columns.items()}
        left_out = int((~readable & ~coarse).sum())
        times = start_ns[readable], duration_ns[readable]
        yield Rows(*times, kept, int(coarse.sum()), left_out, in_full)


def _is_coarse(start: pa.Array) -> Mask:
    """Mask of the times written with too few digits for whole µs, such as 1.7e+15."""
    has_exponent = pc.match_substring(start, "e", ignore_case=True)
    coarse = np.asarray(has_exponent.to_numpy(zero_copy_only=False), np.bool_)
    for row in np.flatnonzero(coarse).tolist():
        try:
            exponent = Decimal(start[row].as_py().decode("ascii", "replace")).as_tuple().exponent
        except InvalidOperation:
            exponent = 0
        coarse[row] = isinstance(exponent, int) and exponent > 0
    return coarse


def _times(columns: Mapping[str, pa.Array], coarse: Mask) -> tuple[Times, Times]:
    """Start and duration of each row; the duration is `UNREADABLE` where either cannot be read."""
    start_ns = nanoseconds(columns["start"])
    readable = ~coarse & (start_ns > _EARLIEST_NS) & (start_ns < _LATEST_NS)
    if "dur" in columns:
        duration_ns = nanoseconds(columns["dur"])
    else:
        end_ns = nanoseconds(columns["end"])
        readable &= (end_ns >= start_ns) & (end_ns < _LATEST_NS)
        duration_ns = end_ns - start_ns
    readable &= (duration_ns >= 0) & (duration_ns < _LONGEST_NS)
    return start_ns, np.where(readable, duration_ns, UNREADABLE)
