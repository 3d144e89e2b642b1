"""Names of the spans that inference engines write around their steps."""

from __future__ import annotations

import pytest

from hta_widgets.trace.model.server_steps import (
    FEWEST_ALIKE,
    MOST_APART,
    first_steps,
    step_span,
)

# name: engine, phase, requests and tokens of prompts, requests and tokens that run already
STEPS = {
    "execute_context_2(6144)_generation_3(3)": ("vLLM", "mixed", 2, 6144, 3, 3),
    "execute_context_1(888_788544)_generation_0(0)": ("vLLM", "prefill", 1, 888, 0, 0),
    "execute_context_0(0)_generation_0(0)": ("vLLM", "idle", 0, 0, 0, 0),
    (
        "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)"
        "_generation_37(sq37sk34489sqsq37sqsk34489)"
    ): ("vLLM", "mixed", 9, 8155, 37, 37),
    "execute_new_2_cached_30": ("vLLM", "mixed", 2, None, 30, None),
    "execute_new_0_cached_30": ("vLLM", "decode", 0, None, 30, None),
    "step[EXTEND bs=15 toks=15360]": ("SGLang", "prefill", 15, 15360, 0, 0),
    "step[prefill bs=2 toks=900]": ("SGLang", "prefill", 2, 900, 0, 0),
    "step[DECODE bs=32]": ("SGLang", "decode", 0, 0, 32, 32),
    "step[TARGET_VERIFY bs=4 g_sq=16]": ("SGLang", "decode", 0, 0, 4, 16),
    "step[DECODE bs=64 g_sq=128 g_sk=131072]": ("SGLang", "decode", 0, 0, 64, 128),
    "step[MIXED bs=2 c=1 g=1 c_sq=5 g_sq=1]": ("SGLang", "mixed", 1, 5, 1, 1),
    "step[mixed bs=9 ext=2 dec=7]": ("SGLang", "mixed", 2, None, 7, None),
    "step[MIXED bs=9]": ("SGLang", "mixed", None, None, None, None),
    "step[idle]": ("SGLang", "idle", 0, 0, 0, 0),
    "prefill[bs=2 tok=900 d=1]": ("ATOM", "prefill", 2, 900, 0, 0),
    "decode[bs=117/128 tok=117 d=117]": ("ATOM", "decode", 0, 0, 117, 117),
    "[Executor] _forward_step 60000: 0 ctx reqs, 0 ctx tokens, 32 gen reqs": (
        *("TensorRT-LLM", "decode"),
        *(0, 0, 32, 32),
    ),
    "[Executor] _forward_step 7: 2 ctx reqs, 1 gen reqs": ("TensorRT-LLM", "mixed", 2, None, 1, 1),
}

OTHERS = [
    "step[0]",
    "step[train]",
    "decode",
    "execute_context_2(6144)_generation_3(3) ",
    "my execute_new_2_cached_30",
    "execute_new_2_cached_",
    f"execute_new_{'9' * 19}_cached_1",
    "ProfilerStep#3",
    "prefill[bs=2]",
    "",
]


@pytest.mark.parametrize(("name", "says"), STEPS.items())
def test_what_the_name_of_a_step_says(name, says):
    span = step_span(name)
    assert tuple(span)[:6] == says
    assert not span.is_part


@pytest.mark.parametrize("mode", ["DRAFT_EXTEND", "DRAFT_EXTEND_V2", "DRAFT_LOOP"])
def test_the_work_of_a_draft_model_is_part_of_a_step(mode):
    assert step_span(f"step[{mode} bs=4]").is_part


@pytest.mark.parametrize("name", OTHERS)
def test_other_names_are_no_steps(name):
    assert step_span(name) is None


PLAN = ("prefill", "decode 8", "decode 9", "decode 9", "decode 9", "decode 9", "decode 7")
"""What the first rank computes, of which the names are few: most are those of others as well."""


@pytest.mark.parametrize("later", range(MOST_APART + 2))
def test_a_recording_that_begins_later_is_numbered_as_the_others(later):
    expected = {0: 0, 1: later} if 0 < later <= MOST_APART else {}
    assert first_steps({0: PLAN, 1: PLAN[later:]}) == expected
    turned = {0: later, 1: 0} if 0 < later <= MOST_APART else {}
    assert first_steps({0: PLAN[later:], 1: PLAN}) == turned


@pytest.mark.parametrize("many", [FEWEST_ALIKE - 1, FEWEST_ALIKE])
def test_a_few_names_are_alike_by_chance(many):
    same = PLAN[1 : 1 + many]
    assert bool(first_steps({0: PLAN[: 1 + many], 1: same})) is (many == FEWEST_ALIKE)


@pytest.mark.parametrize(
    "other",
    [
        ("decode 9",) * 7,  # requests of its own
        PLAN,
        (*PLAN[:3], "decode 5", *PLAN[4:]),
        PLAN[2:6],  # they fit in several ways
        (),
    ],
)
def test_names_that_fit_in_no_or_several_ways_are_counted_from_0(other):
    assert first_steps({0: (*PLAN[:6], *PLAN[4:6]), 1: other}) == {}
    assert first_steps({}) == {}


def test_the_rank_that_begins_first_has_number_0():
    found = first_steps({0: PLAN[1:], 1: PLAN[2:], 2: (*PLAN[1:], "decode 6", "decode 6")})
    assert found == {0: 0, 1: 1, 2: 0}
