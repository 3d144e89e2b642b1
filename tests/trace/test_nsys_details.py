"""How kernels of Nsight Systems exports are launched, read when it is asked for."""

from __future__ import annotations

import pytest

from hta_widgets import diagnose
from hta_widgets.analyses.launch_facts import launch_facts
from hta_widgets.panels.bands import bands
from hta_widgets.panels.bands.bands import devices_in_words
from hta_widgets.panels.bands.events import selected_events
from hta_widgets.panels.base.selection import Selection
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.opening.open import open_trace
from tests import nsys_export
from tests.nsys_export import KERNEL, PID, STRINGS

LAUNCH = DetailGroup.LAUNCH_CONFIGURATION
NAMES = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")


def launched(start, end, *sizes, **columns):
    """A kernel with the sizes of its grid and block."""
    names = [f"{of}{axis}" for of in ("grid", "block") for axis in "XYZ"]
    return nsys_export.kernel(start, end, **dict(zip(names, sizes, strict=True)), **columns)


@pytest.fixture(params=["sqlite", "parquetdir"])
def opened(request, tmp_path):
    """Open an export of some kernels."""

    def opened(*kernels, **others):
        tables = {KERNEL: kernels, STRINGS: nsys_export.strings("gemm", "", "add")} | others
        if request.param == "sqlite":
            path = nsys_export.write_sqlite(tmp_path / "report.sqlite", tables)
        else:
            path = nsys_export.write_parquetdir(tmp_path / "report_pqtdir", tables)
        return open_trace(path, progress=False)

    return opened


def by_start(rank, *names):
    """Numbers of each kernel by its start."""
    table = rank.details(LAUNCH).table
    starts = rank.trace.events.start_ns[table.rows].tolist()
    values = zip(*(table.columns[name].tolist() for name in names), strict=True)
    return dict(zip(starts, values, strict=True))


def test_each_kernel_has_its_own(opened):
    """In any order, also of kernels that start together, and of several processes."""
    kernels = [
        launched(90, 99, 9, 1, 1, 32, 1, 1, correlation=3, registersPerThread=40),
        launched(10, 19, 1, 2, 3, 4, 5, 6, correlation=1, staticSharedMemory=8),
        launched(10, 25, 7, 1, 1, 64, 1, 1, correlation=2, dynamicSharedMemory=4,
                 staticSharedMemory=1, stream=9),
        launched(50, 40, 8, 8, 8, 8, 8, 8, correlation=8),
        launched(20, 29, 5, 5, 5, 5, 5, 5, correlation=1, pid=PID + 1),
    ]  # fmt: skip
    job = opened(*kernels)
    first, second = (job.rank(rank) for rank in job.ranks)
    assert by_start(second, *NAMES) == {0: (5, 5, 5, 5, 5, 5)}
    assert by_start(first, "grid_x") == {0: (7,), 80: (9,)}
    sizes = first.details(LAUNCH).table.to_frame()
    assert sizes[[*NAMES, "registers", "shared_bytes"]].to_numpy().tolist() == [
        [1, 2, 3, 4, 5, 6, -1, 8],
        [7, 1, 1, 64, 1, 1, -1, 5],
        [9, 1, 1, 32, 1, 1, 40, -1],
    ]
    (row,) = launch_facts(job, [job.ranks[1]]).kernels.to_dict("records")
    assert (row["grid"], row["threads"], row["registers"]) == ("5×5×5", 125, -1)


def test_the_panels_wait_until_a_large_export_is_read(opened, monkeypatch):
    job = opened(launched(10, 19, 1, 2, 3, 4, 5, 6))
    events = selected_events(job, Selection(kernel="gemm"))

    def grid() -> str:
        return next(each["text"] for each in bands.launch_of(job, "gemm", events))

    monkeypatch.setattr(bands, "MOST_EVENTS", 0)
    assert grid() == "tick “Launch facts” in the kernel breakdown"
    launch_facts(job)
    assert grid() == "1×2×3 blocks of 4×5×6 threads"


def test_an_export_without_sizes(opened):
    job = opened(nsys_export.kernel(0, 9))
    notices = launch_facts(job).notices
    assert notices.count("no grids and blocks of kernels were recorded") == 1


def test_gpus_of_an_export(tmp_path):
    """An A100: 648 blocks of 256 threads with 64 registers and 48 kB, of which 3 fit on an SM."""
    described = {
        "id": 1,
        "cuDevice": 0,
        "name": "NVIDIA A100-SXM4-40GB",
        "totalMemory": 42 * 10**9,
        "smCount": 108,
        "threadsPerWarp": 32,
        "maxWarpsPerSm": 64,
        "maxRegistersPerSm": 65536,
        "maxShmemPerSm": 167936,
        "computeMajor": 8,
        "computeMinor": 0,
        "uuid": "secret",
    }
    sizes = {"registersPerThread": 64, "dynamicSharedMemory": 49152}
    tables = {
        KERNEL: [launched(0, 9, 648, 1, 1, 256, 1, 1, **sizes)],
        "TARGET_INFO_GPU": [described],
        STRINGS: nsys_export.strings("gemm"),
    }
    for path in (
        nsys_export.write_sqlite(tmp_path / "report.sqlite", tables),
        nsys_export.write_parquetdir(tmp_path / "report_pqtdir", tables),
    ):
        job = open_trace(path, progress=False)
        (row,) = launch_facts(job).kernels.to_dict("records")
        assert (row["sms"], row["waves"], row["occupancy_percent"]) == (108, 2.0, 37.5)
        assert devices_in_words(job) == "1 × NVIDIA A100-SXM4-40GB"
        assert "secret" not in str(job.rank(0).trace.metadata)


def test_gpus_of_an_old_export_are_known(opened):
    """The name of a V100 was lost, and the occupancy of its kernels."""
    described = {
        "deviceId": 0,
        "name": "Tesla V100-PCIE-32GB",
        "globalMemorySize": 32510,
        "numMultiprocessors": 80,
        "numThreadsPerWarp": 32,
        "maxWarpsPerMultiprocessor": 64,
        "maxRegistersPerMultiprocessor": 65536,
        "maxSharedMemoryPerMultiprocessor": 98304,
        "computeCapabilityMajor": 7,
        "computeCapabilityMinor": 0,
    }
    tables = {
        "TARGET_INFO_CUDA_GPU": [described],
        "TARGET_INFO_GPU": [{"deviceId": 0, "name": "Tesla V100-PCIE-32GB"}],
    }
    sizes = {"registersPerThread": 64, "dynamicSharedMemory": 0}
    job = opened(launched(0, 9, 320, 1, 1, 256, 1, 1, **sizes), **tables)
    (row,) = launch_facts(job).kernels.to_dict("records")
    assert (row["sms"], row["waves"], row["occupancy_percent"]) == (80, 1.0, 50.0)
    assert devices_in_words(job) == "1 × Tesla V100-PCIE-32GB"


@pytest.mark.parametrize("described", [1, 2, 0])
def test_processes_share_the_only_gpu_of_an_export(opened, described):
    """Two MPI processes on one A100 were called two: each counts its devices from 0."""
    gpus = [{"id": each, "cuDevice": each, "name": "NVIDIA A100"} for each in range(described)]
    kernels = [launched(at, at + 9, 1, 1, 1, 1, 1, 1, pid=PID + at) for at in (0, 1)]
    job = opened(*kernels, **({"TARGET_INFO_GPU": gpus} if gpus else {}))
    words = {1: "2 ranks, 1 × NVIDIA A100", 2: "2 × NVIDIA A100", 0: "2 GPUs"}
    assert devices_in_words(job) == words[described]
    said = [each for each in diagnose(job).notices if "share one GPU" in each]
    assert len(said) == (described == 1)
    assert all(each.startswith("ranks 0-1 share one GPU: idle time on one") for each in said)


def test_other_fields_are_refused(opened):
    rank = opened(nsys_export.kernel(0, 9)).rank(0)
    (notice,) = rank.details(DetailGroup.MEMORY).notices
    assert "an Nsight Systems export has no memory events" in notice.text()


def test_the_same_as_of_the_trace_it_was_made_from(real_traces):
    same = ["name", "grid", "block", "registers", "shared_bytes", "count", "gpu_ns"]
    (path,) = (real_traces / "kineto" / "h100_bert").iterdir()
    converted = "converted/h100_bert/nsys_sqlite/h100_bert_node0_rank0.sqlite"
    tables = [
        launch_facts(open_trace(each, progress=False)).kernels
        for each in (path, real_traces / converted)
    ]
    ours, theirs = (table.sort_values("name")[same].to_numpy().tolist() for table in tables)
    assert ours == theirs
