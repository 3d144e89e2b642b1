"""Columns derived from a rank are cached with it, and derived again when out of date."""

from __future__ import annotations

import numpy as np
import pytest

from hta_widgets.analyses.budget import idle_gaps
from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
from hta_widgets.analyses.kernel_sequences import kernel_sequences
from hta_widgets.analyses.launch_stats import launch_stats
from hta_widgets.trace.cache import derived_columns
from hta_widgets.trace.cache import files as cache_files
from hta_widgets.trace.model import call_tree, steps
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks import cache
from tests.kineto_text import call, host, kernel, step, write

EVENTS = [
    event
    for number in range(40)
    for event in (
        host(number * 20, 15, "aten::mm"),
        call(number * 20 + 1, 3, number + 1),
        kernel(number * 20 + 6, 9, stream=7 + number % 2, correlation=number + 1),
    )
] + [step(number, number * 200, 200) for number in range(4)]

DERIVING = [
    (call_tree, "calls_in_preorder"),
    (steps, "GPU_SIDE"),
    (idle_gaps, "_on_device"),
    (idle_gaps, "_Split"),
]


@pytest.fixture
def folder(tmp_path, cached, monkeypatch):
    monkeypatch.setattr(derived_columns, "WORTH_KEEPING", 0)
    write(tmp_path / "rank.json", EVENTS)
    return cached


def tables(folder, **options):
    """Results of the analyses that cache derived columns, for a newly opened job."""
    job = open_trace(folder.parent / "rank.json", progress=False, **options)
    idle, launches, types = idle_owners(job), launch_stats(job), kernel_breakdown(job).types
    found = kernel_sequences(job, operator_name="aten::mm", min_pattern_len=1)
    parts = [idle.owners, found.patterns, launches.ranks, types]
    return [each.to_dict("list") for each in parts]


def test_the_second_time_nothing_is_derived(folder, monkeypatch):
    first = tables(folder)
    for module, name in DERIVING:
        monkeypatch.delattr(module, name)
    assert repr(tables(folder)) == repr(first)


def test_other_settings_are_derived_again(folder):
    usual = tables(folder)
    whole = tables(folder, include_last_profiler_step=True)
    assert whole[2]["operations"] == [40]
    assert usual[2]["operations"] == [30]
    renamed = tables(folder, kernel_rules={"MEMORY": "gemm|kernel"})
    assert set(renamed[3]["kernel_type"]) == {"MEMORY"}
    assert set(usual[3]["kernel_type"]) == {"COMPUTATION"}
    assert repr(tables(folder)) == repr(usual)


def test_damaged_files_are_written_again(folder):
    usual = tables(folder)
    beside = [path for path in folder.iterdir() if "-" in path.name]
    assert len(beside) > 5
    whole = {path: path.read_bytes() for path in beside}
    for place, path in enumerate(beside):
        path.write_bytes(whole[path][: -1 - 100 * place] if place % 2 else b"no Arrow")
    assert repr(tables(folder)) == repr(usual)
    assert {path: path.read_bytes() for path in beside} == whole


def test_a_file_of_another_name_is_not_taken(folder):
    usual = tables(folder)
    beside = sorted(path for path in folder.iterdir() if "-" in path.name)
    contents = [path.read_bytes() for path in beside]
    for path, content in zip(beside, contents[1:] + contents[:1], strict=True):
        path.write_bytes(content)
    assert repr(tables(folder)) == repr(usual)


def test_little_is_not_kept(folder, monkeypatch):
    monkeypatch.setattr(derived_columns, "WORTH_KEEPING", 2**20)
    tables(folder)
    assert len(list(folder.iterdir())) == 1


def test_they_count_as_one_entry_and_go_together(folder):
    tables(folder)
    [entry] = cache_files.entries(folder)
    assert entry.size == sum(path.stat().st_size for path in folder.iterdir())
    assert cache.describe_entry(entry).endswith("rank.json (rank 0)")
    assert cache_files.prune(folder, 0) == entry.size
    assert list(folder.iterdir()) == []


def test_texts_are_not_kept(folder):
    folder.mkdir()
    place = derived_columns.DerivedColumnCache(folder, "stem", "{}")
    place.write("ids", {"pid": np.array(["a", 1], dtype=object)})
    assert list(folder.iterdir()) == []
    assert place.read("ids") is None


def test_a_folder_that_cannot_be_written_to_is_no_error(folder):
    derived_columns.DerivedColumnCache(folder / "missing", "stem", "{}").write(
        "ids", {"pid": np.arange(3)}
    )
    assert not folder.exists()
