"""Findings are headlines: words of the field, and each sentence whole."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from hta_widgets import analyses
from hta_widgets.diagnosis.critical_path import critical_path
from hta_widgets.diagnosis.what_if import what_if
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


@pytest.mark.parametrize("name", [each for each in analyses.__all__ if each.islower()])
@pytest.mark.parametrize("given", ["traces", ["a.json", "b.json"], Path("a.json")], ids=repr)
def test_what_is_no_job_is_refused_in_words(name, given):
    needed = {"flame": [0], "compare": [given]}
    keywords = {"operator_name": "aten::mm"} if name == "kernel_sequences" else {}
    said = f"takes a job, got {type(given).__name__}; give it open_trace"
    with pytest.raises(TypeError, match=said):
        getattr(analyses, name)(given, *needed.get(name, []), **keywords)


def test_what_holds_a_job_is_told_apart(job):
    holder = SimpleNamespace(job=job)
    for function in (analyses.idle_time, what_if, critical_path):
        with pytest.raises(TypeError, match="got SimpleNamespace; give it its attribute job"):
            function(holder)
        assert function(holder.job, [0])


def test_so_is_that_of_one_rank(job):
    finding = analyses.flame(job, 0).finding
    assert SENTENCES.fullmatch(finding)
    assert not JARGON.search(finding)


def test_jargon_is_found():
    assert JARGON.search("Rank 3 is an outlier (modified z 5.1).")
    assert not SENTENCES.fullmatch("one fragment")
