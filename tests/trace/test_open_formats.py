"""Every format is recognised by its content, anywhere, and everything else is refused."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from hta_widgets.errors import RankError, TraceFormatError, TraceNotFoundError
from hta_widgets.sample.table_formats import write_cupti_tables
from hta_widgets.trace.loaders.formats import CUPTI_CSV, NSYS, OVERLAP_RECIPE
from hta_widgets.trace.opening.open import open_trace
from tests import nsys_export
from tests.kineto_text import call, kernel, write
from tests.nsys_export import KERNEL, RUNTIME, STRINGS, owner
from tests.recipe_folder import write_recipe_folder

EVENTS = [call(0, 1, 1), kernel(2, 3, correlation=1)]
NAMES = [{"id": 1, "value": "gemm"}, {"id": 2, "value": "cudaLaunchKernel_v7000"}]


def tables(*processes):
    """An export of processes, each (pid, device), with a kernel and its launch."""
    kernels = [
        nsys_export.kernel(20, 50, correlation=1, pid=pid, device=device)
        for pid, device in processes
    ]
    calls = [nsys_export.call(0, 10, correlation=1, pid=pid) for pid, _ in processes]
    return {KERNEL: kernels, RUNTIME: calls, STRINGS: NAMES}


def sqlite(path, *processes):
    nsys_export.write_sqlite(path, tables(*processes))
    return path


def parquetdir(path, *processes):
    nsys_export.write_parquetdir(path, tables(*processes))
    return path


def cupti(folder, name):
    traces = folder / "traces"
    traces.mkdir(parents=True)
    write(traces / "rank-0.json", EVENTS)
    write_cupti_tables(open_trace(traces, progress=False), folder / "tables")
    (folder / "tables" / "rank0").rename(folder / name)
    return folder / name


def formats_of(job):
    return {rank: source.format for rank, source in job.sources.items()}


def opened(source):
    return open_trace(source, progress=False)


def test_file_and_folder_of_exports(tmp_path):
    one = sqlite(tmp_path / "a_rank3.sqlite", (11, 0))
    assert formats_of(opened(one)) == {3: NSYS}
    sqlite(tmp_path / "a_rank10.sqlite", (12, 0))
    job = opened(tmp_path)
    assert formats_of(job) == {3: NSYS, 10: NSYS}
    assert job.notices[0] == "ranks 3, 10 are taken from the file names"


def test_processes_of_one_export_are_ranks(tmp_path):
    job = opened(sqlite(tmp_path / "report.sqlite", (11, 1), (12, 0)))
    assert {rank: source.process for rank, source in job.sources.items()} == {
        0: owner(12) >> 24,
        1: owner(11) >> 24,
    }
    assert [len(job.rank(rank).trace.events) for rank in job.ranks] == [2, 2]
    assert job.notices[0] == "ranks 0-1 are taken from the device of each process"


def test_devices_of_one_process_stay_in_its_rank(tmp_path):
    job = opened(sqlite(tmp_path / "report.sqlite", (11, 0), (11, 1)))
    assert job.ranks == (0,)
    assert job.gpu_work(0).devices == (0, 1)


def test_parquetdir_alone_and_in_a_folder(tmp_path):
    folder = parquetdir(tmp_path / "x_rank2_pqtdir", (11, 0))
    assert formats_of(opened(folder)) == {2: NSYS}
    parquetdir(tmp_path / "x_rank4_pqtdir", (11, 0))
    assert opened(tmp_path).ranks == (2, 4)


def test_cupti_tables_alone_and_in_a_folder(tmp_path):
    assert formats_of(opened(cupti(tmp_path / "one", "x_rank1"))) == {1: CUPTI_CSV}
    shutil.rmtree(tmp_path / "one" / "traces")
    shutil.copytree(tmp_path / "one" / "x_rank1", tmp_path / "one" / "x_rank2")
    shutil.rmtree(tmp_path / "one" / "tables")
    assert opened(tmp_path / "one").ranks == (1, 2)


def test_recipe_folder_and_one_of_its_files(tmp_path):
    files = write_recipe_folder(tmp_path / "recipe", ranks=12, segments=8)
    job = opened(tmp_path / "recipe")
    assert job.ranks == tuple(range(12))
    assert set(formats_of(job).values()) == {OVERLAP_RECIPE}
    assert formats_of(opened({5: files[0]})) == {5: OVERLAP_RECIPE}


def test_a_file_that_the_recipe_lists_and_that_is_gone(tmp_path):
    files = write_recipe_folder(tmp_path, ranks=3, segments=8)
    files[1].unlink()
    job = opened(tmp_path)
    assert job.ranks == (0, 2)
    assert "rank1" in job.notices[0]
    assert "missing" in job.notices[0]


def test_other_recipes_are_named_and_refused(tmp_path):
    (tmp_path / "x.nsys-analysis").write_text(json.dumps({"RecipeName": "cuda_api_sum"}))
    with pytest.raises(TraceFormatError, match=r"recipe 'cuda_api_sum'.*nsys export"):
        open_trace(tmp_path)


def test_a_recording_has_to_be_exported(tmp_path):
    (tmp_path / "my.nsys-rep").write_bytes(b"\0")
    with pytest.raises(TraceFormatError, match=r"nsys export --type sqlite 'my\.nsys-rep'"):
        open_trace(tmp_path / "my.nsys-rep")
    with pytest.raises(TraceNotFoundError, match=r"my\.nsys-rep must be exported first"):
        open_trace(tmp_path)


def test_another_database(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("create table anything (x)")
    with pytest.raises(TraceFormatError, match="not an Nsight Systems export"):
        open_trace(tmp_path / "other.db")
    sqlite(tmp_path / "report.sqlite", (11, 0))
    assert opened(tmp_path).notices[0] == "other.db is not a trace and is left out"


def test_a_cut_off_export_says_to_export_again(tmp_path):
    path = sqlite(tmp_path / "report.sqlite", (11, 0))
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(TraceFormatError, match="export"):
        open_trace(path)


def test_formats_are_not_mixed(tmp_path):
    write(tmp_path / "rank-0.json", EVENTS)
    export = sqlite(tmp_path / "rank1.sqlite", (11, 0))
    with pytest.raises(TraceFormatError, match=r"different formats.*PyTorch.*Nsight"):
        open_trace(tmp_path)
    with pytest.raises(TraceFormatError, match="different formats"):
        open_trace([tmp_path / "rank-0.json", export])


def test_a_mapping_takes_one_rank_each(tmp_path):
    one = sqlite(tmp_path / "one.sqlite", (11, 0))
    assert opened({7: one}).ranks == (7,)
    several = sqlite(tmp_path / "several.sqlite", (11, 0), (12, 1))
    with pytest.raises(RankError, match="has 2 ranks"):
        open_trace({0: several})


def test_a_folder_of_folders_names_them(tmp_path):
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "runs" / ".ipynb_checkpoints").mkdir()
    with pytest.raises(TraceNotFoundError, match=r"folders \(first\) contain traces, give one"):
        open_trace(tmp_path / "runs")


def test_a_folder_in_a_list_is_no_trace(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(TraceNotFoundError, match=r"is a folder, not a trace"):
        open_trace([tmp_path / "empty"])


def test_only_pytorch_traces_are_written_again(tmp_path):
    job = opened(sqlite(tmp_path / "report.sqlite", (11, 0)))
    with pytest.raises(TraceFormatError, match="Nsight Systems export; only PyTorch-profiler"):
        _ = job.sources[0].kineto_file
