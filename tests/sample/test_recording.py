"""What the sample job records beside operators and GPU work: inputs, functions, modules, memory."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest

from hta_widgets.sample import Recording, write_sample
from tests.kineto_text import read_exactly
from tests.test_sample import assert_nested

Event = dict[str, Any]
RANKS = 2
STEPS = 3
H100_BF16_TFLOPS = 989
CPU_CATEGORIES = {"cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "python_function"}
GIGABYTE = 10**9


def read(path: Path) -> Event:
    trace: Event = read_exactly(path)
    for event in trace["traceEvents"]:
        if "ts" in event:
            event["start_ns"] = int(event["ts"] * 1000)
            event["end_ns"] = int((event["ts"] + event.get("dur", 0)) * 1000)
    return trace


def written(folder: Path, recording: Recording | None = None) -> Event:
    paths = write_sample(folder, ranks=RANKS, steps=STEPS, recording=recording, progress=False)
    return read(paths[-1])


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Event:
    return written(tmp_path_factory.mktemp("full"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Event:
    return written(tmp_path_factory.mktemp("plain"), Recording())


@pytest.fixture(scope="module")
def memory(trace: Event) -> list[Event]:
    events = [event for event in trace["traceEvents"] if event["name"] == "[memory]"]
    return sorted(events, key=lambda event: event["start_ns"])


def of(trace: Event, *categories: str) -> list[Event]:
    return [event for event in trace["traceEvents"] if event.get("cat") in categories]


def named(events: list[Event], name: str) -> list[Event]:
    return [event for event in events if event["name"] == name]


def innermost(events: list[Event], time_ns: int) -> str:
    """Name of the shortest event around a moment."""
    around = [e for e in events if e["start_ns"] <= time_ns < e["end_ns"]]
    return min(around, key=lambda e: e["end_ns"] - e["start_ns"])["name"]


def test_recording_more_changes_no_time(trace: Event, plain: Event) -> None:
    added = {"python_function", "cpu_instant_event"}
    keys = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "id")
    without, rest = (
        [
            tuple(e.get(key) for key in keys)
            for e in each["traceEvents"]
            if e.get("cat") not in added
        ]
        for each in (plain, trace)
    )
    assert without == rest
    assert len(trace["traceEvents"]) > len(without)
    assert len(plain["traceEvents"]) == len(without)


def test_head_tells_what_was_recorded(trace: Event, plain: Event, tmp_path: Path) -> None:
    options = {"record_shapes", "with_stack", "with_modules", "profile_memory"}
    bare = written(tmp_path, Recording(shapes=False))
    assert [options & each.keys() for each in (trace, plain, bare)] == [
        options,
        {"record_shapes"},
        set(),
    ]
    assert not any("Input Dims" in event["args"] for event in of(bare, "cpu_op"))


def test_sections_come_in_the_order_of_kineto(trace: Event) -> None:
    sections = {
        "user_annotation": "operators",
        "cpu_op": "operators",
        "cpu_instant_event": "memory",
        "python_function": "functions",
        "kernel": "activities",
        "cuda_runtime": "activities",
    }
    found = [sections[e["cat"]] for e in trace["traceEvents"] if e.get("cat") in sections]
    assert [name for name, _ in groupby(found)] == list(dict.fromkeys(sections.values()))


def test_functions_nest_with_all_that_they_call(trace: Event) -> None:
    threads = defaultdict(list)
    for event in of(trace, *CPU_CATEGORIES):
        threads[event["tid"]].append(event)
    for thread in threads.values():
        assert_nested(thread)


def test_functions_know_their_callers_and_modules_their_number(trace: Event) -> None:
    functions = of(trace, "python_function")
    by_number = {event["args"]["Python id"]: event for event in functions}
    assert len(by_number) == len(functions)
    outermost = [e["name"] for e in functions if e["args"]["Python parent id"] is None]
    assert outermost == ["train.py(118): <module>"]
    for event in functions:
        caller = by_number.get(event["args"]["Python parent id"])
        if caller:
            assert caller["start_ns"] <= event["start_ns"] <= event["end_ns"] <= caller["end_ns"]
        is_module = event["name"].startswith("nn.Module: ")
        assert ("Python module id" in event["args"]) == is_module
        if is_module:
            assert event["name"].endswith(f"_{event['args']['Python module id']}")


def test_every_module_of_the_network_is_called_once_a_step(trace: Event) -> None:
    calls: dict[str, int] = defaultdict(int)
    for event in of(trace, "python_function"):
        if event["name"].startswith("nn.Module: "):
            calls[event["name"]] += 1
    assert set(calls.values()) == {STEPS}
    assert {name for name in calls if "Linear" in name} == {
        f"nn.Module: Linear_{number}" for number in range(9)
    }


def test_modules_can_be_left_out(tmp_path: Path) -> None:
    names = {e["name"] for e in of(written(tmp_path, Recording(stacks=True)), "python_function")}
    assert "<built-in function linear>" in names
    assert not [name for name in names if name.startswith("nn.Module")]


def test_memory_adds_up(memory: list[Event]) -> None:
    """Totals follow from the changes, and blocks are freed as they were allocated."""
    total = memory[0]["args"]["Total Allocated"] - memory[0]["args"]["Bytes"]
    alive: dict[int, int] = {}
    for event in memory:
        args = event["args"]
        total += args["Bytes"]
        assert args["Total Allocated"] == total <= args["Total Reserved"]
        if args["Bytes"] > 0:
            assert args["Addr"] not in alive
            alive[args["Addr"]] = args["Bytes"]
        else:
            assert alive.pop(args["Addr"], -args["Bytes"]) == -args["Bytes"]
    assert len({event["args"]["Total Reserved"] for event in memory}) == 1
    assert all(first["start_ns"] <= then["start_ns"] for first, then in pairwise(memory))


def test_blocks_never_overlap(memory: list[Event]) -> None:
    alive: dict[int, int] = {}
    for event in memory:
        address, size = event["args"]["Addr"], event["args"]["Bytes"]
        if size < 0:
            alive.pop(address, None)
            continue
        assert not [a for a, s in alive.items() if a < address + size and address < a + s]
        alive[address] = size


def test_memory_rises_in_forward_falls_in_backward_and_does_not_leak(
    trace: Event, memory: list[Event]
) -> None:
    annotations = of(trace, "user_annotation")
    ends = []
    for forward, backward, optimizer in zip(
        *(
            named(annotations, name)
            for name in ("## forward ##", "## backward ##", "Optimizer.step#AdamW.step")
        ),
        strict=True,
    ):
        at = {
            moment: max(
                (event for event in memory if event["start_ns"] <= time_ns),
                key=lambda event: event["start_ns"],
            )["args"]["Total Allocated"]
            for moment, time_ns in (
                ("before", forward["start_ns"]),
                ("between", backward["start_ns"]),
                ("after", backward["end_ns"]),
                ("end", optimizer["end_ns"]),
            )
        }
        assert at["between"] - at["before"] > 2 * GIGABYTE
        assert at["between"] - at["after"] > 2 * GIGABYTE
        ends.append(at["end"])
    assert len(set(ends)) == 1


def test_outputs_of_products_are_allocated_inside_them(trace: Event, memory: list[Event]) -> None:
    operators = of(trace, "cpu_op")
    sizes: dict[str, set[int]] = defaultdict(set)
    for event in memory:
        if event["args"]["Bytes"] > 0:
            sizes[innermost(operators, event["start_ns"])].add(event["args"]["Bytes"])
    tokens, width = 256 * 197, 768
    assert sizes["aten::addmm"] == {2 * tokens * width * n for n in (1, 3, 4)} | {512_000}


def test_products_do_what_their_shapes_say_below_the_peak_of_the_gpu(trace: Event) -> None:
    kernels = {event["args"]["External id"]: event for event in of(trace, "kernel")}
    rates = []
    for operator in of(trace, "cpu_op"):
        if operator["name"] not in ("aten::mm", "aten::addmm"):
            continue
        left, right = operator["args"]["Input Dims"][-2:]
        if operator["name"] == "aten::addmm":
            left, right = operator["args"]["Input Dims"][1:3]
        assert left[1] == right[0]
        kernel = kernels[operator["args"]["External id"]]
        flop = 2 * left[0] * left[1] * right[1]
        if flop > 10**10:
            rates.append(flop / (kernel["end_ns"] - kernel["start_ns"]) / 1000 / H100_BF16_TFLOPS)
    assert len(rates) == STEPS * 24
    assert 0.3 < min(rates) < max(rates) < 0.75


def test_inputs_are_described_in_four_lists_of_one_length(trace: Event) -> None:
    names = ("Concrete Inputs", "Input type", "Input Strides", "Input Dims")
    described = [e["args"] for e in of(trace, "cpu_op") if "Input Dims" in e["args"]]
    assert len(described) > 300 * STEPS
    for args in described:
        assert len({len(args[name]) for name in names}) == 1
        for shape, strides in zip(args["Input Dims"], args["Input Strides"], strict=True):
            assert len(shape) == len(strides)
            assert not strides or strides[0] * shape[0] == _elements(shape)


def _elements(shape: list[int]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
