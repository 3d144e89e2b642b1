"""A packed part of a replay is the same part, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets import open_trace
from hta_widgets.diagnosis.replay.rank_part import PackedArray, PackedPart, rank_part
from hta_widgets.sample import write_sample

FLOATS = (
    st.floats(width=64) | st.integers(-(2**60), 2**60).map(float) | st.sampled_from([0.0, -0.0])
)
INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-130, 130) | st.just(0)


def bits_of(array):
    return array.dtype, array.shape, array.tobytes()


@given(st.lists(FLOATS, max_size=12), st.sampled_from([1, 2, 4]))
def test_floats_come_back_bit_for_bit(values, rows):
    array = np.array(values * rows, np.float64).reshape(rows, len(values))
    assert bits_of(PackedArray.of(array).unpacked()) == bits_of(array)


@given(st.lists(INTEGERS, max_size=12))
def test_integers_come_back_as_they_were(values):
    array = np.array(values, np.int64)
    assert bits_of(PackedArray.of(array).unpacked()) == bits_of(array)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int32, np.uint64])
def test_types_come_back_as_they_were(dtype):
    array = np.array([1, 0, 1, 1], dtype)
    assert bits_of(PackedArray.of(array).unpacked()) == bits_of(array)


@pytest.mark.parametrize("zeros", [3, 2])
def test_few_numbers_among_zeros_are_kept_with_their_places(zeros):
    array = np.array([7.5, *[0.0] * zeros])
    assert (PackedArray.of(array).places is not None) == (zeros == 3)
    assert bits_of(PackedArray.of(array).unpacked()) == bits_of(array)


def test_a_part_is_the_same_in_half_of_the_bytes(tmp_path):
    job = open_trace(write_sample(tmp_path, ranks=1, progress=False), progress=False)
    part = rank_part(job.rank(0))
    packed = PackedPart.of(part)
    before, after = arrays_in(part), arrays_in(packed.unpacked())
    assert [*map(bits_of, after)] == [*map(bits_of, before)]
    assert packed.unpacked().names == part.names
    assert 2 * sum(each.nbytes for each in arrays_in(packed.part)) < sum(
        each.nbytes for each in before
    )


def arrays_in(value):
    if isinstance(value, np.ndarray):
        return [value]
    inside = value if isinstance(value, tuple) else ()
    return [found for each in inside for found in arrays_in(each)]
