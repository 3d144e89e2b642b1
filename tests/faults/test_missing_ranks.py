"""A trace states how many ranks its job had; those that were not opened are named."""

from __future__ import annotations

import pytest

from hta_widgets.trace.opening import open as opening
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.opening.rank_numbers import rank_in_file_name
from tests.kineto_text import kernel, write


def job_of(folder, ranks, world_size, **options):
    for rank in ranks:
        info = {"rank": rank, "world_size": world_size}
        write(folder / f"{rank}.json", [kernel(1, 1)], distributedInfo=info)
    return open_trace(folder, progress=False, **options)


def missing(job):
    return [notice for notice in job.notices if "missing" in notice]


@pytest.mark.parametrize("is_big", [False, True])
def test_seven_of_eight(tmp_path, monkeypatch, is_big):
    monkeypatch.setattr(opening, "_is_big", lambda _: is_big)
    job = job_of(tmp_path, [0, 1, 2, 4, 5, 6, 7], 8)
    assert missing(job) == ["rank 3 is missing: the traces come from a job with 8 ranks"]
    assert not any("missing" in notice for notice in job.notices_for([0, 1]))


def test_one_of_many(tmp_path):
    job = job_of(tmp_path, [5], "2048")
    (notice,) = missing(job)
    assert notice == "ranks 0-4, 6-2047 are missing: the traces come from a job with 2,048 ranks"


@pytest.mark.parametrize("size", [2, 1, 0, -1, None, "two", 10**30, 2**31 - 1, [8]])
def test_nothing_is_missing_or_known(tmp_path, size):
    assert missing(job_of(tmp_path, [0, 1], size)) == []


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("worker0.1732611000.pt.trace.json", 0),
        ("worker_12.json.gz", 12),
        ("host_worker3_rank7.json", 7),
        ("1732611000.25-TP-3.trace.json.gz", 3),
        ("run-DP2.json", 2),
        ("1732611000.25-TP-3-DP-1.trace.json.gz", None),
        ("http-3.json", None),
        ("coworker3.json", None),
        ("profile.json", None),
    ],
)
def test_ranks_in_names_of_files(name, rank):
    assert rank_in_file_name(name) == rank


def test_files_of_other_tools_open(tmp_path):
    for rank in range(2):
        write(tmp_path / f"1732611000.25-TP-{rank}.trace.json.gz", [kernel(1, 1)])
    assert open_trace(tmp_path, progress=False).ranks == (0, 1)
