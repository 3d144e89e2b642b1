"""How two jobs differ other than in their times, and what therefore cannot be concluded."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from math import prod
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import pandas as pd

from hta_widgets.diagnosis.change.summary import RUNTIME, Summary
from hta_widgets.diagnosis.change.work_done import WORK_OF_USERS
from hta_widgets.quantities import counted, number, number_ranges

Weight: TypeAlias = Literal["hardware", "method", "note"]

OTHER_SHARE: Final = 0.5
"""Share of the compute time of operators with one shape on each side. If more of it has other
shapes, the work differs."""

PADDING: Final = 0.05
"""Sizes that differ by rounding up are the same work; one sequence more or less in a batch of
twenty is different work."""

_TYPES: Final = re.compile(r' (?=\[")')
"""Separates the dimensions of an operator's inputs from their types."""

_TENSOR: Final = re.compile(r"\[[\d, ]*\]")
_NUMBER: Final = re.compile(r"\d{1,18}")


class Difference(NamedTuple):
    """Something in which two jobs differ."""

    what: str
    first: str
    second: str
    """Its value in each job."""
    forbids: str
    """What cannot be concluded."""
    weight: Weight
    """Whether the times come from different GPUs (``hardware``), from different work or recording
    (``method``), or can still be compared (``note``)."""

    @property
    def sentence(self) -> str:
        """The difference and what it forbids, in words."""
        return f"{self.what}: {self.first} → {self.second}; {self.forbids}"


def differences(first: Summary, second: Summary) -> tuple[Difference, ...]:
    """List how two jobs differ; what forbids most comes first."""
    found = [*_environment(first, second), *_work(first, second), *_recording(first, second)]
    order = ("hardware", "method", "note")
    return tuple(sorted(found, key=lambda each: order.index(each.weight)))


def _environment(first: Summary, second: Summary) -> Iterator[Difference]:
    one, other = first.environment, second.environment
    runtimes = [each["versions"].get(RUNTIME) for each in (one, other)]
    are_others = all(runtimes) and runtimes[0] != runtimes[1]
    before, after = map(_gpus, (one, other))
    if are_others or (one["gpus"] and other["gpus"] and one["gpus"] != other["gpus"]):
        said = "what became slower or faster may come from the hardware, not the program"
        yield Difference("GPU", before, after, said, "hardware")
    elif bool(one["gpus"]) != bool(other["gpus"]):
        yield Difference("GPU", before, after, "it is not known if both are the same", "note")
    if one["world_size"] and other["world_size"] and one["world_size"] != other["world_size"]:
        yield Difference(
            "ranks of the job",
            f"{one['world_size']:,}",
            f"{other['world_size']:,}",
            "a step does different work on each rank",
            "method",
        )
    elif one["ranks"] != other["ranks"]:
        same = len(one["ranks"]) == len(other["ranks"])
        yield Difference(
            "ranks that are compared",
            number_ranges(one["ranks"]) or "none",
            number_ranges(other["ranks"]) or "none",
            "ranks differ from one another" if same else "means are over different ranks",
            "note" if same else "method",
        )
    for name in sorted({*one["versions"]} & {*other["versions"]} - {RUNTIME}):
        before, after = one["versions"][name], other["versions"][name]
        if before != after:
            said = "kernels may have different names; modules and operators are matched"
            yield Difference(name.replace("_", " "), before, after, said, "note")


def _gpus(environment: Mapping[str, Any]) -> str:
    """The GPUs of a side; if unknown, the runtime that was called."""
    runtime = environment["versions"].get(RUNTIME)
    unnamed = f"not recorded ({runtime})" if runtime else "not recorded"
    return ", ".join(environment["gpus"]) or unnamed


def _work(first: Summary, second: Summary) -> Iterator[Difference]:
    for what in WORK_OF_USERS:
        # without steps, this is the work of the whole recording, which is what is compared
        if all(what in each.work and each.environment["steps_marked"] for each in (first, second)):
            before, after = (each.work[what] / max(each.rows, 1) for each in (first, second))
            if max(before, after) > (1 + PADDING) * min(before, after):
                of_step = f"{what} of a step"
                yield Difference(of_step, number(before), number(after), _OTHER_WORK, "method")
    shapes = [_only_shapes(each) for each in (first, second)]
    both = shapes[0].add_suffix("_first").join(shapes[1].add_suffix("_second"), how="inner")
    whole = int(both["time_ns_second"].sum())
    if not whole:
        return
    for what, column, weight, forbids in _OF_OPERATORS:
        differ = both[[_is_other(row, column) for row in both.to_dict("records")]]
        if int(differ["time_ns_second"].sum()) > OTHER_SHARE * whole:
            row = differ.nlargest(1, "time_ns_second").reset_index().to_dict("records")[0]
            before, after = row[f"{column}_first"], row[f"{column}_second"]
            yield Difference(what, f"{before} of {row['operator']}", f"{after}", forbids, weight)


_OTHER_WORK: Final = "a step does different work"

_OF_OPERATORS: Final[tuple[tuple[str, str, Weight, str], ...]] = (
    ("shapes of inputs", "dims", "method", _OTHER_WORK),
    ("types of inputs", "types", "note", "if that is the change, this is its price"),
)


def _is_other(row: Mapping[Hashable, Any], column: str) -> bool:
    """Whether types differ, or the elements of a call and of a step by more than padding."""
    before, after = (str(row[f"{column}_{side}"]) for side in ("first", "second"))
    if not (before and after):  # not recorded: PyTorch always has dimensions, types since 1.9
        return False
    sizes = [_elements(each) for each in (before, after)]
    if not all(sizes):
        return before != after
    of_step = [
        size * row[f"count_{side}"] for size, side in zip(sizes, ("first", "second"), strict=True)
    ]
    return all(abs(two / one - 1) > PADDING for one, two in (sizes, of_step))


def _elements(dims: str) -> float:
    """Number of elements of all tensors of an operator; 0 if the text holds no dimensions."""
    return float(
        sum(
            prod(map(int, _NUMBER.findall(each)))
            for each in _TENSOR.findall(dims)
            if _NUMBER.search(each)
        )
    )


def _only_shapes(each: Summary) -> pd.DataFrame:
    """Dimensions and types of operators that always have the same ones, by module."""
    known = each.spent[(each.spent["part"] == "compute") & (each.spent["shape"] != "")]
    known = known[known["operator"] != ""]
    parts = [[*_TYPES.split(text, maxsplit=1), ""] for text in known["shape"].tolist()]
    known = known.assign(dims=[each[0] for each in parts], types=[each[1] for each in parts])
    by_call = known.groupby(["module", "operator"])
    table = by_call[["dims", "types"]].first()
    table["time_ns"] = by_call["time_ns"].sum()
    table["count"] = by_call["count"].sum() / max(each.rows, 1)
    shapes = known[["module", "operator", "shape"]].drop_duplicates()
    return table[shapes.groupby(["module", "operator"]).size() == 1]


_RECORDED: Final = {
    "kernels": ("kernels", "what the GPU computes cannot be compared"),
    "host_code": ("operators", "causes cannot be told apart on one side"),
    "frames": ("Python frames (with_stack)", "recording them slows the host: its times differ"),
    "memory": ("memory events", "recording them slows the host a little"),
    "collectives": ("process groups and sizes", "waiting is known on one side only"),
}
_OTHER_METHOD: Final = frozenset({"kernels", "frames"})


def _recording(first: Summary, second: Summary) -> Iterator[Difference]:
    one, other = first.environment, second.environment
    words = {True: "recorded", False: "not recorded"}
    if one["steps_marked"] != other["steps_marked"]:
        yield Difference(
            "steps",
            words[one["steps_marked"]],
            words[other["steps_marked"]],
            "a step cannot be compared with a recording",
            "method",
        )
    for name, (what, forbids) in _RECORDED.items():
        had, has = (bool(each["recorded"][name]) for each in (one, other))
        if had != has:
            weight: Weight = "method" if name in _OTHER_METHOD else "note"
            yield Difference(what, words[had], words[has], forbids, weight)
    if any(each.left_out for each in (first, second)):
        before, after = (
            counted(len(each.left_out), "step") if each.left_out else "none"
            for each in (first, second)
        )
        if before != after:
            yield Difference("steps left out", before, after, "they are not counted", "note")
