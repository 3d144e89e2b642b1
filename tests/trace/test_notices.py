"""Equal notices of several ranks are merged."""

from __future__ import annotations

from hta_widgets.trace.model.notices import Notice, merge_notices

NOTICES = {
    0: [Notice("{} of {} are odd", (1, 1000)), Notice("no GPU work")],
    1: [Notice("{} of {} are odd", (2, 3000))],
    3: [Notice("no GPU work")],
}


def test_counts_are_summed_and_ranks_named():
    assert merge_notices(NOTICES, name_ranks=True) == [
        "ranks 0-1: 3 of 4,000 are odd",
        "ranks 0, 3: no GPU work",
    ]


def test_a_single_rank_is_not_named():
    assert merge_notices({0: NOTICES[0]}, name_ranks=False) == [
        "1 of 1,000 are odd",
        "no GPU work",
    ]
