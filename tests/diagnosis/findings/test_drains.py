"""What is advised about a blocking call: by the copy that it waits for, or the end of a step."""

from __future__ import annotations

import pytest

from tests.diagnosis.findings.scripts import Host, diagnosed, found
from tests.kineto_text import call, host


def copying(name, *, steps=5):
    """Steps that launch kernels, copy in an operator that waits, and launch again."""
    one = Host()
    for number in range(steps):
        with one.step(number):
            for _ in range(3):
                for _ in range(10):
                    one.launch(200)
                copy(one, name)
                one.does("aten::add", 300)
    return one


def copy(one, name, length=20):
    """An operator that copies when the GPU is free, and waits for it."""
    begin, done = one.now, one.free + length
    one.queue(length, name=name, cat="gpu_memcpy")
    one.events.append(call(begin + 6, done + 2 - begin - 6, 10**6 + one.launched, name=SYNC))
    one.events.append(host(begin, done + 3 - begin, "aten::copy_"))
    one.now = done + 3


SYNC = "cudaStreamSynchronize"


@pytest.mark.parametrize(
    ("name", "first", "conditions"),
    [
        (
            "Memcpy HtoD (Pageable -> Device)",
            "Copy from pinned memory with non_blocking=True.",
            "a copy waits, pageable memory, to the GPU",
        ),
        (
            "Memcpy HtoD (Pinned -> Device)",
            "Copy with non_blocking=True.",
            "a copy waits, pinned memory, to the GPU",
        ),
        (
            "Memcpy DtoH (Device -> Pageable)",
            "Copy into pinned memory, and wait only where the values are read.",
            "a copy waits, pageable memory, to the host",
        ),
        (
            "Memcpy DtoH (Device -> Pinned)",
            (
                "Start the copy without waiting for it, and wait for its event where the values "
                "are read."
            ),
            "a copy waits, pinned memory, to the host",
        ),
    ],
)
def test_advice_on_a_copy_that_waits_is_by_its_memory_and_direction(
    tmp_path, name, first, conditions
):
    finding = found(diagnosed(tmp_path, copying(name)), "blocking_sync")
    assert finding.evidence["conditions"] == conditions
    assert finding.action == first


def synchronising(place, *, steps=6, kernels=10):
    """Steps with an explicit synchronisation after some of their kernels, or between them."""
    one = Host()
    for number in range(steps):
        with one.step(number):
            for each in range(kernels):
                one.launch(200)
                if each == place:
                    one.synchronise()
                    one.does("aten::add", 300)
        if place == "between":
            one.synchronise()
            one.now += 300
    return one


@pytest.mark.parametrize("place", [9, "between"])
def test_a_synchronisation_with_nothing_after_it_in_the_step_may_be_the_timing_of_steps(
    tmp_path, place
):
    finding = found(diagnosed(tmp_path, synchronising(place)), "blocking_sync")
    assert finding.action.startswith(
        "Remove the synchronisation if it only ends a step for timing: events can time the"
    )
    assert finding.evidence["conditions"] == "an explicit synchronisation, at the end of a step"


def test_a_synchronisation_inside_of_a_step_is_not_its_timing(tmp_path):
    finding = found(diagnosed(tmp_path, synchronising(5)), "blocking_sync")
    assert finding.action.startswith("Remove the explicit synchronisation, or")
    assert finding.evidence["conditions"] == "an explicit synchronisation"
