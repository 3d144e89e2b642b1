"""A question is known by its function and arguments; no name stands for it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from hta_widgets.trace.model.questions import Question, asked_once
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import host, write


def sizes(subject, factor=1, *, offset=0):
    return {"sizes": np.array([len(subject) * factor + offset])}


def others(subject):
    return {"sizes": np.array([-len(subject)])}


CALLS = []


@asked_once
def names(rank, suffix):
    CALLS.append(suffix)
    return [name + suffix for name in rank.trace.events.name.values]


def test_equal_questions_are_one():
    one = Question.of(sizes, (2,), {"offset": 3})
    assert one == Question.of(sizes, [2], {"offset": 3})
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301  # our own
    asked = {one, Question.of(sizes, (2,), {}), Question(sizes), Question(others)}
    assert len(asked) == len({each.text for each in asked}) == 4
    assert one.asked_of("four")["sizes"].tolist() == [11]


def test_a_function_without_a_name_of_its_own_is_not_kept():
    def inner(subject):
        return subject

    for function in (inner, lambda subject: subject):
        with pytest.raises(TypeError, match="has no importable name"):
            _ = Question(function).text


def test_what_is_asked_once_is_called_once_for_each_argument_until_it_is_forgotten(tmp_path):
    write(tmp_path / "rank.json", [host(0, 10, "aten::mm")])
    job = open_trace(tmp_path, progress=False)
    CALLS.clear()
    for _ in range(2):
        assert (names(job.rank(0), "!"), names(job.rank(0), "?")) == (["aten::mm!"], ["aten::mm?"])
    assert CALLS == ["!", "?"]
    assert job.reduce(names, [0], ".") == {0: ["aten::mm."]}
    job.forget(names)
    names(job.rank(0), "!")
    assert CALLS == ["!", "?", ".", "!"]
    assert pickle.loads(pickle.dumps(names)) is names  # noqa: S301  # our own: workers take it
