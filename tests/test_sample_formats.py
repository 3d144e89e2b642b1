"""A job written as tables or segments and opened again is the same job."""

from __future__ import annotations

import numpy as np
import pytest

from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
from hta_widgets.analyses.launch_stats import launch_stats
from hta_widgets.analyses.overlap import overlap
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.errors import ParameterError
from hta_widgets.sample import write_sample
from hta_widgets.sample.table_formats import write_cupti_tables, write_overlap_recipe
from hta_widgets.trace.opening.open import open_trace


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder, ranks=2, steps=2, progress=False)
    return open_trace(folder, include_last_profiler_step=True, progress=False)


def test_cupti_tables(job, tmp_path):
    folders = write_cupti_tables(job, tmp_path / "tables")
    assert [folder.name for folder in folders] == ["rank0", "rank1"]
    again = open_trace(tmp_path / "tables", progress=False)
    assert again.ranks == job.ranks
    for analyse, table in (
        (temporal_breakdown, "ranks"),
        (kernel_breakdown, "types"),
        (launch_stats, "ranks"),
    ):
        before, after = (_without_steps(getattr(analyse(each), table)) for each in (job, again))
        assert after.equals(before), table
    for rank in job.ranks:
        first, second = (each.rank(rank).trace for each in (job, again))
        offset = second.origin_ns - first.origin_ns
        expected = job.gpu_work(rank).start_ns
        assert np.array_equal(again.gpu_work(rank).start_ns + offset, expected)


def test_overlap_recipe(job, tmp_path):
    again = open_trace(write_overlap_recipe(job, tmp_path / "recipe"), progress=False)
    expected, actual = (overlap(each).ranks.drop(columns="device") for each in (job, again))
    assert actual.equals(expected)
    assert again.offset_ns(0) - again.offset_ns(1) == _first(job, 0) - _first(job, 1)


def _without_steps(table):
    """The table without times over ProfilerSteps, which CUPTI tables lack."""
    return table.loc[:, ~table.columns.str.startswith("steps_")]


def _first(job, rank):
    """First start of computation or communication, on the clock of the job."""
    work = job.gpu_work(rank)
    return job.offset_ns(rank) + int(work.start_ns[work.type <= 1].min())


@pytest.mark.parametrize("write", [write_cupti_tables, write_overlap_recipe])
def test_nothing_is_overwritten_or_left_half(job, tmp_path, write, monkeypatch):
    with pytest.raises(ParameterError, match="exists and is never overwritten"):
        write(job, tmp_path)
    monkeypatch.setattr(job, "rank", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write(job, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []
