"""Tables, links and owners behind the findings on hosts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.clocks.aligned import on_common_clock
from hta_widgets.analyses.time.rows import largest_first
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.gap_owners import (
    EVERY,
    LOADERS,
    HotPath,
    Owner,
    Stretch,
    is_in_standard_library,
    is_line_of_users,
    waits_by_operator,
)
from hta_widgets.diagnosis.finding import Price
from hta_widgets.diagnosis.proof.what import Idle
from hta_widgets.diagnosis.replay.edits import WithoutWaits
from hta_widgets.diagnosis.replay.waiting_calls import SYNCHRONISING, Wait
from hta_widgets.diagnosis.rules.wording import MUCH_MORE, named
from hta_widgets.quantities import NS_PER_MS, duration, percent

_NAME_WIDTH: Final = 40
_ALL: Final = 0.995
_MPI: Final = re.compile(r"MPI_[A-Z]")
_LOADERS: Final = {
    "single": "in the single-process DataLoader",
    "workers": "in the DataLoader with workers",
}


def owners_table(context: Context, ranks: Sequence[int], names: Sequence[str]) -> pd.DataFrame:
    """Table of the owners of idle time: ``rank``, ``owner``, ``place``, ``idle_ms``, ``times``."""
    rows = [
        (rank, owner.name, owner.around, owner.idle_ns / NS_PER_MS, owner.times)
        for rank, host in context.hosts(ranks).items()
        for name in names
        for owner in host.gaps.owners.get(name, ())
    ]
    table = pd.DataFrame(rows, columns=["rank", "owner", "place", "idle_ms", "times"])
    return largest_first(table, "idle_ms")


def stretches_table(context: Context, ranks: Sequence[int], name: str) -> pd.DataFrame:
    """Table of the longest intervals: operators around them, common-clock times."""
    rows = [
        (
            rank,
            *on_common_clock(context.job, rank, np.array(each[:2], dtype=np.int64)).tolist(),
            each.idle_ns / NS_PER_MS,
            each.before,
            each.after,
            each.inside,
        )
        for rank, host in context.hosts(ranks).items()
        for each in host.gaps.longest.get(name, ())
    ]
    times, operators = ("start_ns", "end_ns", "idle_ms"), ("before", "after", "inside")
    names = ["rank", *times, *(f"operator_{each}" for each in operators)]
    table = pd.DataFrame(rows, columns=names)
    return largest_first(table, "idle_ms")


def largest_owner(context: Context, ranks: Sequence[int], name: str) -> tuple[Owner, int] | None:
    """The owner of most idle time of a kind over all ranks, and how many ranks have it."""
    by_name: Mapping[tuple[str, str], list[Owner]] = defaultdict(list)
    for host in context.hosts(ranks).values():
        for owner in host.gaps.owners.get(name, ()):
            by_name[owner.name, owner.around].append(owner)
    if not by_name:
        return None
    same = max(by_name.values(), key=lambda owners: sum(each.idle_ns for each in owners))
    idle_ns, times = sum(each.idle_ns for each in same), sum(each.times for each in same)
    return same[0]._replace(idle_ns=idle_ns, times=times), len(same)


def times_on_ranks(
    context: Context, ranks: Sequence[int], owner: Owner, name: str
) -> tuple[int, ...]:
    """How many times an owner of idle time occurs on each rank."""
    return tuple(
        sum(
            each.times
            for each in host.gaps.owners.get(name, ())
            if (each.name, each.around) == (owner.name, owner.around)
        )
        for host in context.hosts(ranks).values()
    )


def owner_share(context: Context, ranks: Sequence[int], kind: str, name: str) -> float:
    """Fraction of the idle time of a kind that calls of a name own."""
    hosts = context.hosts(ranks).values()
    owned = (each for host in hosts for each in host.gaps.owners.get(kind, ()) if each.name == name)
    whole_ns = sum(part.whole_ns for part in _parts(context, ranks, kind))
    return sum(each.idle_ns for each in owned) / max(whole_ns, 1)


class Within(NamedTuple):
    """A call inside which most of the time of a finding passes."""

    name: str
    around: str
    """Call of the user's code around an operator or a function of Python's standard library; empty
    if there is none, and for other calls."""
    share: float
    """Fraction of the time, over all ranks of the finding."""
    loader: str
    """See `HotPath`; empty if it differs between ranks."""
    of: str = "this time"
    """What the share refers to, in words."""
    is_sampled: bool = False
    """Whether the share is estimated from samples of the CPU."""

    @property
    def evidence(self) -> dict[str, float]:
        """The share as evidence of the finding."""
        return {"inside_call_percent": 100 * self.share}

    @property
    def words(self) -> str:
        """The share, the call and the loader, after a comma."""
        loader = _LOADERS.get(self.loader, "")
        if self.is_the_loader:
            return f", {self.part} {loader}"
        return f"{self.call}{f', {loader}' if loader else ''}"

    @property
    def call(self) -> str:
        """The share and the call, after a comma or in brackets."""
        if self.loader and is_in_standard_library(self.name):
            part = "" if self.is_all else f"{self.part} "
            return f" ({part}blocked in {self.name.rpartition('/')[2]})"
        around = f" ({named(self.around, _NAME_WIDTH)})" if self.around else ""
        how = ", by CPU samples" * self.is_sampled
        return f", {self.part} inside {named(self.name, _NAME_WIDTH)}{around}{how}"

    @property
    def part(self) -> str:
        """The share in words."""
        return f"{'all' if self.is_all else percent(100 * self.share)} of {self.of}"

    @property
    def is_all(self) -> bool:
        """Whether it is practically all of the time."""
        return self.share >= _ALL

    @property
    def is_the_loader(self) -> bool:
        """Whether the call is the DataLoader itself, not something in it."""
        return bool(self.loader) and LOADERS[self.loader].search(self.name) is not None


def innermost_within(context: Context, parts: Sequence[HotPath]) -> Within | None:
    """The innermost call that holds `Limits.owner_percent` of the time of all ranks.

    It is an operator or function that holds this much itself, whoever calls it, or else one on the
    path of most of the time.
    """
    whole_ns = sum(part.whole_ns for part in parts)
    names = {each.name for part in parts for each in part.chain}
    inside_ns = {name: sum(part.ns_of.get(name, 0) for part in parts) for name in names}
    least_ns = context.limits.owner_percent / 100 * whole_ns
    loaders = {part.loader for part in parts}
    leaf = busiest_within(context, parts) if loaders == {""} else None
    for part in sorted(parts, key=lambda part: -part.whole_ns):
        held = [each for each in part.chain if inside_ns[each.name] >= least_ns]
        if held:
            name, is_operator = held[-1]
            around = held[-2].name if is_operator and len(held) > 1 else ""
            if (
                is_in_standard_library(name) and not part.loader
            ):  # who waits says more than queue.get
                lines = [each.name for each in held if is_line_of_users(each.name)]
                around = lines[-1] if lines else ""
            if leaf is not None and leaf.name != name:
                return leaf._replace(around=name)
            loader = part.loader if len(loaders) == 1 else ""
            return Within(name, around, inside_ns[name] / whole_ns, loader)
    return leaf


def busiest_within(context: Context, parts: Sequence[HotPath]) -> Within | None:
    """The operator or function that holds `Limits.owner_percent` of the time itself."""
    own_ns: dict[str, int] = defaultdict(int)
    for part in parts:
        for name, ns in part.own_ns.items():
            own_ns[name] += ns
    name = max(own_ns, key=lambda each: own_ns[each], default="")
    share = own_ns[name] / sum(part.whole_ns for part in parts) if name else 0.0
    if 100 * share < context.limits.owner_percent:
        return None
    return Within(name, "", share, "", is_sampled=any(name in part.sampled for part in parts))


def within_gap(context: Context, ranks: Sequence[int], name: str) -> Within | None:
    """The innermost call inside which most of the idle time of a kind passes."""
    return innermost_within(context, _parts(context, ranks, name))


def on_cpu_share(context: Context, ranks: Sequence[int], name: str) -> float:
    """Fraction of the idle time of a kind that passes in operators that compute on the CPU."""
    parts = _parts(context, ranks, name)
    return sum(part.on_cpu_ns for part in parts) / max(sum(part.whole_ns for part in parts), 1)


def operators_stopped_in(context: Context, ranks: Sequence[int], name: str) -> int:
    """In how many operators that launch work a kind of idle time occurs, on the rank with most."""
    return max((len(part.stops_in) for part in _parts(context, ranks, name)), default=0)


def busiest_within_idle(context: Context, ranks: Sequence[int]) -> Within | None:
    """The operator or function that itself holds most of the host's idle time.

    Only unexplained time counts: otherwise 65 % of it was in a loader's queue, which has a finding.
    """
    found = busiest_within(context, _unexplained(context, ranks))
    of = "the other idle time" if _explained_kinds(context) else "the idle time"
    return found._replace(of=of) if found else None


def within_idle(context: Context, ranks: Sequence[int]) -> Within | None:
    """The innermost call inside which most of the host's unexplained idle time passes."""
    found = innermost_within(context, _unexplained(context, ranks))
    return found._replace(of=of_idle(context)) if found else None


def of_idle(context: Context) -> str:
    """What shares of the host's unexplained idle time refer to, in words."""
    return "that time" if _explained_kinds(context) else "the idle time"


def _explained_kinds(context: Context) -> set[str]:
    """Kinds of idle time that findings explain."""
    seen = [each.seen.what for each in context.found.values() if each.seen]
    return {*chain.from_iterable(each.kinds for each in seen if isinstance(each, Idle))}


def _unexplained(context: Context, ranks: Sequence[int]) -> list[HotPath]:
    """Where idle time of the host passes that is of a kind no finding explains.

    Of 1.71 s, ``aten::conv1d`` held the 1.34 s of a finding, and none of the rest.
    """
    explained = _explained_kinds(context)
    left = []
    for host in context.hosts(ranks).values():
        paths = host.gaps.hot_paths
        if EVERY in paths:
            known = [paths[kind] for kind in explained if kind in paths]
            left.append(paths[EVERY].without(known))
    return [part for part in left if part.whole_ns > 0]


def sampled_functions(context: Context, ranks: Sequence[int]) -> list[tuple[str, float]]:
    """Functions in which that idle time passes by samples of the CPU, and its fraction in each."""
    parts, own_ns = _unexplained(context, ranks), Counter[str]()
    for part in parts:
        own_ns.update({name: part.own_ns.get(name, 0) for name in part.sampled})
    whole_ns = max(sum(part.whole_ns for part in parts), 1)
    return [(name, ns / whole_ns) for name, ns in own_ns.most_common()]


def largest_known(context: Context, ranks: Sequence[int]) -> tuple[str, float]:
    """The recorded call inside which most of that idle time passes, and its fraction.

    Only calls below `Limits.owner_percent` count; of nested ones, the innermost. All MPI calls are
    one.
    """
    parts, ns_of = _unexplained(context, ranks), Counter[str]()
    for part in parts:
        for name, ns in part.ns_of.items():
            ns_of["MPI calls" if _MPI.match(name) else name] += ns
    whole_ns = max(sum(part.whole_ns for part in parts), 1)
    most_ns = context.limits.owner_percent / 100 * whole_ns
    known = [(ns, place, name) for place, (name, ns) in enumerate(ns_of.items()) if ns < most_ns]
    ns, _, name = max(known, default=(0, 0, ""))
    return name, ns / whole_ns


def idle_ns_unexplained(context: Context, ranks: Sequence[int]) -> int:
    """The host's idle time that no finding explains, over all ranks and steps."""
    return sum(part.whole_ns for part in _unexplained(context, ranks))


def part_outside_calls(context: Context, ranks: Sequence[int], *, of_all: bool = False) -> float:
    """Fraction of that idle time in which the host is in no CUDA or operating system call.

    With `of_all`, of all time that the GPU waits for the host.
    """
    parts = _parts(context, ranks, EVERY) if of_all else _unexplained(context, ranks)
    whole_ns = sum(part.whole_ns for part in parts)
    return 1 - sum(part.in_calls_ns for part in parts) / max(whole_ns, 1)


def _parts(context: Context, ranks: Sequence[int], name: str) -> list[HotPath]:
    hosts = context.hosts(ranks).values()
    parts = [host.gaps.hot_paths[name] for host in hosts if name in host.gaps.hot_paths]
    return [part for part in parts if part.whole_ns]


def longest_stretch(
    context: Context, ranks: Sequence[int], name: str
) -> tuple[int, Stretch] | None:
    """The interval with most idle time of a kind, and its rank."""
    found = [
        (rank, each)
        for rank, host in context.hosts(ranks).items()
        for each in host.gaps.longest.get(name, ())[:1]
    ]
    return max(found, key=lambda pair: pair[1].idle_ns, default=None)


MOST_BY_WAITS: Final = 0.8
"""Fraction of the price that a host must gain by not waiting for the GPU for its waits to be the
cause. Waits that find the GPU idle count, too: without the first of several in a row, the next one
would drain the GPU instead."""

AS_LONG: Final = 0.5
"""Fraction of the longest wait above which a second operator is named as well."""

MOST_WAITING: Final = 0.5
"""Least fraction of all waits in the operators that are named."""

WITHOUT_WAITS: Final = WithoutWaits((Wait.COPY, *SYNCHRONISING))


def if_host_kept_up(context: Context, price: Price, hidden_ns: float) -> str:
    """Say, after a semicolon, what else a cause costs the GPU, if that is much more.

    Also say where the host waits for the GPU, if only that holds it back: for float32 products, the
    gain was 8 of 21 ms, with waits of 44 ms in two operators that nothing mentioned.
    """
    if hidden_ns <= MUCH_MORE * price.ns:
        return ""
    # including waits on a full queue, which cost nothing while the GPU works it off
    waits = WithoutWaits((*WITHOUT_WAITS.kinds, Wait.QUEUE))
    without, both = (
        context.replay.gain_ns((*edits, waits), context.steps.numbers)
        for edits in ((), price.edits)
    )
    where = waits_in(context, context.ranks) if both - without >= MOST_BY_WAITS * hidden_ns else ()
    how = f", as it would without waits in {' and '.join(map(named, where))}" if where else ""
    return f"; {duration(hidden_ns)} if the host kept up{how}"


def waits_in(context: Context, ranks: tuple[int, ...]) -> tuple[str, ...]:
    """The operator in which the host waits longest for the GPU, and another with a similar wait.

    A recommender waits for 5.9 ms of each step in ``aten::item``, and in ``aten::to`` at its end.
    None if most of the waiting is elsewhere.
    """
    job, waits, total_ns = context.replay.job, {}, Counter[str]()
    names = ("row", "kind", "start_ns", "end_ns", "own_ns")
    columns = (job.of_parts(f"waits.{name}") for name in names)
    for rank, row, kind, start_ns, end_ns, own_ns in zip(job.ranks, *columns, strict=True):
        if rank in ranks:
            chosen = np.isin(kind, WITHOUT_WAITS.kinds)
            waits[rank] = row[chosen], (end_ns - start_ns - own_ns)[chosen]
    for found in context.job.reduce_each(waits_by_operator, waits).values():
        total_ns.update(found)
    most = total_ns.most_common(2)
    long = {name: ns for name, ns in most if name and ns >= AS_LONG * most[0][1]}
    return tuple(long) if sum(long.values()) >= MOST_WAITING * total_ns.total() else ()
