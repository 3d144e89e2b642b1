"""Tell recordings that do not belong together, and recordings that are the same one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np

from hta_widgets.trace.loaders.columns import whole_number
from hta_widgets.trace.ranks.rank import Rank

Facts = TypeVar("Facts")

MOST_WORK: Final = 10_000
"""Number of pieces of GPU work whose times are compared: the first ones of a rank."""

FEWEST_LENGTHS: Final = 32
"""Fewest different lengths that prove something: no two GPUs take the same times, to the ns, for so
many kernels of different length. A synthetic trace may have a few lengths, on all of its ranks."""


class RankIdentity(NamedTuple):
    """What identifies one recording."""

    times: str
    """Digest of when its GPU work runs, on its own clock, and how long; empty if equal times would
    prove nothing."""
    gpus: tuple[str, ...]
    """Distinct names of the GPUs that work; empty if not recorded."""
    only_gpu: str = ""
    """The recording, if it describes only one GPU, which all of its processes then share."""


def identity_of(rank: Rank) -> RankIdentity:
    """Look up what identifies the recording of a rank."""
    events = rank.trace.events
    rows = rank.gpu_work.rows
    start_ns, length_ns = events.start_ns[rows[:MOST_WORK]], events.duration_ns[rows[:MOST_WORK]]
    digest = blake2b(start_ns.tobytes() + length_ns.tobytes(), digest_size=16).hexdigest()
    told = np.unique(length_ns).size >= FEWEST_LENGTHS
    known = described_gpus(rank.trace.metadata)
    devices = np.flatnonzero(np.bincount(np.maximum(events.device[rows], 0))).tolist()
    names = {str(known[each].get("name", "")) for each in devices if each in known}
    only_gpu = rank.trace.source if len(known) == 1 and devices else ""
    return RankIdentity(digest if told else "", tuple(sorted(names - {""})), only_gpu)


def sharing_ranks(identities: Mapping[int, RankIdentity]) -> list[list[int]]:
    """Ranks that share a GPU, for each such GPU."""
    by_gpu: dict[str, list[int]] = {}
    for rank, each in identities.items():
        by_gpu.setdefault(each.only_gpu, []).append(rank)
    return [ranks for gpu, ranks in by_gpu.items() if gpu and len(ranks) > 1]


def described_gpus(metadata: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Properties of each GPU by its number, or by its position in the list if it has none."""
    listed = metadata.get("deviceProperties")
    found: dict[int, Mapping[str, Any]] = {}
    for place, each in enumerate(listed if isinstance(listed, list) else []):
        if isinstance(each, Mapping):
            number = whole_number(each.get("id", place))
            if number is not None:
                found[number] = _named(each)
    return found


_MI300X: Final = {
    "computeMajor": 9,
    "computeMinor": 4,
    "numSms": 304,
    "totalGlobalMem": 206_141_652_992,
}


def _named(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add the name that ROCm left out: without it, the peak of a server's GPU was not known."""
    is_known = {name: properties.get(name) for name in _MI300X} == _MI300X
    return (
        properties
        if properties.get("name") or not is_known
        else {**properties, "name": "AMD Instinct MI300X"}
    )


class GpusOfTrace(dict[int | None, Facts], Generic[Facts]):
    """Facts about GPUs by device number; an unlisted one is like the others, if all are alike."""

    def __init__(
        self, metadata: Mapping[str, Any], facts: Callable[[Mapping[str, Any]], Facts]
    ) -> None:
        """Collect facts from the properties of each GPU that the metadata of a trace describes."""
        super().__init__((number, facts(each)) for number, each in described_gpus(metadata).items())
        self._unknown = facts({})

    def __missing__(self, number: int | None) -> Facts:
        """Use the others: the list may have the numbers of the process, not of the machine.

        A process without GPU work, whose device is None, is like the others, too.
        """
        alike = {*self.values()}
        return alike.pop() if len(alike) == 1 else self._unknown
