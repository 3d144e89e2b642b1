"""The finding: which ranks stand out, in one sentence."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import pandas as pd

from hta_widgets.analyses.rank_overlap.outlier_rules import FEWEST, FEWEST_FOR_MODIFIED, OUTLIER
from hta_widgets.analyses.rank_overlap.outliers import SHARES
from hta_widgets.analyses.rank_overlap.timeline import ACTIVITIES
from hta_widgets.errors import number_ranges
from hta_widgets.quantities import duration, number, percent

NOUNS = {"rank": "rank", "device": "GPU", "stream": "stream"}
LANE_KEYS = ["rank", "device", "stream"]
_NAMED = 12
_ELSEWHERE = 3
_WORDS = {
    "compute": "computation alone",
    "communicate": "communication alone",
    "overlap": "overlap",
    "empty": "neither computation nor communication",
}
_TWO = "two {}s are too few to tell which stands out"
_COMMUNICATION = ["communicate_percent", "overlap_percent"]
_MATTERS_PERCENT = 1
_DIGITS = 9
"""Of scores that are equal but for rounding, the first is named."""

_Row: TypeAlias = "pd.Series[Any]"


def lane_names(lanes: pd.DataFrame) -> list[str]:
    """Name of each lane: the rank, and as much of its device and stream as tells it from others.

    Parameters
    ----------
    lanes : DataFrame
        Has ``rank``, ``device`` and ``stream``.
    """
    rows = list(zip(*(lanes[key].tolist() for key in LANE_KEYS), strict=True))
    gpus = {(rank, device) for rank, device, _ in rows if device >= 0}
    several = len(gpus) > len({rank for rank, _ in gpus})
    return [
        f"{rank}"
        + (f" · GPU {device}" if several and device >= 0 else "")
        + (f" · stream {stream}" if stream >= 0 else "")
        for rank, device, stream in rows
    ]


def finding_on(lanes: pd.DataFrame, outliers: pd.DataFrame, nodes: pd.DataFrame, by: str) -> str:
    """Which node or lane stands out, and how, or that none does.

    Parameters
    ----------
    lanes, outliers, nodes : DataFrame
        Tables of a `RankOverlap`.
    by : str
        What a lane is.
    """
    measured = lanes[lanes["span_ns"] > 0]
    if measured.empty:
        return "No kernels on these ranks."
    if outliers["compared"].max() < FEWEST:
        return _too_few(measured, NOUNS[by])
    slow = nodes[nodes["column"].isin(SHARES) & (nodes["verdict"] == OUTLIER)]
    if len(slow):
        return _node_finding(lanes, nodes, slow, _elsewhere(outliers, slow))
    flagged = outliers[outliers["column"].isin(SHARES) & (outliers["verdict"] != "")]
    if len(flagged):
        return _lane_finding(lanes, flagged, NOUNS[by])
    middle = [percent(measured[share].median()) for share in SHARES]
    return (
        f"None of {len(measured)} {NOUNS[by]}s stands out; the median {NOUNS[by]} computes alone "
        f"for {middle[0]}, communicates alone for {middle[1]}, does both for {middle[2]} and "
        f"neither for {middle[3]} of its time."
    )


def _too_few(measured: pd.DataFrame, noun: str) -> str:
    if len(measured) >= FEWEST:
        return (
            f"{len(measured)} {noun}s, but fewer than {FEWEST} of any number: too few to tell "
            "which stands out."
        )
    rows = zip(lane_names(measured), measured.iterrows(), strict=True)
    said = "; rank ".join(f"{name} {_doing(row)}" for name, (_, row) in rows)
    return f"Rank {said}" + (f" ({_TWO.format(noun)})." if len(measured) > 1 else ".")


def _doing(lane: _Row) -> str:
    compute, communicate, both, neither = (percent(lane[share]) for share in SHARES)
    return (
        f"computes alone for {compute}, communicates alone for {communicate}, does both for "
        f"{both} and neither for {neither} of {duration(lane['span_ns'])}"
    )


def _elsewhere(outliers: pd.DataFrame, slow: pd.DataFrame) -> str:
    """Name the lanes of other nodes that stand out, the furthest first."""
    out = outliers[outliers["column"].isin(SHARES) & (outliers["verdict"] == OUTLIER)]
    out = out[~out["node"].isin(slow["node"])]
    if out.empty:
        return ""
    furthest = out.iloc[out["modified_z"].abs().round(_DIGITS).argsort()[::-1]]
    ranks = list(dict.fromkeys(furthest["rank"].tolist()))
    named = ", ".join(str(rank) for rank in ranks[:_ELSEWHERE])
    noun = "rank" if len(ranks) == 1 else "ranks"
    more = f" and {len(ranks) - _ELSEWHERE} more" if len(ranks) > _ELSEWHERE else ""
    return f"; on other nodes, {noun} {named}{more}"


def _node_finding(
    lanes: pd.DataFrame, nodes: pd.DataFrame, slow: pd.DataFrame, elsewhere: str
) -> str:
    most = slow.iloc[slow["score"].abs().round(_DIGITS).argmax()]
    of_node = lanes[lanes["node"] == most["node"]]
    ranks = number_ranges(of_node["rank"])
    waits = _communicates_less(of_node, lanes, slow[slow["node"] == most["node"]])
    return (
        f"Node {most['node']} (ranks {ranks}) stands out of {nodes['node'].nunique()} nodes: "
        f"{_deviation(most)} ({_score(most['score'], 'score')})"
        f"{'; the other nodes wait for it' if waits else ''}{elsewhere}."
    )


def _lane_finding(lanes: pd.DataFrame, flagged: pd.DataFrame, noun: str) -> str:
    certain = flagged[flagged["verdict"] == OUTLIER]
    rows = certain if len(certain) else flagged
    robust = rows["compared"] >= FEWEST_FOR_MODIFIED
    score = rows["modified_z"].where(robust, rows["leave_one_out_t"])
    place = int(score.abs().round(_DIGITS).argmax())
    most = rows.iloc[place]
    waits = _communicates_less(_same_lane(lanes, most), lanes, _same_lane(flagged, most))
    rule = "modified z" if robust.iloc[place] else "leave-one-out t"
    return (
        f"{_who(rows, most, lanes, noun)}: {_deviation(most)} ({_score(score.iloc[place], rule)})"
        f"{'; the others wait for it' if waits else ''}."
    )


def _who(rows: pd.DataFrame, most: _Row, lanes: pd.DataFrame, noun: str) -> str:
    index = lanes.set_index(LANE_KEYS).index.get_loc(tuple(most[LANE_KEYS]))
    name = f"rank {lane_names(lanes)[index]}"
    out = rows[LANE_KEYS].drop_duplicates()
    may = "" if most["verdict"] == OUTLIER else "may "
    if len(out) == 1:
        verb = "may stand" if may else "stands"
        return f"R{name[1:]} {verb} out of {most['compared']} {noun}s"
    named = f" ({number_ranges(out['rank'])})" if noun == "rank" and len(out) <= _NAMED else ""
    return f"{len(out)} of {len(lanes)} {noun}s {may}stand out{named}, most of all {name}"


def _deviation(row: _Row) -> str:
    activity = ACTIVITIES[SHARES.index(row["column"])]
    return (
        f"{_WORDS[activity]} takes {percent(row['value'])} of its time, {row['direction']} than "
        f"the median of {percent(row['median'])}"
    )


def _score(score: float, rule: str) -> str:
    return "all others are alike" if math.isinf(score) else f"{rule} {number(score)}"


def _communicates_less(of: pd.DataFrame, lanes: pd.DataFrame, flagged: pd.DataFrame) -> bool:
    """Whether others wait: communication is short, and not because it is overlapped."""
    exposed = flagged[flagged["column"] == "communicate_percent"]
    communication = lanes[_COMMUNICATION].sum(axis=1)
    less = communication.median() - communication[of.index].median()
    return bool((exposed["direction"] == "lower").any() and less > _MATTERS_PERCENT)


def _same_lane(table: pd.DataFrame, lane: _Row) -> pd.DataFrame:
    return table[(table[LANE_KEYS] == lane[LANE_KEYS].to_numpy()).all(axis=1)]
