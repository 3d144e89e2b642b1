"""The calls inside which most of some time passes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from hta_widgets.analyses.flame.call_tree import CallTree, Weights, call_tree
from hta_widgets.analyses.time.calls import calls_of
from hta_widgets.analyses.time.patterns import AUTOGRAD_THREAD
from hta_widgets.arrays import Int64Array
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.nesting import NO_PARENT
from hta_widgets.trace.ranks.rank import Rank

CODE_OF_USERS: Final = re.compile(r"^(?!.*\btorch/|<)(?=.*\.py\(\d+\))|^nn\.Module: ")
"""Frames of modules, and of Python functions that are not PyTorch's."""

LOADERS: Final = {
    "single": re.compile(r"_SingleProcessDataLoaderIter"),
    "workers": re.compile(r"_MultiProcessingDataLoaderIter"),
}


class Telling(NamedTuple):
    """A call whose name tells users where the code is.

    Attributes
    ----------
    name : str
    is_operator : bool
    """

    name: str
    is_operator: bool


class Inside(NamedTuple):
    """Where most of some time passes: each of the calls holds more than half of it.

    Attributes
    ----------
    whole_ns : int
    ns_of : mapping of str to int
        Time inside all calls of a name, whatever is around them: the first batch of a loader may
        be asked for elsewhere than the others.
    chain : tuple of Telling
        Modules, annotations, functions of the user's code and operators directly inside these
        around most of the time, from outermost to innermost.
    loader : str
        Key of `LOADERS` for the DataLoader among these calls, empty for none.
    """

    whole_ns: int = 0
    ns_of: Mapping[str, int] = {}
    chain: tuple[Telling, ...] = ()
    loader: str = ""


def inside(rank: Rank, places: Int64Array, length_ns: Times) -> Inside:
    """Follow some time from the outermost call inwards, as long as most of it is in one path.

    Parameters
    ----------
    rank : Rank
    places : ndarray of int64
        Place of the call to which each piece belongs, -1 for none.
    length_ns : ndarray of int64
    """
    no_work = np.full(places.size, -1)
    tree = call_tree(calls_of(rank), Weights(places, no_work, length_ns, ""))
    whole_ns, node = int(length_ns.sum()), -1
    chain: list[Telling] = []
    loader = ""
    while (children := tree.inside(node)).size:
        node = int(children[np.argmax(tree.total_ns[children])])
        if 2 * tree.total_ns[node] <= whole_ns:
            break
        name = tree.names[tree.name[node]]
        loader = next((key for key, known in LOADERS.items() if known.search(name)), loader)
        is_operator = bool(tree.kind[node] == Kind.CPU_OP)
        inside_operator = bool(chain) and chain[-1].is_operator
        if _tells(tree, node, name) and not (is_operator and inside_operator):
            chain.append(Telling(name, is_operator))
    return Inside(whole_ns, _time_by_name(tree), tuple(chain), loader)


def _time_by_name(tree: CallTree) -> dict[str, int]:
    """Time inside the outermost calls of each name that tells."""
    pairs = grouped(tree.name, tree.kind)
    tells = [_tells(tree, node, tree.names[tree.name[node]]) for node in pairs.first.tolist()]
    telling = np.array(tells, dtype=np.bool_)[pairs.of_rows]
    outermost, above = telling.copy(), tree.parent
    while (inside := above != NO_PARENT).any():
        outermost &= ~(inside & telling[above] & (tree.name[above] == tree.name))
        above = np.where(inside, tree.parent[above], NO_PARENT)
    nodes = np.flatnonzero(outermost)
    of_name = grouped(tree.name[nodes])
    sums = of_name.reduce(np.add, tree.total_ns[nodes]).tolist()
    codes = tree.name[nodes[of_name.first]].tolist()
    return {tree.names[code]: ns for code, ns in zip(codes, sums, strict=True) if ns}


def _tells(tree: CallTree, node: int, name: str) -> bool:
    """Whether a user knows where the code is by the name of the call."""
    kind = tree.kind[node]
    if kind == Kind.CPU_OP:
        return not AUTOGRAD_THREAD.search(name)
    return bool(kind == Kind.ANNOTATION or (kind == Kind.PYTHON and CODE_OF_USERS.search(name)))
