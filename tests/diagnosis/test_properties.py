"""What must not change a diagnosis: numbers of ranks, clocks, the unit of time, names of groups.

Each test rewrites the traces of a simulated job and compares causes, ranks and steps.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

from hta_widgets import diagnose, open_trace
from tests.simulator import write_job

CAUSES = ("input_starvation", "slow_gpu", "expert_imbalance", "stage_imbalance", "slow_link")
STEPS = 3
FOUND = ("input_starvation", "slow_gpu", "expert_imbalance", "stage_imbalance")
"""Those of which the comparison must not be one of nothing with nothing."""

SCALABLE = ("input_starvation", "slow_gpu")
"""No absolute limit lies between their times and ten times as long ones."""

BASE = re.compile(r'("baseTimeNanoseconds": )(\d+)')
TIME = re.compile(r'("(?:ts|dur)": )([\d.]+)')
OWN_RANK = re.compile(r'("(?:rank|Rank|Src Rank|Dst Rank)": )(\d+)')
RANKS = re.compile(r'("(?:ranks|Process Group Ranks)": "?\[)([\d, ]+)\]')
GROUP_NAME = re.compile(r'("Process Group Name": )"[^"]*"')

Told = set[tuple[str, tuple[int, ...], tuple[int, ...]]]
Texts = Mapping[int, str]


class Sample(NamedTuple):
    """A sample job: its traces by rank, and what is said of it."""

    cause: str
    texts: Texts
    told: Told


@pytest.fixture(scope="module", params=CAUSES)
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    folder = tmp_path_factory.mktemp(request.param)
    paths = write_job(folder, request.param, steps=STEPS)
    texts = {rank: gzip.decompress(path.read_bytes()).decode() for rank, path in enumerate(paths)}
    return Sample(request.param, texts, told(folder))


def told(folder: Path) -> Told:
    found = diagnose(open_trace(folder, progress=False))
    return {(each.cause, each.ranks, each.steps) for each in found}


def told_of(folder: Path, texts: Texts) -> Told:
    write(folder, texts)
    return told(folder)


def write(folder: Path, texts: Texts) -> None:
    for rank, text in texts.items():
        (folder / f"rank-{rank}.json").write_text(text, encoding="utf-8")


def renumbered(text: str, number: Callable[[int], int]) -> str:
    """The trace with other numbers of ranks."""

    def list_of(found: re.Match[str]) -> str:
        ranks = sorted(number(int(rank)) for rank in found[2].split(","))
        return f"{found[1]}{', '.join(map(str, ranks))}]"

    text = RANKS.sub(list_of, text)
    return OWN_RANK.sub(lambda found: f"{found[1]}{number(int(found[2]))}", text)


def test_there_is_something_to_compare(sample: Sample) -> None:
    if sample.cause in FOUND:
        assert sample.cause in {cause for cause, _, _ in sample.told}


def test_numbers_of_ranks(sample: Sample, tmp_path: Path) -> None:
    last = len(sample.texts) - 1
    texts = {
        last - rank: renumbered(text, lambda rank: last - rank)
        for rank, text in sample.texts.items()
    }
    assert told_of(tmp_path, texts) == {
        (cause, tuple(sorted(last - rank for rank in ranks)), steps)
        for cause, ranks, steps in sample.told
    }


def test_clocks(sample: Sample, tmp_path: Path) -> None:
    apart = (0, 7_000_000_123, -3_000_000_456, 42)
    texts = {
        rank: BASE.sub(lambda found, ns=apart[rank % 4]: f"{found[1]}{int(found[2]) + ns}", text)
        for rank, text in sample.texts.items()
    }
    assert told_of(tmp_path, texts) == sample.told


def test_names_of_process_groups(sample: Sample, tmp_path: Path) -> None:
    texts = {rank: GROUP_NAME.sub(r'\1"0"', text) for rank, text in sample.texts.items()}
    assert told_of(tmp_path, texts) == sample.told


def test_length_of_everything(sample: Sample, tmp_path: Path) -> None:
    if sample.cause in SCALABLE:
        texts = {
            rank: TIME.sub(lambda found: f"{found[1]}{10 * Decimal(found[2])}", text)
            for rank, text in sample.texts.items()
        }
        assert told_of(tmp_path, texts) == sample.told


def test_half_of_the_ranks_are_no_missing_ones(sample: Sample, tmp_path: Path) -> None:
    write(tmp_path, sample.texts)
    half = [*sample.texts][: len(sample.texts) // 2]
    found = diagnose(open_trace(tmp_path, ranks=half, progress=False))
    assert "missing_rank" not in {each.cause for each in found}


def test_copies_of_a_rank_are_not_compared(sample: Sample, tmp_path: Path) -> None:
    first = sample.texts[0]
    texts = {}
    for rank in sample.texts:
        texts[rank] = re.sub(r'("distributedInfo": \{[^}]*?"rank": )\d+', rf"\g<1>{rank}", first)
    for _, ranks, _ in told_of(tmp_path, texts):
        assert ranks in ((), (0,))
