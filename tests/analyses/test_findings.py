"""Findings are headlines: words of the field, and each sentence whole."""

from __future__ import annotations

import re

import pytest

from hta_widgets import analyses
from hta_widgets.sample import write_sample
from hta_widgets.trace.opening.open import open_trace

JARGON = re.compile(
    r"z-score|modified z|leave-one-out|\bscore|\btails?\b|percentile|quartile|deviation|_ns\b|_us\b"
)
SENTENCES = re.compile(r"(?:[A-Z0-9][^\n]*\.)?")
WITH_ARGUMENTS = ("compare", "flame", "kernel_sequences")
FUNCTIONS = [name for name in analyses.__all__ if name.islower() and name not in WITH_ARGUMENTS]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder, ranks=6, steps=3, progress=False)
    return open_trace(folder, progress=False)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_headlines_are_sentences_without_jargon(job, name):
    for ranks in (None, [0]):
        finding = getattr(analyses, name)(job, ranks).finding
        assert SENTENCES.fullmatch(finding)
        assert not JARGON.search(finding)
        assert "  " not in finding


def test_so_is_that_of_one_rank(job):
    finding = analyses.flame(job, 0).finding
    assert SENTENCES.fullmatch(finding)
    assert not JARGON.search(finding)


def test_jargon_is_found():
    assert JARGON.search("Rank 3 is an outlier (modified z 5.1).")
    assert not SENTENCES.fullmatch("one fragment")
