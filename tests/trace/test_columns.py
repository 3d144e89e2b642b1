"""Growing columns keep their values and types, and need little memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.trace.loaders import columns
from hta_widgets.trace.loaders.columns import GrowingColumns, bytes_of, inverse_permutation

INT64 = st.integers(-(2**63), 2**63 - 1)
INTEGERS = st.one_of(st.integers(-130, 130), st.integers(-(2**31) - 2, 2**31 + 2), INT64)


def grown(pieces):
    growing = GrowingColumns()
    for piece in pieces:
        growing.append({"a": np.asarray(piece)})
    return growing


@pytest.fixture
def two_pieces_per_block(monkeypatch):
    monkeypatch.setattr(columns, "_PIECES_PER_BLOCK", 2)


@given(st.lists(st.binary(max_size=4) | st.sampled_from([b"", b"\0", b"[1]"]), max_size=9))
def test_copies_of_pieces_of_text(texts):
    assert bytes_of(list(map(memoryview, texts))) == texts


@given(pieces=st.lists(st.lists(INTEGERS, max_size=5), min_size=1, max_size=9))
def test_integers_come_back_as_they_were(pieces):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_PIECES_PER_BLOCK", 2)
        column = grown(np.array(piece, np.int64) for piece in pieces).pop("a")
    assert column.dtype == np.int64
    assert column.tolist() == [value for piece in pieces for value in piece]


@given(pieces=st.lists(st.lists(INTEGERS, max_size=5), min_size=1, max_size=9))
def test_narrow_integers_are_the_same_numbers_in_the_least_bytes(pieces):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_PIECES_PER_BLOCK", 2)
        column = grown(np.array(piece, np.int64) for piece in pieces).pop("a", narrow=True)
    values = [value for piece in pieces for value in piece]
    assert column.tolist() == values
    bits = max([8, *(1 + max(value, ~value).bit_length() for value in values)])
    assert column.dtype.itemsize == next(size for size in (1, 2, 4, 8) if 8 * size >= bits)


@pytest.mark.usefixtures("two_pieces_per_block")
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.float64, np.bool_, np.uint64])
def test_types_come_back_as_they_were(dtype):
    column = grown(np.array([value, 1], dtype) for value in range(5)).pop("a")
    assert column.dtype == dtype
    assert column.tolist() == np.array([0, 1, 1, 1, 2, 1, 3, 1, 4, 1], dtype).tolist()


@pytest.mark.usefixtures("two_pieces_per_block")
def test_a_column_of_several_types_is_of_the_one_that_holds_them():
    assert grown([[1], [2], [3], [0.5]]).pop("a").tolist() == [1, 2, 3, 0.5]


@pytest.mark.usefixtures("two_pieces_per_block")
def test_values_go_to_their_places():
    times = np.array([30, 10, 10, 40, 0])
    positions = inverse_permutation(np.argsort(times, kind="stable"))
    growing = grown(times[first : first + 1] for first in range(5))
    assert growing.names() == ["a"]
    assert growing.pop("a", positions).tolist() == [0, 10, 10, 30, 40]
    assert growing.names() == []
    assert positions.tolist() == [3, 1, 2, 4, 0]


def test_blocks_hold_integers_in_the_narrowest_type():
    growing = GrowingColumns()
    growing.append({"a": np.array([1]), "b": np.array([-1, 300]), "c": np.array([2**40])})
    growing.names()
    [block] = growing._blocks
    assert {key: column.itemsize for key, column in block.items()} == {"a": 1, "b": 2, "c": 8}
