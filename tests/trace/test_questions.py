"""A question is known by its function and arguments; no name stands for it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from hta_widgets.trace.model.questions import Question


def sizes(subject, factor=1, *, offset=0):
    return {"sizes": np.array([len(subject) * factor + offset])}


def others(subject):
    return {"sizes": np.array([-len(subject)])}


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
