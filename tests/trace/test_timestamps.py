"""Decimal text to integer ns, against exact decimals."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.trace.loaders.timestamps import UNREADABLE, decimal_text_to_ns, durations_to_ns

EPOCH_US = 1_732_611_000_000_000


def exact(text: bytes) -> int:
    return int((Decimal(text.decode()) * 1000).to_integral_value(ROUND_HALF_EVEN))


integers = st.integers(-(10**6), 2 * 10**15).map(lambda n: b"%d" % n)
three_decimals = st.tuples(st.integers(0, 2 * 10**15), st.integers(0, 999)).map(
    lambda p: b"%d.%03d" % p
)
decimals = st.decimals(0, 2 * 10**15, places=6).map(lambda d: f"{d:f}".encode())


@given(
    st.one_of(
        st.lists(integers, max_size=20),
        st.lists(three_decimals, max_size=20),
        st.lists(st.one_of(integers, three_decimals), max_size=20),
        st.lists(decimals, max_size=20),
    )
)
def test_exact_at_any_magnitude(texts):
    assert decimal_text_to_ns(texts).tolist() == [exact(text) for text in texts]


@given(st.lists(st.integers(0, 4 * 10**15), max_size=20))
def test_durations_are_exact_to_the_ns(durations_ns):
    microseconds = [float(Decimal(ns) / 1000) for ns in durations_ns if ns < 2**52]
    assert durations_to_ns(microseconds).tolist() == [ns for ns in durations_ns if ns < 2**52]


def test_neighbouring_ns_at_epoch_time_stay_apart():
    texts = [b"%d.%03d" % (EPOCH_US, fraction) for fraction in range(1000)]
    assert len(set(decimal_text_to_ns(texts).tolist())) == 1000


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        (b'"1.5"', 1500),
        (b"1e3", 1_000_000),
        (b"-2.001", -2001),
        (b"1e999999", UNREADABLE),
        (b"1.2.3", UNREADABLE),
        (b"1-2", UNREADABLE),
        (b"null", UNREADABLE),
        (b"", UNREADABLE),
        (b'"soon"', UNREADABLE),
        (b"NaN", UNREADABLE),
        (b"1e400", UNREADABLE),
        (b"99999999999999999999", UNREADABLE),
    ],
)
def test_odd_values(text, ns):
    assert decimal_text_to_ns([b"1.000", text]).tolist() == [1000, ns]
    assert decimal_text_to_ns([b"1", text]).tolist() == [1000, ns]


@pytest.mark.parametrize(("value", "ns"), [("2.5", 2500), (None, UNREADABLE), (True, 1000)])
def test_odd_durations(value, ns):
    assert durations_to_ns([1, value]).tolist() == [1000, ns]
