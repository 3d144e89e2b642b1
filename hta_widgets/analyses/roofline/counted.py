"""The kernels of one rank, with the operator that each belongs to and the cost of the operator."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from hta_widgets.analyses.plain_text import one_line
from hta_widgets.analyses.roofline.formulas import (
    COMPILED,
    COMPUTING,
    NEEDS_VALUES,
    REFUSED,
    Cost,
    formula_of,
    inputs_of,
)
from hta_widgets.analyses.time.calls import calls_of, nearest_at_or_above
from hta_widgets.analyses.time.modules import module_paths
from hta_widgets.analyses.time.selection import EVERYTHING, TimeSelection, selected_work
from hta_widgets.analyses.time.tensor_cores import TensorCores, tensor_cores
from hta_widgets.arrays import Int64Array, IntArray, Mask, narrowed
from hta_widgets.grouping import grouped
from hta_widgets.intervals import Times
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.kernels import KernelType
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.gpu_work import GpuWork
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.ranks.replayed_calls import GRAPH_CALL

NO_LAUNCH: Final = -1
OUTSIDE: Final = -2
NO_SHAPES: Final = -3
NO_VALUES: Final = -4
NO_FORMULA: Final = -5
NOT_UNDERSTOOD: Final = -6
COMMUNICATION: Final = -7
IN_GRAPHS: Final = -8

REASONS: Final = {
    NO_LAUNCH: "launch not recorded",
    OUTSIDE: "outside operators",
    NO_SHAPES: "shapes not recorded",
    NO_VALUES: "values of inputs not recorded",
    NO_FORMULA: "no formula",
    NOT_UNDERSTOOD: "shapes or types not understood",
    COMMUNICATION: "communication",
    IN_GRAPHS: "in CUDA graphs",
}
"""Why a kernel is not counted, by the code that takes the place of its cost."""

HOW: Final = ("flop", "bytes", "inputs only")
"""What is counted for an operator, by code."""

MOST_OF_A_CALL: Final = 2**56
"""FLOP or bytes above which the shapes of a call must be damaged; sums would overflow."""

_TF32: Final = re.compile(r"tf32|s1688", re.IGNORECASE)


class CountedKernels(NamedTuple):
    """Kernels of one rank, or their parts that lie in some of its time."""

    row: Int64Array
    """Row of each kernel in the table of events."""
    is_first: Mask
    """Which parts are the first of their kernels."""
    device: IntArray
    duration_ns: Times
    call_ns: Times
    """Time of all kernels of the same call on the same device, including parts left out here."""
    kernel: IntArray
    """Codes of their names; stored in few bytes, like the columns that follow."""
    place: IntArray
    """Place of the operator that each belongs to, -1 for none."""
    name: IntArray
    dims: IntArray
    types: IntArray
    """Like the two columns above, codes of the operator's name and inputs, -1 for none."""
    path: IntArray
    """Code of the operator's module, -1 for none."""
    cost: IntArray
    """Position in `costs` of the cost of one call, or one of `REASONS`."""
    counted: IntArray
    """Position in `HOW`."""
    costs: list[Cost]
    texts: tuple[Sequence[str], ...]
    """Names of the events, shapes, types and modules by code."""
    has_shapes: bool = True
    """Whether any operator has shapes."""

    def take(self, chosen: Int64Array) -> CountedKernels:
        """Some of the kernels."""
        columns = (
            *("row", "is_first", "device", "duration_ns", "call_ns", "kernel", "place", "name"),
            *("dims", "types", "path", "cost", "counted"),
        )
        return self._replace(**{name: getattr(self, name)[chosen] for name in columns})

    def costs_of_calls(self) -> list[Cost]:
        """Cost of each call; if only a part of its time is here, the same part of its cost."""
        calls = grouped(self.device, self.place)
        here_ns = calls.reduce(np.add, self.duration_ns).tolist()
        whole_ns, code = self.call_ns[calls.first].tolist(), self.cost[calls.first].tolist()
        return [
            self.costs[each].of_part(here, whole)
            for each, here, whole in zip(code, here_ns, whole_ns, strict=True)
        ]

    def rows_of(self, operators: Collection[str]) -> Int64Array:
        """Rows of the kernels of some operators."""
        codes = [code for code, name in enumerate(self.texts[0]) if name in operators]
        return self.row[np.isin(self.name, codes)]

    def operator(self) -> str:
        """Name of the operator of the first kernel, empty for none."""
        return self.texts[0][self.name[0]] if self.name[0] >= 0 else ""

    def described(self) -> dict[str, Any]:
        """Operator and inputs of the first kernel."""
        return {
            "operator": self.operator(),
            "input_dims": one_line(self.texts[1][self.dims[0]]),
            "input_types": one_line(self.texts[2][self.types[0]]),
            "counted": HOW[self.counted[0]],
        }

    def reason(self) -> str:
        """Why the first kernel is not counted."""
        return REASONS[int(self.cost[0])]

    def module(self) -> str:
        """Path of the module with most of the time, empty for none."""
        ns = np.bincount(self.path.astype(np.int64) + 1, weights=self.duration_ns)
        most = int(ns.argmax()) - 1
        return self.texts[3][most] if most >= 0 else ""

    def dtype(self, of_inputs: str) -> str:
        """Type that the kernels compute in: TF32 if the longest of them says so."""
        if of_inputs != "fp32":
            return of_inputs
        name = self.texts[0][self.kernel[self.duration_ns.argmax()]]
        is_tf32 = tensor_cores(name) is TensorCores.YES and _TF32.search(name)
        return "tf32" if is_tf32 else of_inputs


def counted_kernels(rank: Rank, selection: TimeSelection | None = None) -> CountedKernels:
    """The kernels of a rank in some of its time, with what their operators cost."""
    every = _every(rank)
    work = GpuWork.joined(selected_work(rank, selection).values())
    work = work.take(np.flatnonzero(rank.trace.events.kind[work.rows] == Kind.KERNEL))
    order = np.argsort(every.row)
    found = every.take(order[np.searchsorted(every.row, work.rows, sorter=order)])
    is_first = (selection or EVERYTHING).counts(work)
    return found._replace(duration_ns=work.duration_ns, is_first=is_first)


@asked_once
def _every(rank: Rank) -> CountedKernels:
    """All kernels, including those of steps that are not analysed, which may run in other steps."""
    events, calls = rank.trace.events, calls_of(rank)
    work = GpuWork.joined([rank.gpu_work, rank.left_out_work])
    work = work.take(np.flatnonzero(events.kind[work.rows] == Kind.KERNEL))
    is_operator = calls.kind == Kind.CPU_OP
    computing = nearest_at_or_above(calls.forest, is_operator & calls.named(COMPUTING.get))
    owner = np.where(computing >= 0, computing, calls.operator[:-1])
    place = np.append(owner, -1)[calls.places_of(work.launch)]
    used, which = np.unique(place, return_inverse=True)
    inputs = _Inputs(rank, np.append(calls.forest.rows, -1)[used])
    name = np.append(calls.name.astype(np.int64), -1)[used]
    cost, counted, costs = _costs(name, inputs, events.name.values)
    cost[used < 0] = OUTSIDE
    of_kernel = np.where(work.launch >= 0, cost[which], NO_LAUNCH)
    of_kernel[(of_kernel < 0) & (work.type == KernelType.COMMUNICATION)] = COMMUNICATION
    paths = module_paths(rank)
    no_owner = used < 0
    dims, types = (np.where(no_owner, -1, column) for column in (inputs.dims, inputs.types))
    of_calls = grouped(work.device, place)
    codes = {
        "kernel": work.name,
        "place": place,
        "name": name[which],
        "dims": dims[which],
        "types": types[which],
        "path": paths.at(place),
        "cost": of_kernel,
        "counted": counted[which],
    }
    return CountedKernels(
        row=work.rows,
        is_first=np.ones(len(work), dtype=np.bool_),
        device=work.device,
        duration_ns=work.duration_ns,
        call_ns=of_calls.reduce(np.add, work.duration_ns)[of_calls.of_rows],
        **{name: narrowed(column) for name, column in codes.items()},
        costs=costs,
        texts=(events.name.values, inputs.dim_texts, inputs.type_texts, paths.paths),
        has_shapes=any(text.strip("[] \n") for text in inputs.dim_texts),
    )


class _Inputs:
    """Inputs of the operators in some rows, as codes of texts."""

    def __init__(self, rank: Rank, rows: Int64Array) -> None:
        events = rank.trace.events
        self.dims, self.dim_texts = events.texts_at("operators", "input_dims", rows)
        self.types, self.type_texts = events.texts_at("operators", "input_types", rows)
        self.values, self.value_texts = events.texts_at("operators", "concrete_inputs", rows)

    def texts_at(self, place: int) -> tuple[str, str, str]:
        """Shapes, types and values of one operator; empty if they were not recorded."""
        dims, types, values = self.dims[place], self.types[place], self.values[place]
        return (
            self.dim_texts[dims] if dims >= 0 else "",
            self.type_texts[types] if types >= 0 else "",
            self.value_texts[values] if values >= 0 else "",
        )


def _costs(
    name: Int64Array, inputs: _Inputs, names: Sequence[str]
) -> tuple[Int64Array, Int64Array, list[Cost]]:
    """Cost of one call of each operator, as codes of `Cost`; equal inputs are parsed once."""
    alike = grouped(name, inputs.dims, inputs.types, inputs.values)
    cost, counted = np.zeros((2, alike.sizes.size), dtype=np.int64)
    costs: list[Cost] = []
    for group, place in enumerate(alike.first.tolist()):
        operator = names[name[place]] if name[place] >= 0 else ""
        found = _cost(operator, *inputs.texts_at(place))
        cost[group] = found if isinstance(found, int) else len(costs)
        costs += [] if isinstance(found, int) else [found]
        counted[group] = _how(operator) if operator else 0
    return cost[alike.of_rows], counted[alike.of_rows], costs


def _how(operator: str) -> int:
    if operator in COMPUTING:
        return HOW.index("flop")
    return HOW.index("inputs only" if COMPILED.search(operator) else "bytes")


@lru_cache(maxsize=4096)  # ranks of a job share them
def _cost(operator: str, dims: str, types: str, values: str) -> Cost | int:
    """Cost of a call, or why it is not counted."""
    if GRAPH_CALL.fullmatch(operator):
        return IN_GRAPHS
    formula = formula_of(operator)
    if formula is None:
        return NO_FORMULA
    if not dims.strip("[] \n"):
        return NO_SHAPES
    if operator in NEEDS_VALUES and not values:
        return NO_VALUES
    try:
        cost = formula(inputs_of(dims, types, values))
    except REFUSED:
        return NOT_UNDERSTOOD
    return cost if max(cost.flop, cost.bytes) < MOST_OF_A_CALL else NOT_UNDERSTOOD
