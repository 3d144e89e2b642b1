"""What a replay gives for every real trace: steps, and prices to 4 digits; null without GPU work.

An independent replay of the same traces gives the same but for `DIFFERENT`, where the raw trace
says why. A value changes on purpose only, and the commit says why::

    python -m tests.golden.test_replay   # writes replay.json anew
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hta_widgets.diagnosis.replay.replay import Replay
from tests.conftest import REAL_TRACES
from tests.diagnosis.replay.replayed import EDITS, replayed
from tests.diagnosis.replay.usual_times import step_errors
from tests.golden.reference import opened
from tests.golden.test_verdicts import recordings

VALUES = Path(__file__).with_name("replay.json")
LEAST_MS = 0.001

CLOSE_PERCENT, NEAR_PERCENT = 1.0, 3.0
MOST_UNEXPLAINED_PERCENT = 1.0

INDEPENDENT = REAL_TRACES.parent / "reference" / "replay.json"
LIMITING_GPU_PERCENT, LIMITING_HOST_PERCENT = 0.1, 2.0
OF_GPU = ("slow_host_copies", "exposed_communication")
LEAST_DIFFERENCE_MS = 0.01

_CREATED = (
    "cudaStreamCreateWithFlags, 474 and 733 ms, initialises: the other counts it as launching"
)
_CAPTURED = "18.4 ms without any call, in which 1,322 correlation ids go by, are no launching"
_OTHER_STREAM = "without launching, the last computing kernel is another: it ends at 434.9 ms"
_NO_WAIT = "cudaMemcpyAsync within the device does not wait: two calls merely took 19 and 25 µs"
_FULL_QUEUE = (
    "1,138 operations launched before the recording fill the queue: launches wait for copies"
)
_STAGED = (
    "784 bytes are staged: the call returns 0.5 µs before its copy ends, its like before it begins"
)

_LOADS = "hipLaunchKernel loads code for 6.5 ms: the host goes on after that, not 6.5 ms before"

_FIRST = "what the first call of an operator allocates and waits for is initialising"
_BEGINS = "the step of the server begins with its span, 2.6 ms before the first kernel"
_BEHIND = "its pauses are those of an idle GPU only, and not of one that waits in a collective"
_ROOM = "kernels that find room late behind an exchange depend on it: 41 ms are no fixed latency"
DIFFERENT = {
    **{
        ("kineto/compare_control", price): _ROOM
        for price in ("launch_bound", "host_twice", "blocking_sync", "exposed_communication")
    },
    ("kineto/compare_test", "exposed_communication"): _ROOM,
    ("kineto/compare_control", "host_pause"): _BEHIND,
    ("kineto/dlrm_2rank", "host_pause"): _BEHIND,
    ("kineto/b200_eager", "host_pause"): f"{_BEGINS}; {_FIRST}",
    ("kineto/mi250_toy", "host_twice"): _LOADS,
    ("kineto/alexnet", "launch_bound"): _CREATED,
    ("kineto/alexnet", "host_twice"): _CREATED,
    **{
        (f"kineto/{name}", price): _FIRST
        for name in ("alexnet", "simple_add")
        for price in ("allocator_retries", "host_pause")
    },
    ("kineto/simple_add", "launch_bound"): _CREATED,
    ("kineto/simple_add", "host_twice"): _CREATED,
    ("kineto/event_sync_multi_stream", "launch_bound"): _CAPTURED,
    ("kineto/event_sync_multi_stream", "host_twice"): _CAPTURED,
    ("kineto/dlrm_2rank", "launch_bound"): _OTHER_STREAM,
    ("kineto/dlrm_2rank", "host_twice"): _OTHER_STREAM,
    ("kineto/ddp_rank1of2", "host_pause"): _NO_WAIT,
    ("nsys/h100_2gpu_1s.sqlite", "slow_host_copies"): _FULL_QUEUE,
    ("nsys/h100_2gpu_1s.sqlite", "blocking_sync"): _STAGED,
}
"""Prices that the independent replay has otherwise, and why."""

LEAD_IN_MS = {
    "kineto/sglang_decode_graph": 463.299651,
    "kineto/b200_eager": -2.641664,
    "kineto/compare_test": 1.321800,
}
"""What the independent replay counts more: from the first kernel, of another stream, until work
launched before the recording is done, in compare_test a fifth of 6.6 ms; and that it begins with
the first kernel where ours begins with the span of the server's step."""

SERVED = {"kineto/sglang_decode_graph", "kineto/b200_eager", "kineto/vllm_piecewise"}
"""Recordings whose step is marked by a server, which the independent replay takes as a whole."""


def values(recording: str) -> dict[str, Any] | None:
    """What a replay of a recording gives; None without GPU work."""
    job = opened(REAL_TRACES / recording)
    if not any(len(job.gpu_work(rank)) for rank in job.ranks):
        return None
    replay = replayed(job)
    found = {
        "steps": list(replay.job.steps),
        "step_ms": round(replay.step_ms, 6),
        "unexplained_percent": rounded(replay.unexplained_percent),
        "unmatched_percent": rounded(replay.unmatched_percent),
        "off_ns": replay.off_ns,
        "dropped": replay.network.dropped,
        "errors_percent": [rounded(100 * each) for each in step_errors(job, replay).tolist()],
        "prices_ms": prices_ms(replay, peers_fixed=False),
    }
    if replay.has_unknown_peers:
        found["prices_with_peers_fixed_ms"] = prices_ms(replay, peers_fixed=True)
    return found


def prices_ms(replay: Replay, *, peers_fixed: bool) -> dict[str, float]:
    """What each edit brings, if it brings anything."""
    every = {
        name: replay.gain_ns(each, peers_fixed=peers_fixed) / 1e6 for name, each in EDITS.items()
    }
    return {name: rounded(price) for name, price in every.items() if price >= LEAST_MS}


def rounded(value: float) -> float:
    return float(f"{value:.4g}")


def test_every_real_trace_has_golden_values(real_traces):  # noqa: ARG001
    assert recordings() == sorted(json.loads(VALUES.read_text()))


@pytest.mark.parametrize("recording", json.loads(VALUES.read_text()))
def test_the_replay_of_a_real_trace(real_traces, recording):  # noqa: ARG001
    assert values(recording) == json.loads(VALUES.read_text())[recording]


def test_a_replay_gives_every_recording_back():
    found = [each for each in json.loads(VALUES.read_text()).values() if each]
    assert max(each["off_ns"] for each in found) <= 1e-6
    assert not any(each["dropped"] for each in found)


def test_the_structure_of_real_traces_tells_their_steps():
    """See `tests.diagnosis.replay.usual_times`; a recording in several formats counts once."""
    of = json.loads(VALUES.read_text())
    found = [each for name, each in of.items() if each and not name.startswith("converted")]
    every = np.concatenate([each["errors_percent"] for each in found])
    assert np.mean(every <= NEAR_PERCENT) >= 0.94
    explained = np.concatenate(
        [
            each["errors_percent"]
            for each in found
            if each["unexplained_percent"] < MOST_UNEXPLAINED_PERCENT
        ]
    )
    assert np.mean(explained <= CLOSE_PERCENT) >= 0.9


def differing(recording: str, ours: dict[str, Any], other: dict[str, Any]) -> set[tuple[str, str]]:
    """Prices that two replays have otherwise."""
    pairs = [("prices_ms", "prices_ms"), ("prices_with_peers_fixed_ms", "prices_fixed_peers_ms")]
    found = set()
    for own, theirs in pairs:
        mine = ours.get(own, {})
        for name, price in other[theirs].items():
            percent = LIMITING_GPU_PERCENT if name in OF_GPU else LIMITING_HOST_PERCENT
            least = max(price * percent / 100, LEAST_DIFFERENCE_MS)
            if name in EDITS and abs(mine.get(name, 0.0) - price) > least:
                found.add((recording, name))
    return found


def test_an_independent_replay_gives_the_same_but_for_known_reasons(real_traces):  # noqa: ARG001
    if not INDEPENDENT.is_file():
        pytest.skip(f"no {INDEPENDENT}")
    ours, others = json.loads(VALUES.read_text()), json.loads(INDEPENDENT.read_text())
    found: set[tuple[str, str]] = set()
    for recording, other in others.items():
        assert ours[recording]["steps"] == ([0] if recording in SERVED else other["steps"])
        counted_ms = other["step_ms"] - LEAD_IN_MS.get(recording, 0)
        assert ours[recording]["step_ms"] == pytest.approx(counted_ms, abs=1e-4)
        found |= differing(recording, ours[recording], other)
    assert found == set(DIFFERENT)


if __name__ == "__main__":
    found = {recording: values(recording) for recording in recordings()}
    lines = (f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in found.items())
    VALUES.write_text("{\n" + ",\n".join(lines) + "\n}\n")
