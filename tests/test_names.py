from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.names.readable import kernel_does, sequence_words
from hta_widgets.names.shorten import (
    distinct_names,
    remembered,
    short_name,
)

KERNEL = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::{}, "
    "at::detail::Array<char*, {}> >(int, {})"
)
parts = st.sampled_from(
    ["float", "int", "FillFunctor<float>", "CUDAFunctor_add<int>", "1", "2", ""]
)
kernels = st.builds(KERNEL.format, parts, parts, parts)
any_names = st.one_of(st.text(max_size=200), st.text("ab_<>:, ", max_size=120), kernels)


def filled(*functors: str) -> list[str]:
    return [KERNEL.format(functor, 1, "x") for functor in functors]


@given(st.lists(any_names, max_size=40), st.integers(8, 60))
def test_different_names_stay_different_and_none_is_too_long(names: list[str], width: int):
    short = distinct_names(names, width)
    assert len(set(short)) == len(set(names))
    assert len(set(zip(names, short, strict=True))) == len(set(names))
    assert all(len(text) <= width for text in short)


@given(st.lists(any_names, max_size=20), st.integers(8, 60))
def test_names_that_are_different_anyway_are_left_as_they_are(names: list[str], width: int):
    usual = [short_name(name, width) for name in names]
    alone = {text for text in usual if len({n for n in names if short_name(n, width) == text}) == 1}
    for text, short in zip(usual, distinct_names(names, width), strict=True):
        assert short == text or text not in alone


def test_mangled_names_are_demangled_where_these_stay_different():
    mangled = ["_ZN5aiter4normIDF16bLi256EEEvPT_", "_ZN5aiter4normIDF16bLi64EEEvPT_"]
    assert distinct_names(mangled) == [
        "aiter::norm<std::bfloat16_t, 256>",
        "aiter::norm<std::bfloat16_t, 64>",
    ]
    assert len(set(distinct_names(["_Z4normPf", "norm(float*)"]))) == 2


def test_template_arguments_that_differ_are_shown():
    names = filled("FillFunctor<float>", "FillFunctor<int>", "CUDAFunctor_add<float>")
    assert len({short_name(name) for name in names}) == 1
    for text, shown in zip(distinct_names(names), ["float", "int", "CUDAFunctor"], strict=True):
        assert text.startswith("vectorized_elementwise_kernel")
        assert shown in text


@pytest.mark.parametrize("place", ["void f{}(int)", "f(int, {})", "{}::f(int)", "a::{}::f<int>"])
def test_wherever_they_differ(place: str):
    names = [place.format(f"{'x' * 60}{each}{'x' * 60}") for each in ("_one_", "_two_")]
    first, second = distinct_names(names, 40)
    assert "one" in first
    assert "two" in second


def test_arguments_that_differ_are_shown_where_nothing_else_does():
    """Names that `normalised_kernel_name` takes for one stay apart in a list of names."""
    names = [f"void bounds_check_kernel<long>(int, {each}FixedDivisor)" for each in ("", "gpu::")]
    assert len({short_name(name) for name in names}) == 1
    first, second = distinct_names(names, 40)
    assert "FixedDivisor" in first
    assert "gpu::" not in first
    assert "gpu::FixedDivisor" in second


def test_one_that_goes_on_where_the_other_ends():
    first, second = distinct_names(["k" * 60, "k" * 61], 20)
    assert first != second


def test_too_many_differences_are_numbered():
    names = ["".join(f"{'same' * 4}{(n >> bit) & 1}" for bit in range(6)) for n in range(64)]
    short = distinct_names(names, 12)
    assert len(set(short)) == 64
    assert any("#" in text for text in short)


def test_long_names_are_not_remembered():
    asked = []

    @remembered
    def of_name(name):
        asked.append(name)
        return len(name)

    usual, long = "a" * 4096, "a" * 4097
    assert [of_name(each) for each in (usual, long) * 2] == [4096, 4097] * 2
    assert asked == [usual, long, long]


@given(
    st.lists(st.sampled_from(["volta_sgemm", "void add_bias(int)", "softmax"])), st.integers(1, 6)
)
def test_what_is_left_out_of_a_sequence_is_counted(names: list[str], at_most: int):
    runs = [(word, len([*run])) for word, run in groupby(map(kernel_does, names))]
    words = [word if count == 1 else f"{word} ({count}×)" for word, count in runs]
    if len(runs) > at_most + 1:
        begin, end = (at_most + 1) // 2, len(runs) - at_most // 2
        words[begin:end] = [f"… {sum(count for _, count in runs[begin:end])} more …"]
    assert sequence_words(names, at_most) == " → ".join(words)


@pytest.mark.parametrize("width", range(22, 62))
def test_a_frame_keeps_its_file_and_line_and_loses_its_outermost_folders(width: int):
    name = "transformers/models/bert/modeling_bert.py(364): forward"
    ends = [name, *(f"…{name[at:]}" for at in range(len(name)) if name[at] == "/")]
    whole = [each for each in ends if len(each) <= width]
    short = short_name(name, width)
    assert short == (whole[0] if whole else f"…{name[1 - width :]}")


def test_of_a_frame_whose_file_has_no_room_the_function_is_left():
    assert (
        short_name("folder/file.py(36): a_function_with_a_long_name", 24)
        == "a_function_w…a_long_name"
    )
