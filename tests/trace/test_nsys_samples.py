"""Where the CPU was, by the samples in an Nsight Systems export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets import diagnose
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.nsys import samples
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks.cpu_samples import CpuSamples, cpu_samples
from tests import nsys_export
from tests.nsys_export import KERNEL, PID, RUNTIME, STRINGS, TID, owner

MS = 1_000_000

PROGRAM, MATHS, SYSTEM, PYTHON = "/home/me/solver", "libopenblas.so.0", "libc.so.6", "python3.12"
FUNCTIONS = {
    "own": ("update(float*, int) const [clone .part.0]", PROGRAM),
    "main": ("main", PROGRAM),
    "of compiler": ("float std::generate_canonical<float, 24ul>(int&)", PROGRAM),
    "of a library": ("gemm_thread_n", MATHS),
    "of the system": ("__memset_avx2", SYSTEM),
    "of the interpreter": ("_PyEval_EvalFrameDefault", PYTHON),
    "of CUDA": ("__cudart1050", PROGRAM),
    "without a name": ("0x7f72b474d6c9", "libcuda.so.525"),
}
TEXTS = ["gemm", "cudaLaunchKernel", *dict.fromkeys(sum(FUNCTIONS.values(), ()))]

Stack = tuple[float, tuple[str, ...]]
"""Time of a sample (ms), and its functions, the innermost first."""


def sampled(
    *stacks: Stack, tid: int = TID, unresolved: bool = False, first_ms: int = 10
) -> dict[str, Any]:
    """Tables of two kernels, 100 ms apart, and of samples of a thread."""
    number = {text: place for place, text in enumerate(TEXTS, start=1)}
    rows = [
        {
            "id": at,
            "symbol": number[FUNCTIONS[each][0]],
            "module": number[FUNCTIONS[each][1]],
            "stackDepth": depth,
            "unresolved": int(unresolved),
        }
        for at, (_, stack) in enumerate(stacks, start=1)
        for depth, each in enumerate(stack)
    ]
    times = [
        {"id": at, "start": int(ms * MS), "globalTid": owner(PID, tid), "cpu": 3}
        for at, (ms, _) in enumerate(stacks, start=1)
    ]
    starts = (first_ms * MS, (first_ms + 100) * MS)
    return {
        KERNEL: [nsys_export.kernel(at, at + MS, correlation=at) for at in starts],
        RUNTIME: [nsys_export.call(at - 9_000, at - 1_000, correlation=at) for at in starts],
        STRINGS: nsys_export.strings(*TEXTS),
        "COMPOSITE_EVENTS": times,
        "SAMPLING_CALLCHAINS": rows[::-1],
    }


@pytest.fixture(params=["sqlite", "parquetdir"])
def opened(request, tmp_path):
    def opened(tables: dict[str, Any]) -> Job:
        if request.param == "sqlite":
            path = nsys_export.write_sqlite(tmp_path / "report.sqlite", tables)
        else:
            path = nsys_export.write_parquetdir(tmp_path / "report_pqtdir", tables)
        return open_trace(path, progress=False)

    return opened


def functions(job: Job) -> list[str]:
    found = cpu_samples(job.rank(0))
    assert found is not None
    return [found.names[code] for code in found.function.tolist()]


@pytest.mark.parametrize(
    ("stack", "function"),
    [
        (("own", "main"), "own"),
        (("of the system", "of compiler", "own", "main"), "own"),
        (("of a library", "own"), "own"),
        (("of a library", "of the interpreter"), "of a library"),
        (("of compiler", "of a library"), "of a library"),
        (("of compiler",), "of compiler"),
        (("of the system", "of the interpreter"), None),
        (("of CUDA", "without a name"), None),
        ((), None),
    ],
)
def test_the_function_says_most_about_the_program(opened, stack, function):
    job = opened(sampled((20, stack), (21, ("main",))))
    name = FUNCTIONS[function][0] if function else ""
    assert functions(job) == [name.partition("<")[0].partition("(")[0], "main"]


def test_times_count_like_those_of_events(opened):
    job = opened(sampled((30, ("own",)), (20, ("main",))))
    table = job.rank(0).details(DetailGroup.CPU_SAMPLES).table.to_frame()
    begin_ns = 10 * MS - 9_000
    assert table["time_ns"].tolist() == [20 * MS - begin_ns, 30 * MS - begin_ns]
    assert table["function"].tolist() == ["main", "update"]
    assert {*table["pid"]} == {PID}
    assert {*table["tid"]} == {TID}


@pytest.mark.parametrize("start", [None, -1, 2**62])
def test_samples_without_a_time_in_the_session_are_left_out(opened, start):
    tables = sampled((20, ("own",)), (30, ("main",)))
    tables["COMPOSITE_EVENTS"][0]["start"] = start
    assert functions(opened(tables)) == ["main"]


def test_symbols_that_were_not_resolved_name_nothing(opened):
    assert functions(opened(sampled((20, ("own",)), unresolved=True))) == [""]


def test_threads_that_launch_nothing_do_not_count(opened):
    assert functions(opened(sampled((20, ("own",)), tid=TID + 1))) == []


def test_an_export_without_samples(opened):
    assert cpu_samples(opened(sampled()).rank(0)) is None


def test_too_many_samples_would_take_long(opened, monkeypatch):
    monkeypatch.setattr(samples, "MOST_FRAMES", 1)
    assert cpu_samples(opened(sampled((20, ("own", "main")))).rank(0)) is None


TIMES = st.lists(st.integers(0, 60), max_size=20).map(sorted)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from("abc")), max_size=20),
    TIMES,
    st.integers(0, 9),
)
def test_samples_share_the_interval_that_holds_them(drawn, edges, period_ns):
    edges = edges[: len(edges) // 2 * 2]
    drawn.sort(key=lambda each: each[0])
    names = ("", "a", "b", "c")
    found = CpuSamples(
        np.array([at for at, _ in drawn], dtype=np.int64),
        np.array([names.index(name) for _, name in drawn], dtype=np.int64),
        names,
        period_ns,
    ).time_by_function(*(np.array(edges[which::2], dtype=np.int64) for which in (0, 1)))
    expected = dict.fromkeys("abc", 0.0)
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        held = [name for at, name in drawn if start <= at < end]
        for name in held:
            expected[name] += min((end - start) / len(held), period_ns)
    assert found == pytest.approx({name: ns for name, ns in expected.items() if ns}, abs=0.51)


@pytest.mark.parametrize(("until", "is_told"), [(82, True), (64, True), (59, False)])
def test_functions_of_which_none_has_half_are_named_together(tmp_path, until, is_told):
    """Next to pages of managed memory that move, all of it seemed to be page faults."""
    stacks = [(at, (("own", "main")[at % 2],)) for at in range(12, until)]
    (found,) = diagnosed(tmp_path, *stacks)
    assert ("by CPU samples, the host is in update (" in found.sentence) == is_told
    if is_told:
        assert " of the idle time), main (" in found.sentence
        share = 100 * (until - 12) / 99
        assert found.evidence["sampled_percent"] == pytest.approx(share, abs=1.5)


def diagnosed(folder: Path, *stacks: Stack, first_ms: int = 10):
    tables = sampled(*stacks, first_ms=first_ms)
    path = nsys_export.write_sqlite(folder / "report.sqlite", tables)
    return diagnose(open_trace(path, progress=False))


def test_a_pause_is_named_by_its_samples(tmp_path):
    own, others = [(at, ("own",)) for at in range(12, 106)], [(at, ("main",)) for at in (108, 109)]
    (found,) = diagnosed(tmp_path, *own, *others)
    assert "while the host works" in found.sentence
    assert "% of the idle time inside update, by CPU samples: " in found.sentence
    assert found.evidence["inside_call_percent"] == pytest.approx(100 * 94 / 99, abs=1)
    assert "this recording has samples of the CPU" in found.advice[0].do
    assert not any("--sample" in (each.code or "") for each in found.advice)


def test_without_samples_it_asks_for_them(tmp_path):
    (found,) = diagnosed(tmp_path)
    assert "what it does is not recorded" in found.sentence
    assert "--sample=process-tree" in found.advice[0].code


def test_what_precedes_the_first_work_is_named_by_its_samples(tmp_path):
    tables = sampled(*((at, ("own",)) for at in range(1, 900)), first_ms=900)
    tables[RUNTIME] = [nsys_export.call(0, 1000), *tables[RUNTIME]]
    path = nsys_export.write_sqlite(tmp_path / "report.sqlite", tables)
    said = diagnose(open_trace(path, progress=False)).unexplained
    assert any("of it inside update, by CPU samples" in each for each in said)


@pytest.mark.parametrize(("first_ms", "is_said"), [(900, True), (8, False)])
def test_what_a_program_does_before_its_first_call(tmp_path, first_ms, is_said):
    """Without a word of it, a program that made random numbers for 11.8 s took 523 ms."""
    own = [(at, ("own",)) for at in range(1, first_ms)]
    path = nsys_export.write_sqlite(tmp_path / "report.sqlite", sampled(*own, first_ms=first_ms))
    said = [each for each in diagnose(open_trace(path, progress=False)).notices if "runs" in each]
    assert len(said) == is_said
    if is_said:
        assert said[0].startswith("before the first recorded call, the program runs for 899 ms, ")
        assert "of it inside update, by CPU samples; that time is not counted, but" in said[0]


def test_a_wait_after_a_function_is_not_the_functions(tmp_path):
    """A thread that is blocked is not sampled: for 90 of 99 ms, nothing is known."""
    (found,) = diagnosed(tmp_path, *((at, ("own",)) for at in range(12, 21)))
    assert "what it does is not recorded" in found.sentence
    assert "update" not in found.sentence
    assert "--sample=process-tree" in found.advice[0].code
