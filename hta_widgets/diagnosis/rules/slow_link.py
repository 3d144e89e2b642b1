"""The same transfers take longer in one process group than in the others."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.communication.kernels import P2P
from hta_widgets.analyses.communication.recorded import bus_factor
from hta_widgets.arrays import Float64Array, Mask
from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.finding import Advice, Finding, Link, of_vendors
from hta_widgets.diagnosis.job.traffic import Traffic
from hta_widgets.diagnosis.limits import Limits
from hta_widgets.diagnosis.proof.what import Work
from hta_widgets.diagnosis.replay.edits import FasterLinks
from hta_widgets.diagnosis.rules.wording import the_ranks
from hta_widgets.quantities import NS_PER_US, data_size, number, number_ranges

FEWEST_ELEMENTS: Final = 1_000
"""Smaller transfers are bound by latency, which says nothing about the link."""

Ranks = tuple[int, ...]


class SlowGroup(NamedTuple):
    """A process group whose transfers take longer than the same transfers of other groups."""

    ranks: Ranks
    operation: str
    """Operation of the transfers that lose most."""
    size_bytes: int
    """Size of one of these transfers; -1 if unknown."""
    gb_per_s: float
    usual_gb_per_s: float
    """Bus bandwidth of these transfers in the group, and in the others; NaN if unknown."""
    factor: float
    """How many times as long these transfers take."""
    excess_ns: float
    """How much longer all transfers of the group take, in all steps together."""


def transfers_by_group(traffic: Traffic) -> pd.DataFrame | None:
    """Table with one row per operation, size, and group of at least two ranks.

    Columns: ``operation``, ``members``, ``elements``, ``bytes``, ``ranks`` (tuple; a send and the
    one back belong to one group), ``count``, ``transfer_ns`` (median), ``usual_ns`` (median of the
    same transfers in the other groups; NaN without others), ``gb_per_s`` (bus bandwidth). None if
    all transfers are of one group, which nothing can be compared with.
    """
    matches, kernels = traffic.matches, traffic.matches.kernels
    first = matches.rows[matches.edges[:-1]]
    chosen = np.flatnonzero(
        traffic.is_in_steps
        & traffic.waits.is_complete
        & matches.meets
        & _have_known_ranks(traffic)
        & (kernels.elements[first] > FEWEST_ELEMENTS)
    )
    groups = [_group(traffic, each) for each in chosen.tolist()]
    if len({*groups}) < 2:  # noqa: PLR2004
        return None
    series = [traffic.series[each] for each in chosen.tolist()]
    each = pd.DataFrame(
        {
            "operation": [one.operation for one in series],
            "members": [one.size for one in series],
            "elements": kernels.elements[first[chosen]],
            "bytes": kernels.size_bytes[first[chosen]],
            "ranks": groups,
            "transfer_ns": traffic.waits.transfer_of_all_ns[chosen],
        }
    )
    kinds = ["operation", "members", "elements", "bytes"]
    grouped = each.groupby([*kinds, "ranks"], sort=True)["transfer_ns"]
    table = grouped.agg(count="size", transfer_ns="median").reset_index()
    table["usual_ns"] = _of_other_groups(each, table, kinds)
    columns = (table[name].tolist() for name in ("operation", "members", "bytes", "transfer_ns"))
    table["gb_per_s"] = [*map(_speed, *columns)]
    return table


def slowest_group(table: pd.DataFrame, limits: Limits) -> SlowGroup | None:
    """The group of `transfers_by_group` that loses most by transfers that take longer."""
    excess = table["transfer_ns"] - table["usual_ns"]
    slow = table[_is_slow(table["transfer_ns"], table["usual_ns"], limits)]
    if slow.empty:
        return None
    slow = slow.assign(excess_ns=(excess * table["count"])[slow.index])
    of_group = slow.groupby("ranks", sort=True)["excess_ns"].sum()
    ranks = of_group.index[int(of_group.to_numpy().argmax())]
    of_worst = slow[[one == ranks for one in slow["ranks"]]]
    worst = of_worst.nlargest(1, "excess_ns").iloc[0]
    usual_ns = float(worst["usual_ns"])
    return SlowGroup(
        ranks=ranks,
        operation=str(worst["operation"]),
        size_bytes=int(worst["bytes"]),
        gb_per_s=float(worst["gb_per_s"]),
        usual_gb_per_s=_speed(worst["operation"], worst["members"], worst["bytes"], usual_ns),
        factor=float(worst["transfer_ns"]) / max(usual_ns, 1.0),
        excess_ns=float(of_group.max()),
    )


def _is_slow(transfer_ns: Any, usual_ns: Any, limits: Limits) -> Any:  # noqa: ANN401  # columns or numbers
    longer = transfer_ns > limits.slower_link * usual_ns
    return longer & (transfer_ns - usual_ns > limits.slower_link_us * NS_PER_US)


def _have_known_ranks(traffic: Traffic) -> Mask:
    """Whether the ranks in each collective's group are known: as recorded, or as those that met.

    If ranks are missing, the recorded ones may belong to several groups with the same name.
    """
    recorded = np.array([bool(each.ranks) for each in traffic.series], dtype=bool)
    named = np.array([bool(each.group and each.size) for each in traffic.series], dtype=bool)
    all_met = bool((recorded | traffic.waits.is_complete).all())
    return np.asarray(recorded | (named & all_met))


def _group(traffic: Traffic, collective: int) -> Ranks:
    matches, series = traffic.matches, traffic.series[collective]
    if series.ranks:
        return tuple(sorted(series.ranks)) if series.operation == P2P else series.ranks
    rows = matches.rows[matches.edges[collective] : matches.edges[collective + 1]]
    places = np.unique(matches.kernels.place[rows]).tolist()
    return tuple(matches.kernels.ranks[place] for place in places)


def _of_other_groups(each: pd.DataFrame, table: pd.DataFrame, kinds: list[str]) -> Float64Array:
    """Median of the same transfers in all groups other than the row's own."""
    usual = np.full(len(table), np.nan)
    by_kind = dict(iter(each.groupby(kinds, sort=False)))
    for row, (*kind, ranks) in enumerate(
        table[[*kinds, "ranks"]].itertuples(index=False, name=None)
    ):
        alike = by_kind[tuple(kind)]
        others = alike["transfer_ns"].to_numpy()[[one != ranks for one in alike["ranks"]]]
        if others.size:
            usual[row] = np.median(others)
    return usual


def _speed(operation: str, members: int, size_bytes: int, transfer_ns: float) -> float:
    """Bus bandwidth in GB/s, which is bytes per ns; NaN if unknown."""
    if size_bytes <= 0 or transfer_ns <= 0:
        return float("nan")
    return size_bytes * bus_factor(operation, int(members)) / transfer_ns


@cause(
    seen_in="transfer",
    limit="least_percent_slow_link",
    when="Transfers of one process group take 1.5 times as long as the same transfers of other "
    "groups, and at least 30 µs longer.",
    advice=(
        *of_vendors(
            "Check these ranks for link errors, and check their NICs and cables.",
            "nvidia-smi nvlink --errorcounters; ibstat",
            "amd-smi metric --xgmi-err; ibstat",
        ),
        Advice(
            "Let the library log which paths and devices it chose for these ranks.",
            "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH python train.py",
        ),
    ),
)
def slow_link(context: Context) -> Finding | None:
    """Report the group whose transfers take longest compared with the same transfers of others."""
    table = transfers_by_group(context.traffic)
    slow = None if table is None else slowest_group(table, context.limits)
    if table is None or slow is None:
        return None
    places = [place for place, rank in enumerate(context.ranks) if rank in slow.ranks]
    lost = np.zeros_like(context.steps["transfer"])
    lost[places] = slow.excess_ns / len(context.steps.numbers)
    usual = _usual_factors(context, table, slow)
    keys = context.replay.job.member_kernels
    links = FasterLinks(np.array([usual.get(key, 1.0) for key in keys]))
    price = context.price(lost, links)
    if not context.is_worth_it(slow_link, price.ns):
        return None
    ranks = tuple(context.ranks[place] for place in places)
    return context.finding(
        slow_link,
        words=_words(slow, ranks),
        price=price,
        ranks=ranks,
        steps=context.steps.marked,
        evidence={
            "operation": slow.operation,
            "factor": slow.factor,
            "groups": table.assign(ranks=[number_ranges(each) for each in table["ranks"]]),
        },
        links=(Link(panel="collectives", ranks=ranks),),
        seen_in=Work(frozenset(usual)),
    )


def _words(slow: SlowGroup, ranks: tuple[int, ...]) -> str:
    times = f"{number(slow.factor)} times as long as in other groups"
    what = {P2P: "sends"}.get(slow.operation, slow.operation)
    if np.isnan(slow.gb_per_s):
        return f"{the_ranks(ranks)}: {what} among them takes {times}"
    return (
        f"{the_ranks(ranks)} transfer at {number(slow.gb_per_s)} GB/s, other groups at "
        f"{number(slow.usual_gb_per_s)} GB/s ({what} of {data_size(slow.size_bytes)}, {times})"
    )


def _usual_factors(
    context: Context, table: pd.DataFrame, slow: SlowGroup
) -> dict[tuple[int, int], float]:
    """How many times as long each slow transfer would take at the pace of the other groups.

    Keys are the rank and the kernel's row.
    """
    of_group = table[[ranks == slow.ranks for ranks in table["ranks"]]]
    of_group = of_group[_is_slow(of_group["transfer_ns"], of_group["usual_ns"], context.limits)]
    names = ("operation", "members", "elements")
    kinds = zip(*(of_group[name].tolist() for name in names), strict=True)
    factors = (of_group["usual_ns"] / of_group["transfer_ns"]).tolist()
    usual: dict[tuple[str, int, int], float] = dict(zip(kinds, factors, strict=True))
    traffic, found = context.traffic, dict[tuple[int, int], float]()
    matches, kernels = traffic.matches, traffic.matches.kernels
    for collective in np.flatnonzero(traffic.is_in_steps & matches.meets).tolist():
        series = traffic.series[collective]
        rows = slice(*matches.edges[collective : collective + 2])
        elements = int(kernels.elements[matches.rows[matches.edges[collective]]])
        known = usual.get((series.operation, series.size, elements))
        if known is None or _group(traffic, collective) != slow.ranks:
            continue
        for kernel in matches.rows[rows].tolist():
            found[kernels.ranks[kernels.place[kernel]], int(kernels.row[kernel])] = known
    return found
