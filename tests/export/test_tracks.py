"""No two slices of a written track cross, as Perfetto reads tracks."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.export.excerpt import write_excerpt
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, kernel, read, write

_REAL = [
    pytest.param("kineto/b200_eager", id="kernels of a stream"),
    pytest.param("kineto/vllm_piecewise_capture", id="calls of a thread"),
    pytest.param("nsys/h100_2gpu_1s.sqlite", id="two GPUs of one process"),
]


def as_read(number: object) -> int:
    """An id as Perfetto reads it: 32 bits, others are 0."""
    assert isinstance(number, int), "Perfetto reads a text as the number of its memory"
    return number if 0 <= number < 2**32 else 0


def slices(file: Path) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Start and end (ns) of the slices of each track, as Perfetto finds them."""
    found = defaultdict(list)
    for event in read(file)["traceEvents"]:
        if event["ph"] == "X":
            pid, tid = as_read(event["pid"]), as_read(event["tid"])
            start = round(float(event["ts"]) * 1_000)
            # Perfetto takes thread 0 of process 5 for thread 5.
            found[pid, tid or pid].append((start, start + round(float(event["dur"]) * 1_000)))
    return found


def dropped(track: list[tuple[int, int]]) -> int:
    """Number of slices that Perfetto drops: it sorts by start alone."""
    count, ends = 0, []
    for start, end in sorted(track, key=lambda each: each[0]):
        while ends and ends[-1] <= start:
            ends.pop()
        if ends and end > ends[-1]:
            count += 1
        else:
            ends.append(end)
    return count


times = st.tuples(
    st.integers(0, 12), st.integers(0, 8), st.sampled_from([0, 1, 2, 7]), st.integers(0, 1)
)


@given(works=st.lists(times, min_size=1, max_size=25), days=st.sampled_from([0, 20_000]))
def test_no_two_slices_of_a_track_cross_and_none_is_lost(tmp_path_factory, works, days):
    folder, first = tmp_path_factory.mktemp("tracks"), days * 86_400_000_000
    events = [
        kernel(first + start, length, stream=stream, device=device)
        for start, length, stream, device in works
    ]
    job = open_trace(write(folder / "trace.json", events), progress=False)
    [file] = write_excerpt(job, (0, 100_000), output_dir=folder)
    written = slices(file)
    assert not any(map(dropped, written.values()))
    lengths = Counter((end - start) // 1_000 for track in written.values() for start, end in track)
    assert lengths == Counter(length for _, length, _, _ in works)


@pytest.mark.parametrize("trace", _REAL)
def test_nothing_of_a_real_trace_is_dropped(real_traces, tmp_path, trace):
    job = open_trace(real_traces / trace, progress=False)
    rank = job.ranks[0]
    [file] = write_excerpt(job, (0, 10**12), [rank], output_dir=tmp_path)
    assert sum(map(dropped, slices(file).values())) == 0


def test_further_tracks_are_named_and_arrows_lead_to_them(tmp_path):
    works = [kernel(10, 10, correlation=1), kernel(15, 10, correlation=2)]
    job = open_trace(
        write(tmp_path / "trace.json", [call(0, 2, 1), call(3, 2, 2), *works]), progress=False
    )
    [file] = write_excerpt(job, (0, 100_000), output_dir=tmp_path)
    events = read(file)["traceEvents"]
    names = {each["tid"]: each["args"]["name"] for each in events if each["ph"] == "M"}
    tracks = [each["tid"] for each in events if each.get("cat") == "kernel"]
    assert [names[each] for each in tracks] == ["stream 7", "stream 7 (2)"]
    assert [each["tid"] for each in events if each["ph"] == "f"] == tracks
    assert open_trace(file, progress=False).rank(0).launches.max() >= 0
