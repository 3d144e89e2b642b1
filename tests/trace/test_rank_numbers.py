"""Numbering traces as ranks: by name, device or order."""

from __future__ import annotations

from pathlib import Path

import pytest

from hta_widgets.trace.model.formats import FoundRank
from hta_widgets.trace.opening.rank_numbers import number_ranks


def files(*stems):
    return [FoundRank(Path(f"{stem}.x"), stem) for stem in stems]


def processes(*by_file):
    """One list of devices per process, in files by name."""
    return [
        FoundRank(Path(stem), stem, pid, devices)
        for stem, of_file in by_file
        for pid, devices in enumerate(of_file, 100)
    ]


@pytest.mark.parametrize(
    ("stems", "ranks", "words"),
    [
        (
            ["profile_4086675_node3_rank31", "profile_4086675_node0_rank2"],
            [31, 2],
            "the file names",
        ),
        (["rank0_of_rank_7", "RANK-3"], [7, 3], "the file names"),
        (
            ["node0_rank0", "node0_rank1", "node1_rank0", "node1_rank1"],
            [0, 1, 2, 3],
            "the node and rank in the file names",
        ),
        (["job_gpu0", "job_gpu1"], [0, 1], "the file names"),
        (["job.r4", "job.r11"], [4, 11], "the file names"),
        (["report3", "report12"], [3, 12], "the number at the end of the file names"),
        (["first", "second"], [0, 1], "the order of the file names"),
        (["rank1", "other"], [0, 1], "the order of the file names"),
        (["a_rank1", "b_rank1"], [0, 1], "the order of the file names"),
    ],
)
def test_files_are_numbered_by_name(stems, ranks, words):
    found = files(*stems)
    ranked, rule = number_ranks(found)
    assert [ranked[rank] for rank in ranks] == found
    assert rule.endswith(f"are taken from {words}")


def test_a_single_trace_is_rank_0_unless_its_name_says_a_rank():
    assert list(number_ranks(files("report12"))[0]) == [0]
    assert number_ranks(files("x_rank12"))[1] == ""
    assert list(number_ranks(files("x_rank12"))[0]) == [12]


@pytest.mark.parametrize(
    ("by_file", "ranks", "words"),
    [
        ([("node1_rank3", [(2,), (0,)])], [2, 0], "the device of each process"),
        ([("job", [(0,), (0,)])], [0, 1], "the order of the process ids"),
        ([("job", [(0, 1), (2,)])], [0, 1], "the order of the process ids"),
        (
            [("node1", [(0,), (1,)]), ("node0", [(0,), (1,)])],
            [2, 3, 0, 1],
            "the device of each process",
        ),
        ([("a", [(0,), (1,)]), ("b", [(0,)])], [0, 1, 2], "the order of the process ids"),
    ],
)
def test_processes_of_one_file_are_numbered_by_device(by_file, ranks, words):
    found = processes(*by_file)
    ranked, rule = number_ranks(found)
    assert [ranked[rank] for rank in ranks] == found
    assert rule.endswith(f"are taken from {words}")


def test_every_trace_gets_a_number_of_its_own():
    found = files(*(f"rank{number // 2}" for number in range(512)))
    assert len(number_ranks(found)[0]) == len(found)
