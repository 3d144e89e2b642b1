"""Cached files with a right checksum and wrong columns: the trace is read again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hta_widgets import open_trace
from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.errors import ParameterError
from hta_widgets.sample import write_sample
from hta_widgets.trace.cache import derived_columns
from hta_widgets.trace.cache.column_file import (
    array_of,
    array_of_texts,
    numbers_of,
    read_columns,
    write_columns,
)
from hta_widgets.trace.ranks.loading import load_rank
from hta_widgets.trace.ranks.source import RankSource
from tests.kineto_text import call, host, kernel, write

SHAPED = {"args": {"Input Dims": [[2, 3]], "Sequence number": 4}}
EVENTS = [
    event
    for n in range(20)
    for event in (
        {**host(20 * n, 9, f"aten::mm {n % 3}"), **SHAPED},
        call(20 * n + 1, 1, n),
        kernel(20 * n + 3, 3 + n, correlation=n),
    )
]
HUGE = 2**30


@pytest.fixture(autouse=True)
def folder(cached, monkeypatch):
    monkeypatch.setattr(derived_columns, "WORTH_KEEPING", 0)
    return cached


def poison(file: Path, columns: dict[str, Any], header: Any) -> None:
    """Put other columns in place of a file, which may be open."""
    write_columns(columns, header, file.with_suffix(".new"))
    file.with_suffix(".new").replace(file)


def misshapen(arrays: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Columns with one of them taken away, renamed, of another type, shorter or empty."""
    for name, array in arrays.items():
        others = {each: arrays[each] for each in arrays if each != name}
        yield f"without {name!r}", others
        yield f"renamed {name!r}", {**others, f"{name}x": array}
        try:
            numbers = numbers_of(array)
        except ValueError:
            shorter = array_of_texts(array.to_pylist()[:-1])
        else:
            shorter = array_of(numbers[:-1])
            other = np.float64 if numbers.dtype.kind in "iu" else np.int8
            yield f"retyped {name!r}", {**arrays, name: array_of(numbers.astype(other))}
            yield f"emptied {name!r}", {**arrays, name: array_of(numbers[:0])}
        if len(array):
            yield f"shorter {name!r}", {**arrays, name: shorter}


def misplaced(arrays: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Columns of codes and rows with one that is out of range, and times and rows in disorder."""
    codes = [name for name in arrays if f"{name}\t\ttexts" in arrays]
    links = [name for name in arrays if name.startswith("links\t")]
    rows = [name for name in arrays if name.startswith("side\t") and name.count("\t") == 1]
    for name in ("kind", "duration_ns", *codes, *links, *rows):
        numbers = numbers_of(arrays[name])
        for place, value in ((0, -7), (-1, -7), (0, HUGE), (numbers.size // 2, HUGE)):
            wrong = numbers.copy()
            most = int(np.iinfo(wrong.dtype).max)  # columns are as narrow as what is in them
            wrong[place] = 100 if name == "kind" and value == HUGE else min(value, most)
            if name == "duration_ns" and value == HUGE:
                wrong[place] = 2**62
            yield f"{name!r}[{place}] = {value}", {**arrays, name: array_of(wrong)}
    for name in ("start_ns", *rows):
        numbers = numbers_of(arrays[name])
        swapped = numbers.copy()
        swapped[[1, 2]] = swapped[[2, 1]]
        yield f"reversed {name!r}", {**arrays, name: array_of(numbers[::-1].copy())}
        yield f"swapped {name!r}", {**arrays, name: array_of(swapped)}


@pytest.mark.parametrize("poisons", [misshapen, misplaced])
def test_a_trace_is_read_again_and_written_over(tmp_path, folder, reads, poisons):
    path = write(tmp_path / "a.json", EVENTS)
    expected = open_trace(path, progress=False).rank(0)
    names, launches, parents = expected.trace.events.names_at, expected.launches, expected.parents
    (file,) = folder.glob("*.arrow")
    header, arrays = read_columns(file)
    assert any("operators" in name for name in arrays)
    tried = []
    for what, poisoned in poisons(dict(arrays)):
        poison(file, poisoned, header)
        for wanted in (1, 0):
            reads.clear()
            rank = open_trace(path, progress=False).rank(0)
            events = rank.trace.events
            assert names(np.arange(len(EVENTS))) == events.names_at(np.arange(len(events))), what
            assert (rank.launches == launches).all(), what
            assert (rank.parents == parents).all(), what
            assert rank.trace.events.side["operators"].rows.size == 20, what
            assert len(reads) == wanted, what
        tried.append(what)
    assert len(tried) > 30


@pytest.mark.parametrize(
    "header",
    [
        *({"rank": "0"}, {"origin_ns": None}, {"base_ns": "x"}, {"source": 3}, {"metadata": []}),
        *({"notices": 3}, {"notices": [3]}, {"labels": None}),
    ],
    ids=repr,
)
def test_a_header_of_other_types(tmp_path, folder, reads, header):
    source = RankSource(write(tmp_path / "a.json", EVENTS))
    load_rank(source, 0)
    (file,) = folder.glob("*.arrow")
    whole, arrays = read_columns(file)
    poison(file, arrays, {**whole, "trace": {**whole["trace"], **header}})
    assert len(load_rank(source, 0).trace.events) == len(EVENTS)
    assert len(reads) == 2


ANALYSES = {
    "kernel_breakdown": lambda job: kernel_breakdown(job).kernels,
    "temporal_breakdown": lambda job: temporal_breakdown(job).ranks,
    "idle_owners": lambda job: idle_owners(job).owners,
}


@pytest.fixture
def sample(tmp_path, folder):
    """A job with derived columns in the cache, and answers that were made with them."""
    write_sample(tmp_path / "job", ranks=1, steps=2, progress=False)
    job = open_trace(tmp_path / "job", progress=False)
    answers = {name: analyse(job).to_json() for name, analyse in ANALYSES.items()}
    shutil.copytree(folder, tmp_path / "whole")
    return tmp_path / "job", answers


def derived_files(folder):
    found = sorted(folder.glob("*-*.arrow"))
    assert len(found) == 6
    return found


def answers_of(job):
    return {name: analyse(job).to_json() for name, analyse in ANALYSES.items()}


@pytest.mark.parametrize("which", range(10))
def test_derived_columns_of_another_shape_are_not_used(sample, folder, reads, caplog, which):
    path, answers = sample
    for file in derived_files(folder):
        header, arrays = read_columns(file)
        poisons = [poisoned for _, poisoned in misshapen(dict(arrays))]
        poison(file, poisons[which * len(poisons) // 10], header)
    assert answers_of(open_trace(path, progress=False)) == answers
    assert not reads
    assert not caplog.messages


@pytest.mark.parametrize("value", [HUGE, -(10**5)])
def test_derived_rows_out_of_range_are_derived_again(sample, folder, tmp_path, value, caplog):
    path, answers = sample
    noticed = 0
    for file in derived_files(folder):
        header, arrays = read_columns(file)
        rows = [
            name for name in ("rows", "parent", "ends", "cut", "launch", "owner") if name in arrays
        ]
        for name in rows:
            wrong = numbers_of(arrays[name]).copy()
            wrong[: max(wrong.size // 2, 1)] = (
                np.iinfo(wrong.dtype).max // 2 if value > 0 else value
            )
            poison(file, {**arrays, name: array_of(wrong)}, header)
            caplog.clear()
            answers_of(open_trace(path, progress=False))
            if caplog.messages:
                assert "is computed again" in caplog.text
                noticed += 1
                assert answers_of(open_trace(path, progress=False)) == answers
            shutil.rmtree(folder)
            shutil.copytree(tmp_path / "whole", folder)
    assert noticed > 3


def _fails(_, error):
    ASKED.append(error)
    raise error


ASKED: list[Any] = []


@pytest.mark.parametrize(("error", "times"), [(IndexError("mine"), 2), (ParameterError("x"), 1)])
def test_an_error_of_a_function_comes_out(sample, error, times):
    path, _ = sample
    job = open_trace(path, progress=False)
    ASKED.clear()
    with pytest.raises(type(error), match=str(error)):
        job.reduce(_fails, [0], error)
    assert len(ASKED) == times
    with pytest.raises(type(error), match=str(error)):
        job.rank(0).remember(_fails, error)
    assert len(ASKED) == times + 1
