"""Where a finding is seen: its intervals, which add up to its time, and the densest window."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hta_widgets
from hta_widgets.diagnosis.proof.proof import (
    LEAST_SHARE,
    MARGIN,
    NEARLY_AS_DENSE,
    Edges,
    densest,
    put_together,
    widened,
    windows_of,
)
from hta_widgets.diagnosis.proof.what import Removed, Stretches
from hta_widgets.quantities import percent
from tests.diagnosis.findings.scripts import Host, diagnosed, found
from tests.diagnosis.findings.test_host_pause import job as pausing_job
from tests.diagnosis.findings.thresholds import Case, cases
from tests.kineto_text import step

NS_PER_MS = 1_000_000

intervals = st.lists(
    st.tuples(st.integers(0, 300), st.integers(1, 40)).map(lambda pair: (pair[0], sum(pair))),
    min_size=1,
    max_size=12,
)


FAR = (0, 10_000_000_000)
"""A recording that is longer than all that is looked for in it."""

NOTHING = Edges.of(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


def edges_of(pairs):
    both = np.array(pairs, dtype=np.int64)
    return Edges.of(both[:, 0], both[:, 1])


def held(pairs, start, end):
    """Time of intervals in a window, one by one."""
    return sum(max(min(last, end) - max(first, start), 0) for first, last in pairs)


def is_first(_folder, part):
    """Whether a part in one piece is shown, and not the other pieces, which have gaps."""
    length = round(1000 * part)
    others = [(place, place + 10) for place in range(10_000, 10_000 + 2 * (1000 - length), 20)]
    return windows_of(edges_of([(0, length), *others]), 10_000, NOTHING)[0].start_ns == 0


def is_with_what_follows(_folder, part):
    """Whether a window takes in what comes after a gap, and is this part busy then."""
    gap = round(15_000 / part) - 15_000
    pairs = [(0, 10_000), (10_000 + gap, 15_000 + gap)]
    return windows_of(edges_of(pairs), 30_000, NOTHING)[0].end_ns == 15_000 + gap


def names_the_longest(_folder, part):
    """Whether it is said where the longest interval is, far from many others."""
    short = round(10_000 * (1 - part) / 101)
    length = short + round(10_000 * part)
    starts = np.append(np.arange(100) * (short + 1), 100_000)
    ends = starts + np.append(np.full(100, short), length)
    shown = put_together({0: Stretches(starts, ends)}, 20_000, FAR)
    return "the longest interval is in window" in shown.words(0)


def has_another_window(_folder, part):
    """Whether a short interval, far from a long one, has a window of its own."""
    length = round(part * 1_000_000)
    starts = np.array([0, 5_000_000], dtype=np.int64)
    ends = starts + np.array([1_000_000 - length, length])
    return len(put_together({0: Stretches(starts, ends)}, 1_000_000, FAR).windows) == 2


test_thresholds = cases(
    Case("proof.LEAST_LEFT", has_another_window, {0.00049: False, 0.00051: True}),
    Case("proof.MUCH_LONGER", names_the_longest, {0.039: False, 0.041: True}),
    Case("proof.LEAST_SHARE", is_first, {0.19: False, 0.21: True}),
    Case("proof.NEARLY_AS_DENSE", is_with_what_follows, {0.89: False, 0.91: True}),
)


def two_pauses(rank, number):
    return 4000 if rank == 1 and number in (3, 6) else 0


def late_host(*, steps=5, late_us=60):
    """One rank whose host launches more slowly than its short kernels run."""
    host = Host()
    for number in range(steps):
        begin = host.now
        for _ in range(40):
            host.now += late_us
            host.launch(10)
        host.synchronise()
        host.events.append(step(number, begin, host.now - begin))
    return host


class TestIntervals:
    def test_of_two_pauses_are_two_on_their_rank(self, tmp_path):
        diagnosis = diagnosed(tmp_path, *pausing_job(two_pauses))
        seen = diagnosis.proof(found(diagnosis, "host_pause")).intervals
        assert seen["rank"].tolist() == [1, 1]
        assert (seen["end_ns"] - seen["start_ns"]).tolist() == pytest.approx([3.7e6] * 2, rel=0.1)

    def test_add_up_to_the_idle_time_of_the_finding_exactly(self, tmp_path):
        diagnosis = diagnosed(tmp_path, *pausing_job(two_pauses))
        seen = diagnosis.proof(found(diagnosis, "host_pause"))
        steps = diagnosis.steps[diagnosis.steps["rank"] == 1]
        total = int((seen.intervals["end_ns"] - seen.intervals["start_ns"]).sum())
        assert total == steps["gap_pause_ns"].sum() > 0

    def test_of_what_is_replayed_add_up_to_the_price_exactly(self, tmp_path):
        """Idle time behind a late host is any; only the replay tells which would not pass."""
        diagnosis = diagnosed(tmp_path, late_host())
        finding = found(diagnosis, "launch_bound")
        assert isinstance(finding.seen.what, Removed)
        seen = diagnosis.proof(finding)
        steps = diagnosis.steps["step"].nunique()
        assert seen.ms == pytest.approx(
            finding.recoverable_ms * steps, abs=len(seen.intervals) / 1e6
        )

    def test_lie_inside_of_the_steps_that_the_price_is_found_in(self, tmp_path):
        diagnosis = diagnosed(tmp_path, late_host())
        seen = diagnosis.proof(found(diagnosis, "launch_bound")).intervals
        spent = diagnosis.steps["period_ns"].sum()
        assert 0 < seen["end_ns"].max() - seen["start_ns"].min() <= spent

    def test_of_a_finding_that_does_not_say_what_it_is_seen_in_are_none(self, tmp_path):
        diagnosis = diagnosed(tmp_path, *pausing_job(two_pauses))
        finding = replace(found(diagnosis, "host_pause"), seen=None)
        nothing = diagnosis.proof(finding)
        assert nothing.intervals.empty
        assert nothing.windows.empty
        assert (nothing.ms, nothing.why_less) == (0, "")

    def test_of_a_name_are_refused(self, tmp_path):
        diagnosis = diagnosed(tmp_path, late_host())
        for ask in (diagnosis.proof, lambda cause: diagnosis.together([cause])):
            with pytest.raises(TypeError, match=r"such as diagnosis\[0\], got 'launch_bound'"):
                ask("launch_bound")
        with pytest.raises(TypeError, match=r"limits must be hta_widgets\.Limits"):
            hta_widgets.diagnose(diagnosis.job, limits={"least_percent": 2})


class TestWindows:
    def test_first_is_a_whole_pause_with_a_margin(self, tmp_path):
        diagnosis = diagnosed(tmp_path, *pausing_job(two_pauses))
        seen = diagnosis.proof(found(diagnosis, "host_pause"))
        first = seen.windows.iloc[0]
        length = first["end_ns"] - first["start_ns"]
        assert first["percent"] == pytest.approx(50, abs=1)
        assert (first["ranks"], first["intervals"]) == ((1,), 1)
        start, end = seen.shown_ns(0)
        assert (end - start) / length == pytest.approx(1 + 2 * MARGIN, rel=1e-3)
        assert seen.words(0) == "1 of 2 intervals on rank 1 · this window holds 50 %"

    def test_the_margin_is_inside_the_recording(self):
        """A window of 12.4 s in a recording of 12 s had 470 ms "not analysed"."""
        both = Stretches(np.array([1_000], dtype=np.int64), np.array([9_000], dtype=np.int64))
        assert put_together({0: both}, 20_000, (900, 9_100)).shown_ns(0) == (900, 9_100)
        assert put_together({0: both}, 20_000, FAR).shown_ns(0) == (200, 9_800)

    def test_nothing_is_shown_outside_of_the_analysed_steps(self, tmp_path):
        diagnosis = diagnosed(tmp_path, *pausing_job(two_pauses))
        seen = diagnosis.proof(found(diagnosis, "host_pause"))
        steps = diagnosis.steps[diagnosis.steps["rank"] == 1]
        assert seen.bounds_ns == (0, steps["period_ns"].sum())

    def test_no_window_follows_one_whose_margin_shows_the_rest(self):
        """It said "window 1 of 2" and "this window holds 100 %"."""
        starts = np.array([10_000, 90_900], dtype=np.int64)
        ends = np.array([90_000, 91_500], dtype=np.int64)
        seen = put_together({0: Stretches(starts, ends)}, 1_000_000, FAR)
        assert len(seen.windows) == 1
        assert seen.words(0) == "2 of 2 intervals on rank 0 · this window holds 100 %"

    def test_words_count_what_the_margin_shows(self):
        """Of 204 intervals, 51 were said to be in a window that showed 56."""
        starts = np.arange(50, dtype=np.int64) * 1_000
        seen = put_together({0: Stretches(starts, starts + 500)}, 20_000, FAR)
        first, last = seen.shown_ns(0)
        shown = [(max(each, first), min(each + 500, last)) for each in starts.tolist()]
        lengths = [end - start for start, end in shown if end > start]
        assert len(lengths) > seen.windows["intervals"].iloc[0]
        held = percent(100 * sum(lengths) / (50 * 500))
        assert seen.words(0).startswith(
            f"{len(lengths)} of 50 intervals on rank 0 · this window holds {held}"
        )

    def test_hold_all_of_few_intervals(self, tmp_path):
        diagnosis = diagnosed(tmp_path, *pausing_job(two_pauses))
        seen = diagnosis.proof(found(diagnosis, "host_pause"))
        assert seen.windows["percent"].sum() == pytest.approx(100)
        assert seen.why_less == ""

    def test_that_hold_little_say_why(self):
        """In 2 s there is a kernel of 1 µs in each ms: 1 ms is as much as shows single ones."""
        starts = np.arange(2_000, dtype=np.int64) * 1_000_000
        seen = put_together({0: Stretches(starts, starts + 1_000)}, 2_000_000_000, FAR)
        assert seen.windows["percent"].iloc[0] < 100 * LEAST_SHARE
        assert ": they are short (1 µs) and spread over the time" in seen.words(0)
        assert "spread" not in seen.words(1)

    @given(intervals)
    def test_the_densest_is_that_of_trying_all(self, pairs):
        least = LEAST_SHARE * sum(end - start for start, end in pairs)
        window = densest(edges_of(pairs), least)
        every = [
            (held(pairs, start, end), end - start)
            for start, _ in pairs
            for _, end in pairs
            if end > start and held(pairs, start, end) >= least
        ]
        assert window.held_ns == held(pairs, window.start_ns, window.end_ns) >= least
        rate = window.held_ns / (window.end_ns - window.start_ns)
        assert rate == pytest.approx(max(time / length for time, length in every))

    @given(intervals, st.integers(1, 400))
    def test_of_those_nearly_as_dense_it_is_the_fullest(self, pairs, longest_ns):
        dense = densest(edges_of(pairs), 0)
        rate = dense.held_ns / (dense.end_ns - dense.start_ns)
        every = [
            held(pairs, start, end)
            for start, _ in pairs
            for _, end in pairs
            if end > start and held(pairs, start, end) > NEARLY_AS_DENSE * rate * (end - start)
        ]
        assert widened(edges_of(pairs), dense, 400).held_ns >= max(every)
        found = widened(edges_of(pairs), dense, longest_ns)
        assert found.held_ns == held(pairs, found.start_ns, found.end_ns) >= dense.held_ns
        length_ns = found.end_ns - found.start_ns
        assert found == dense or length_ns <= longest_ns
        assert found.held_ns >= NEARLY_AS_DENSE * rate * length_ns * (1 - 1e-9)

    def test_first_shows_what_is_named_if_that_is_enough(self):
        """The densest is of another part of the program than the sentence (MI250: 40 %)."""
        dense, named = [(0, 600)], [(2_000, 2_200), (2_400, 2_600)]
        edges = edges_of([*dense, *named])
        assert windows_of(edges, 1_000, edges_of(named))[0][:2] == (2_000, 2_200)
        assert windows_of(edges, 1_000, edges_of([(2_000, 2_090)]))[0][:2] == (0, 600)

    @given(intervals, st.integers(1, 400), st.data())
    def test_are_disjoint_and_divide_the_time_among_them(self, pairs, longest_ns, data):
        named = data.draw(st.lists(st.sampled_from(pairs), unique=True))
        windows = windows_of(edges_of(pairs), longest_ns, edges_of(named) if named else NOTHING)
        ordered = sorted(windows)
        for one, other in pairwise(ordered):
            assert one.end_ns <= other.start_ns
        for each in windows:
            assert each.held_ns == held(pairs, each.start_ns, each.end_ns) > 0
        assert sum(each.held_ns for each in windows) == sum(end - start for start, end in pairs)
        assert [each.held_ns for each in windows[1:]] == sorted(
            (each.held_ns for each in windows[1:]), reverse=True
        )
