"""A one-sentence summary of the outliers."""

from __future__ import annotations

from typing import Any, TypeAlias

import pandas as pd

from hta_widgets.analyses.rank_overlap.outlier_rules import FEWEST, FEWEST_FOR_MODIFIED, OUTLIER
from hta_widgets.analyses.rank_overlap.outliers import SHARES, TIMES
from hta_widgets.quantities import duration, number_ranges, percent

NOUNS = {"rank": "rank", "device": "GPU", "stream": "stream"}
LANE_KEYS = ["rank", "device", "stream"]
_NAMED = 12
_ELSEWHERE = 3
_WORDS = {
    "compute": "computation without communication",
    "communicate": "communication that is not hidden",
    "overlap": "hidden communication",
    "graph": "time in CUDA graphs of unknown content",
    "empty": "time without a kernel",
}
_TWO = "two {}s are too few to compare with their median"
_COMMUNICATION = ["communicate_percent", "overlap_percent"]
_LESS = ", and it communicates less than the others"
_MATTERS_PERCENT = 1
_APART_PERCENT = 5
_DIGITS = 9
"""Digits that count: among scores that differ only by rounding, the first is named."""

_Row: TypeAlias = "pd.Series[Any]"


def lane_names(lanes: pd.DataFrame) -> list[str]:
    """Name of each lane: the rank, with device and stream if needed to distinguish it."""
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
    """Say which node or lane (what `by` says) is furthest from the median, or that none is."""
    measured = lanes[lanes["span_ns"] > 0]
    if measured.empty:
        return "No kernels on the selected ranks."
    if outliers["compared"].max() < FEWEST:
        return _too_few(measured, NOUNS[by])
    slow = nodes[nodes["column"].isin(SHARES) & (nodes["verdict"] == OUTLIER)]
    if len(slow):
        return _node_finding(lanes, nodes, slow, _elsewhere(outliers, slow))
    for columns in (SHARES, TIMES):
        flagged = outliers[outliers["column"].isin(columns) & (outliers["verdict"] != "")]
        if len(flagged):
            return _lane_finding(lanes, flagged, NOUNS[by])
    compute, communicate, both, graph, neither = (_median(measured[share]) for share in SHARES)
    graphs = f"CUDA graphs of unknown content {graph}, " if _has_graphs(measured) else ""
    return (
        f"None of {len(measured)} {NOUNS[by]}s is far from the median: only computing {compute}, "
        f"only communicating {communicate}, {graphs}both {both} and no kernel {neither} of the "
        "kernel span."
    )


def _median(shares: pd.Series[float]) -> str:
    """The median, and its range if wide: around 40 %, eight ranks had 15 to 59 %."""
    least, most = shares.min(), shares.max()
    apart = f" ({percent(least)} to {percent(most)})" if most - least > _APART_PERCENT else ""
    return f"{percent(shares.median())}{apart}"


def _has_graphs(lanes: pd.DataFrame) -> bool:
    return bool(lanes["graph_ns"].any())


def _too_few(measured: pd.DataFrame, noun: str) -> str:
    if len(measured) >= FEWEST:
        return (
            f"{len(measured)} {noun}s, but fewer than {FEWEST} with the same number: too few to "
            "compare with their median."
        )
    rows = zip(lane_names(measured), measured.iterrows(), strict=True)
    said = "; rank ".join(f"{name} {_doing(row)}" for name, (_, row) in rows)
    return f"Rank {said}" + (f" ({_TWO.format(noun)})." if len(measured) > 1 else ".")


def _doing(lane: _Row) -> str:
    compute, communicate, both, graph, neither = (percent(lane[share]) for share in SHARES)
    graphs = f"{graph} in CUDA graphs of unknown content, " if lane["graph_ns"] else ""
    return (
        f"spends {compute} of its kernel span ({duration(lane['span_ns'])}) only computing, "
        f"{communicate} only communicating, {graphs}{both} on both and {neither} without a kernel"
    )


def _elsewhere(outliers: pd.DataFrame, slow: pd.DataFrame) -> str:
    """Name the ranks far from the median on other nodes, furthest first."""
    out = outliers[outliers["column"].isin(SHARES) & (outliers["verdict"] == OUTLIER)]
    out = out[~out["node"].isin(slow["node"])]
    if out.empty:
        return ""
    furthest = out.iloc[out["modified_z"].abs().round(_DIGITS).argsort()[::-1]]
    ranks = list(dict.fromkeys(furthest["rank"].tolist()))
    named = ", ".join(str(rank) for rank in ranks[:_ELSEWHERE])
    nodes = "another node" if len(set(out["node"])) == 1 else "other nodes"
    noun = "rank" if len(ranks) == 1 else "ranks"
    more = f" and {len(ranks) - _ELSEWHERE} more" if len(ranks) > _ELSEWHERE else ""
    return f"; also far from the median on {nodes}: {noun} {named}{more}"


def _node_finding(
    lanes: pd.DataFrame, nodes: pd.DataFrame, slow: pd.DataFrame, elsewhere: str
) -> str:
    most = slow.iloc[slow["score"].abs().round(_DIGITS).argmax()]
    of_node = lanes[lanes["node"] == most["node"]]
    ranks = number_ranges(of_node["rank"])
    less = _communicates_less(of_node, lanes, slow[slow["node"] == most["node"]])
    return (
        f"Node {most['node']} (ranks {ranks}) differs most among {nodes['node'].nunique()} nodes: "
        f"{_deviation(most)}{_LESS if less else ''}{elsewhere}."
    )


def _lane_finding(lanes: pd.DataFrame, flagged: pd.DataFrame, noun: str) -> str:
    certain = flagged[flagged["verdict"] == OUTLIER]
    rows = certain if len(certain) else flagged
    robust = rows["compared"] >= FEWEST_FOR_MODIFIED
    score = rows["modified_z"].where(robust, rows["leave_one_out_t"])
    most = rows.iloc[int(score.abs().round(_DIGITS).argmax())]
    less = _communicates_less(_same_lane(lanes, most), lanes, _same_lane(flagged, most))
    return f"{_who(rows, most, lanes, noun)}: {_deviation(most)}{_LESS if less else ''}."


def _who(rows: pd.DataFrame, most: _Row, lanes: pd.DataFrame, noun: str) -> str:
    index = lanes.set_index(LANE_KEYS).index.get_loc(tuple(most[LANE_KEYS]))
    name = f"rank {lane_names(lanes)[index]}"
    out = rows[LANE_KEYS].drop_duplicates()
    if len(out) == 1:
        return f"R{name[1:]} differs most among {most['compared']} {noun}s"
    named = f" ({number_ranges(out['rank'])})" if noun == "rank" and len(out) <= _NAMED else ""
    return f"{len(out)} of {len(lanes)} {noun}s are far from the median{named}, {name} furthest"


def _deviation(row: _Row) -> str:
    activity, _, unit = row["column"].rpartition("_")
    said, of = (duration, "") if unit == "ns" else (percent, " of its kernel span")
    return (
        f"{_WORDS[activity]} takes {said(row['value'])}{of}, "
        f"{row['direction']} than the median of {said(row['median'])}"
    )


def _communicates_less(of: pd.DataFrame, lanes: pd.DataFrame, flagged: pd.DataFrame) -> bool:
    """Whether communication is shorter, and not because more of it is overlapped.

    If graphs were recorded as a whole, an unknown part of the communication may be in them.
    """
    if _has_graphs(lanes):
        return False
    exposed = flagged[flagged["column"] == "communicate_percent"]
    communication = lanes[_COMMUNICATION].sum(axis=1)
    less = communication.median() - communication[of.index].median()
    return bool((exposed["direction"] == "lower").any() and less > _MATTERS_PERCENT)


def _same_lane(table: pd.DataFrame, lane: _Row) -> pd.DataFrame:
    return table[(table[LANE_KEYS] == lane[LANE_KEYS].to_numpy()).all(axis=1)]
