"""Traces at URLs: what is fetched, when it is fetched again, and what is never shown."""

from __future__ import annotations

import builtins
import gzip
import json
import logging
import pickle
import re
import shutil
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from hta_widgets import TraceAnalysis, open_trace, progress
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.errors import (
    HtaWidgetsError,
    ParameterError,
    RankError,
    RemoteError,
    TraceFormatError,
    TraceNotFoundError,
)
from hta_widgets.export.trace_with_counters import write_traces_with_counters
from hta_widgets.panels.dashboard import JobPanel
from hta_widgets.trace.cache import files as cache_files
from hta_widgets.trace.loaders.nsys.tables import CALLS, KERNELS, STRINGS
from hta_widgets.trace.opening import fetch
from hta_widgets.trace.opening import open as opening
from hta_widgets.trace.opening.fetch import fetch_remote
from hta_widgets.trace.ranks import cache, workers
from hta_widgets.trace.ranks.loader import RankTask, hold_rank
from hta_widgets.trace.ranks.loading import load_rank
from hta_widgets.trace.ranks.rank import RankSettings
from hta_widgets.trace.ranks.source import RankSource
from hta_widgets.trace.remote import copies as remote_copies
from tests import nsys_export as nsys
from tests.cupti_folder import row, write_cupti_folder
from tests.kineto_text import call, kernel, write
from tests.recipe_folder import write_recipe_folder
from tests.recorded_folders import Recorded, cycles, tensorboard, write_folder

EVENTS = [call(1, 1, 1), kernel(3, 3, correlation=1)]
TABLES = {
    KERNELS: [nsys.kernel(10, 30, correlationId=1)],
    CALLS: [nsys.call(0, 5, correlationId=1)],
    STRINGS: nsys.strings("gemm", "cudaLaunchKernel"),
}
SECRET = "hunter2"  # noqa: S105


class Counting(MemoryFileSystem):
    """In-memory files that count fetches and can fail as networks do."""

    protocol = "counting"
    store: dict = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012
    fetches: list[str] = []  # noqa: RUF012
    heads: list[tuple[str, int]] = []  # noqa: RUF012
    failure: Exception | None = None
    silent = False

    @classmethod
    def _strip_protocol(cls, path):
        place = re.sub(r"^counting://(?:[^/]*@)?", "", path)
        return "/" + place.partition("?")[0].strip("/") if place.strip("/") else ""

    def info(self, path, **kwargs):
        return self._seen(super().info(path, **kwargs))

    def ls(self, path, detail=True, **kwargs):  # noqa: FBT002
        return [self._seen(each) for each in super().ls(path, detail=detail, **kwargs)]

    def _seen(self, about):
        return {k: v for k, v in about.items() if not (self.silent and k == "created")}

    def open(self, path, mode="rb", block_size=None, **kwargs):
        content = super().open(path, mode, block_size, **kwargs)
        if mode == "rb" and block_size == 0:
            return Head(self, path.rpartition("/")[2], content)
        return content

    def get_file(self, rpath, lpath, **kwargs):
        self.fetches.append(rpath.rpartition("/")[2])
        if self.failure is not None:
            Path(lpath).write_bytes(b'{"traceEvents": [')
            raise self.failure
        super().get_file(rpath, lpath, **kwargs)


class Head:
    """A file that records how much of it is read, and returns a few bytes at a time."""

    def __init__(self, system, name, content):
        self._system, self._name, self._content = system, name, content

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._system.heads.append((self._name, self._content.tell()))
        self._content.close()

    def read(self, size):
        return self._content.read(min(size, 1_000))


@pytest.fixture(autouse=True)
def folder(cached):
    return cached


@pytest.fixture
def remote(monkeypatch):
    """A file system for test folders that counts fetches."""
    fsspec.register_implementation("counting", Counting, clobber=True)
    monkeypatch.setattr(Counting, "store", {})
    monkeypatch.setattr(Counting, "pseudo_dirs", [""])
    monkeypatch.setattr(Counting, "fetches", [])
    monkeypatch.setattr(Counting, "heads", [])
    return fsspec.filesystem("counting")


def put(system, local, place):
    for path in [local] if local.is_file() else local.rglob("*"):
        if path.is_file():
            relative = "" if path == local else f"/{path.relative_to(local).as_posix()}"
            system.pipe_file(f"/{place}{relative}", path.read_bytes())


@pytest.fixture
def run(tmp_path, remote):
    """Two ranks and other files at counting://bucket/run."""
    local = tmp_path / "local"
    local.mkdir()
    for rank in range(2):
        write(local / f"rank{rank}.json.gz", EVENTS, distributedInfo={"rank": rank})
    for name in ("checkpoint.bin", "source.tar.gz", "sub/events.json", "sub/model.parquet"):
        (local / name).parent.mkdir(exist_ok=True)
        (local / name).write_bytes(b"much")
    put(remote, local, "bucket/run")
    return "counting://bucket/run"


def copies(folder):
    """Names of the files that have been fetched completely."""
    return sorted(path.name for path in files(folder) if path not in heads(folder))


def heads(folder):
    return [path for path in files(folder) if re.search(r"\.heads/", path.as_posix())]


def files(folder):
    return [path for path in (folder / "remote").rglob("*") if path.is_file()]


def test_a_folder(run, remote):
    for url in (run, f"{run}/", run):
        job = open_trace(url, progress=False)
        assert job.ranks == (0, 1)
    assert sorted(remote.fetches) == ["rank0.json.gz", "rank1.json.gz"]
    assert job.name == run
    assert job.rank(1).trace.source == f"{run}/rank1.json.gz"
    assert JobPanel(job).table["file"].tolist()[0] == f"{run}/rank0.json.gz"


def test_a_file_a_list_and_a_mapping(run):
    url = f"{run}/rank1.json.gz"
    one = open_trace(url, progress=False)
    assert (one.name, one.ranks) == (url, (1,))
    assert one.rank(1).trace.source == url
    several = open_trace([url, f"{run}/rank0.json.gz"], progress=False)
    assert (several.name, several.ranks) == (run, (0, 1))
    mapped = open_trace({7: url}, progress=False)
    assert mapped.rank(7).trace.source == url


def test_memory(tmp_path):
    system = fsspec.filesystem("memory")
    put(system, write(tmp_path / "a.json", EVENTS), "hta_widgets_tests/a.json")
    try:
        job = open_trace("memory://hta_widgets_tests", progress=True)
    finally:
        system.rm("/hta_widgets_tests", recursive=True)
    assert job.rank(0).trace.source == "memory://hta_widgets_tests/a.json"


def test_a_file_url_is_its_path(tmp_path, folder):
    path = write(tmp_path / "a b.json", EVENTS)
    for url in (path.as_uri(), f"file://{path}"):
        assert open_trace(url, progress=False).rank(0).trace.source == str(path)
    assert not (folder / "remote").exists()


def test_only_what_changed_is_fetched_again(run, remote, tmp_path, folder):
    open_trace(run, progress=False)
    remote.fetches.clear()
    changed = write(tmp_path / "new.json.gz", [*EVENTS, kernel(9, 9)], distributedInfo={"rank": 1})
    remote.pipe_file("/bucket/run/rank1.json.gz", changed.read_bytes())
    assert len(open_trace(run, progress=False).rank(1).trace.events) == 3
    assert remote.fetches == ["rank1.json.gz"]
    remote.rm("/bucket/run/rank0.json.gz")
    assert open_trace(run, progress=False).ranks == (1,)
    assert {path.name for path in heads(folder)} == {"rank1.json.gz"}


def test_what_does_not_say_when_it_changed_is_always_fetched(run, remote, monkeypatch):
    monkeypatch.setattr(Counting, "silent", True)
    for _ in range(2):
        open_trace(f"{run}/rank0.json.gz", progress=False)
    assert len(remote.fetches) == 2


def test_what_was_read_is_kept_even_if_the_copy_goes(run, folder, remote, monkeypatch):
    job = open_trace(run, progress=False)
    source = job.sources[0]
    entry = next(each for each in cache_files.entries(folder) if each.path.is_dir())
    assert cache.describe_entry(entry) == run
    kept = {cache.describe_entry(each) for each in cache_files.entries(folder)}
    assert f"{run}/rank0.json.gz (rank 0)" in kept
    cache_files.prune(folder, 0, list(folder.glob("*.arrow")))
    assert not source.path.exists()
    remote.fetches.clear()
    monkeypatch.setattr("hta_widgets.trace.ranks.source.RankSource._load", None)
    assert len(load_rank(source, 0).trace.events) == 2
    assert remote.fetches == []


def test_another_machine_fetches_for_itself(run, remote, tmp_path, monkeypatch):
    source = pickle.loads(pickle.dumps(open_trace(run, progress=False).sources[1]))  # noqa: S301
    remote.fetches.clear()
    monkeypatch.setenv(cache_files.VARIABLE, str(tmp_path / "there"))
    shutil.rmtree(source.path.parents[1])
    assert load_rank(source, 1).trace.source == f"{run}/rank1.json.gz"
    assert remote.fetches == ["rank1.json.gz"]
    assert copies(tmp_path / "there") == ["url.txt"]


def test_without_a_cache(run, monkeypatch, folder):
    monkeypatch.setenv(cache_files.VARIABLE, "off")
    job = open_trace(run, progress=False)
    assert job.ranks == (0, 1)
    assert not folder.exists()
    assert job.sources[0].path.exists()


def test_copies_count_and_are_cleared(run, remote, folder, monkeypatch):
    monkeypatch.setenv(cache_files.SIZE_VARIABLE, "0")
    remote.pipe_file("/bucket/second.json", remote.cat_file("/bucket/run/rank0.json.gz"))
    fetch_remote(run, progress=False)
    assert {path.name for path in heads(folder)} == {"rank0.json.gz", "rank1.json.gz"}
    fetch_remote("counting://bucket/second.json", progress=False)
    assert {path.name for path in heads(folder)} == {"second.json"}
    assert len([each for each in cache_files.entries(folder) if each.path.is_dir()]) == 1
    assert cache_files.clear(folder) > 0
    assert not list(folder.iterdir())


@pytest.fixture
def small_heads(monkeypatch):
    monkeypatch.setattr(fetch, "HEAD_BYTES", (500, 3_000, 6_000))


@pytest.fixture
def big(monkeypatch):
    """Jobs of any size are loaded rank by rank, in this process."""
    monkeypatch.setattr(opening, "RANKS_HELD", 1)
    monkeypatch.setattr(opening, "BYTES_AT_ONCE", 0)
    monkeypatch.setattr(workers, "cpu_count", lambda: 1)


MANY_EVENTS = [kernel(10 * number, 5, correlation=number) for number in range(200)]


@pytest.mark.usefixtures("small_heads", "big")
def test_a_big_job_is_fetched_rank_by_rank(remote, tmp_path, folder):
    for rank in range(3):
        file = write(tmp_path / f"{rank}.json", MANY_EVENTS, distributedInfo={"rank": rank})
        put(remote, file, f"bucket/run/{rank}.json")
    for show in (False, True):
        job = open_trace("counting://bucket/run", progress=show)
        assert job.ranks == (0, 1, 2)
        assert remote.fetches == []
        assert sorted(remote.heads) == [("0.json", 500), ("1.json", 500), ("2.json", 500)]
        assert job.sources[2].size == file.stat().st_size
    assert len(job.rank(1).trace.events) == 200
    assert remote.fetches == ["1.json"]
    assert copies(folder) == ["url.txt"]
    temporal_breakdown(job)
    remote.fetches.clear()
    remote.heads.clear()
    shutil.rmtree(folder / "remote")
    temporal_breakdown(open_trace("counting://bucket/run", progress=False))
    assert remote.fetches == []


@pytest.mark.usefixtures("small_heads")
@pytest.mark.parametrize("size", [1_000, 4_000, 9_000])
def test_as_much_is_fetched_as_shows_a_trace(remote, tmp_path, size):
    file = write(tmp_path / "a.json", MANY_EVENTS, note="x" * size, distributedInfo={"rank": 5})
    remote.pipe_file("/bucket/a.json", file.read_bytes())
    fetched = fetch_remote("counting://bucket/a.json", progress=False)
    job = open_trace("counting://bucket/a.json", progress=False)
    whole = file.stat().st_size
    sizes = [each for each in (500, 3_000, 6_000, whole) if each < size] + [
        next(each for each in (3_000, 6_000, whole) if each > size)
    ]
    assert [read for _, read in remote.heads] == sizes
    assert job.ranks == (5,)
    assert len(fetched.urls) == 1


def test_fetching_shows_a_bar_where_it_is_waited_for(run, monkeypatch, capfd):
    monkeypatch.setattr(progress, "DELAY_S", 0)
    open_trace(run, progress=False)
    assert capfd.readouterr().err == ""
    shutil.rmtree(cache_files.cache_folder())
    open_trace(run, progress=True)
    beginnings_and_two_files = 3
    assert capfd.readouterr().err.count("Fetching run:") >= beginnings_and_two_files


@pytest.mark.usefixtures("small_heads")
def test_small_traces_are_kept_too(run, remote, monkeypatch):
    monkeypatch.setattr(cache, "WORTH_KEEPING", 2**20)
    for _ in range(2):
        open_trace(run, progress=False)
    assert remote.fetches == ["rank0.json.gz", "rank1.json.gz"]


def test_a_copy_stays_where_what_was_read_of_it_does_not(run, remote, folder, monkeypatch):
    monkeypatch.setattr(cache, "store", lambda _source, _rank, trace, _folder: trace)
    open_trace(run, progress=False)
    assert copies(folder) == ["rank0.json.gz", "rank1.json.gz", "url.txt"]
    open_trace(run, progress=False)
    assert len(remote.fetches) == 2


def test_a_copy_that_goes_before_it_is_read_is_fetched_again(run, remote, monkeypatch):
    fetch = RankSource.fetch
    gone = []

    def going(source, **options):
        found = fetch(source, **options)
        if not gone and found.path.exists():
            gone.append(found.path)
            found.path.unlink()
        return found

    monkeypatch.setattr(RankSource, "fetch", going)
    assert len(open_trace(run, progress=False).rank(0).trace.events) == 2
    assert remote.fetches == ["rank0.json.gz", "rank0.json.gz", "rank1.json.gz"]


def test_large_files_that_are_no_traces_are_left_out(run, remote):
    remote.pipe_file("/bucket/run/weights.gz", b"\x1f\x8b" + bytes(20_000))
    job = open_trace(run, progress=False)
    assert job.ranks == (0, 1)
    assert job.notices[0] == "weights.gz is not a trace and is left out"
    assert "weights.gz" not in remote.fetches


@pytest.mark.usefixtures("big")
def test_databases_beside_the_traces(run, remote, tmp_path):
    remote.pipe_file("/bucket/run/runs.db", b"SQLite format 3\0" + bytes(20_000))
    for _ in range(2):
        job = open_trace(run, progress=False)
        assert job.ranks == (0, 1)
        assert remote.fetches == []
        assert len(remote.heads) == 3
    assert job.notices[0] == "runs.db is not a trace and is left out"
    put(remote, nsys.write_sqlite(tmp_path / "report.sqlite", TABLES), "bucket/run/report.sqlite")
    with pytest.raises(TraceFormatError, match="has traces of different formats"):
        open_trace(run, progress=False)


@pytest.mark.usefixtures("small_heads")
@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_a_rank_behind_the_events_has_precedence_over_the_name(remote, tmp_path, suffix):
    text = json.dumps({"traceEvents": MANY_EVENTS, "distributedInfo": {"rank": 7}}).encode()
    content = gzip.compress(text) if suffix == "json.gz" else text
    for local in (tmp_path / f"rank3.{suffix}", tmp_path / f"rank7.{suffix}"):
        local.write_bytes(content)
        remote.pipe_file(f"/bucket/{local.name}", content)
        assert open_trace(local, progress=False).ranks == (7,)
        for _ in range(2):
            assert open_trace(f"counting://bucket/{local.name}", progress=False).ranks == (7,)
    assert remote.fetches == [f"rank3.{suffix}", f"rank3.{suffix}", f"rank7.{suffix}"]


@pytest.mark.usefixtures("big")
def test_a_file_that_changed_meanwhile_is_not_mixed_in(run, remote, tmp_path):
    job = open_trace(run, progress=False)
    changed = write(tmp_path / "new.json.gz", [kernel(9, 9)], distributedInfo={"rank": 1})
    remote.pipe_file("/bucket/run/rank1.json.gz", changed.read_bytes())
    assert len(job.rank(0).trace.events) == 2
    with pytest.raises(RemoteError, match=r"run/rank1.json.gz has changed since .* open the job"):
        job.rank(1)
    remote.rm("/bucket/run/rank1.json.gz")
    with pytest.raises(TraceNotFoundError, match=r"rank1.json.gz no longer exists at .*run;"):
        job.rank(1)


def test_two_files_of_one_rank_are_named_by_their_urls(run, remote):
    remote.pipe_file("/bucket/run/again.json.gz", remote.cat_file("/bucket/run/rank1.json.gz"))
    with pytest.raises(RankError) as caught:
        open_trace(run, progress=False)
    assert f"- rank 1: {run}/again.json.gz, {run}/rank1.json.gz\n" in str(caught.value)


def test_cycles_of_a_folder_are_told_apart_by_first_bytes(run, remote, tmp_path):
    remote.rm(run.partition("://")[2], recursive=True)
    for path in write_folder(tmp_path / "made", cycles(2, 2)).iterdir():
        remote.pipe_file(f"/bucket/run/{path.name}", path.read_bytes())
    job = open_trace(run, cycle=0, progress=False, include_last_profiler_step=True)
    assert [job.rank(rank).steps.distinct for rank in job.ranks] == [(2, 3), (2, 3)]
    assert job.open_cycle(1).rank(1).steps.distinct == (7, 8)


def test_runs_are_listed_by_their_urls(run, remote, tmp_path):
    remote.rm(run.partition("://")[2], recursive=True)
    made = [Recorded(pid=pid, start_us=pid * 1e7) for pid in (1, 2)]
    for path in write_folder(tmp_path / "made", made).iterdir():
        remote.pipe_file(f"/bucket/run/{path.name}", path.read_bytes())
    with pytest.raises(RankError) as caught:
        open_trace(run, progress=False)
    assert f"\n  open_trace('{run}/{tensorboard(made[0])}')\n" in str(caught.value)
    shell = caught.value.in_shell("hta-widgets report")
    assert f"  hta-widgets report {run}/{tensorboard(made[1])}" in shell


def test_a_file_becomes_a_folder_and_a_file_again(remote, tmp_path):
    content = write(tmp_path / "a.json", EVENTS).read_bytes()
    for place in ("run.json", "run.json/rank1.json", "run.json"):
        remote.pipe_file(f"/bucket/{place}", content)
        job = open_trace("counting://bucket/run.json", progress=False)
        assert len(job.rank(job.ranks[0]).trace.events) == 2
        remote.rm("/bucket/run.json", recursive=True)


@pytest.mark.usefixtures("big")
def test_without_a_cache_a_worker_fetches_into_the_folder_of_the_job(run, monkeypatch):
    monkeypatch.setenv(cache_files.VARIABLE, "off")
    job = open_trace(run, progress=False)
    source = pickle.loads(pickle.dumps(job.sources[1]))  # noqa: S301
    remote_copies._temporary_folder.cache_clear()
    assert source.fetch().path == job.sources[1].path
    assert source.path.exists()


def test_without_a_cache_a_rank_that_is_held_leaves_no_copy(run, monkeypatch):
    monkeypatch.setenv(cache_files.VARIABLE, "off")
    source = open_trace(run, progress=False).sources[1]
    assert source.path.exists()
    held = hold_rank(RankTask(source, 1, RankSettings(), None))
    assert held.trace.source == f"{run}/rank1.json.gz"
    assert not source.path.exists()


def test_an_export(remote, tmp_path):
    put(remote, nsys.write_sqlite(tmp_path / "report.sqlite", TABLES), "bucket/report.sqlite")
    for url in ("counting://bucket/report.sqlite", "counting://bucket"):
        job = open_trace(url, progress=False)
        assert job.rank(0).trace.source.endswith("bucket/report.sqlite")
        assert len(job.gpu_work(0)) == 1


def test_parquet_folders_without_their_secrets(remote, tmp_path):
    (tmp_path / "in").mkdir()
    for rank in range(2):
        nsys.write_parquetdir(tmp_path / "in" / f"rank{rank}_pqtdir", TABLES)
    put(remote, tmp_path / "in", "bucket/run")
    remote.pipe_file("/bucket/run/rank0_pqtdir/TARGET_INFO_SYSTEM_ENV.parquet", b"secret")
    remote.pipe_file("/bucket/run/config.json", b"{}")
    job = open_trace("counting://bucket/run", progress=False)
    assert job.ranks == (0, 1)
    assert job.rank(1).trace.source == "counting://bucket/run/rank1_pqtdir"
    assert "TARGET_INFO_SYSTEM_ENV.parquet" not in remote.fetches
    alone = open_trace("counting://bucket/run/rank1_pqtdir/", progress=False)
    assert len(alone.gpu_work(1)) == 1


def test_a_recipe_folder(remote, tmp_path):
    write_recipe_folder(tmp_path / "recipe", 3, 20)
    put(remote, tmp_path / "recipe", "bucket/recipe")
    job = open_trace("counting://bucket/recipe", progress=False)
    local = open_trace(tmp_path / "recipe", progress=False)
    assert job.ranks == local.ranks
    assert job.rank(0).trace.source.startswith("counting://bucket/recipe/type_")


def test_a_folder_of_cupti_tables(remote, tmp_path):
    rows = {"conc_kernel.csv": [row(1_000, 500, "k", device=0, stream=7, correlation=1)]}
    write_cupti_folder(tmp_path / "tables", rows)
    put(remote, tmp_path / "tables", "bucket/tables")
    job = open_trace("counting://bucket/tables", progress=False)
    assert len(job.gpu_work(0)) == 1
    assert job.rank(0).trace.source == "counting://bucket/tables"


@pytest.mark.parametrize("url", ["counting://bucket/nothing", "counting://nothing/run/"])
@pytest.mark.usefixtures("remote")
def test_nothing_there(url):
    with pytest.raises(TraceNotFoundError, match=re.escape(f"{url} does not exist")):
        open_trace(url, progress=False)


def test_a_folder_without_a_trace(remote):
    remote.pipe_file("/bucket/run/report.nsys-rep", b"")
    with pytest.raises(TraceNotFoundError, match=r"bucket/run has no trace: report.nsys-rep"):
        open_trace("counting://bucket/run", progress=False)
    with pytest.raises(
        TraceFormatError, match=r"counting://bucket/run/report.nsys-rep is an Nsight"
    ):
        open_trace("counting://bucket/run/report.nsys-rep", progress=False)
    assert remote.fetches == []


def test_no_trace(remote, folder):
    remote.pipe_file("/bucket/a.json", b"nothing")
    with pytest.raises(TraceFormatError) as caught:
        open_trace("counting://bucket/a.json", progress=False)
    assert str(caught.value).startswith("counting://bucket/a.json is not a JSON trace")
    assert str(folder) not in str(caught.value)


@pytest.mark.parametrize("failure", [ConnectionError("gone"), TimeoutError(), KeyboardInterrupt()])
def test_a_failure_in_the_middle_keeps_nothing(run, folder, monkeypatch, failure):
    monkeypatch.setattr(Counting, "failure", failure)
    with pytest.raises((RemoteError, KeyboardInterrupt)) as caught:
        open_trace(run, progress=False)
    if caught.type is RemoteError:
        assert f"{run} could not be fetched ({type(failure).__name__}" in str(caught.value)
    assert copies(folder) == ["url.txt"]
    monkeypatch.setattr(Counting, "failure", None)
    assert open_trace(run, progress=False).ranks == (0, 1)


def test_a_file_that_ends_early_is_not_kept(run, folder, monkeypatch):
    monkeypatch.setattr(Counting, "get_file", lambda _, __, to, **_k: Path(to).write_bytes(b"{"))
    with pytest.raises(RemoteError, match=r"download of rank0.json.gz from .* stopped after 1 of"):
        open_trace(run, progress=False)
    assert copies(folder) == ["url.txt"]


def test_no_access(run, monkeypatch):
    monkeypatch.setattr(Counting, "failure", PermissionError("403"))
    with pytest.raises(RemoteError, match=r"was denied \(PermissionError: 403\); set the"):
        open_trace(run, progress=False)


@pytest.mark.parametrize(
    ("url", "advice"),
    [("s3://bucket/run", "pip install s3fs"), ("gs://bucket/run", "pip install gcsfs")],
)
def test_the_package_of_a_protocol_is_missing(monkeypatch, url, advice):
    def missing(_):
        raise ImportError(advice)

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(RemoteError, match=advice):
        open_trace(url, progress=False)


def test_fsspec_is_missing(monkeypatch):
    load = builtins.__import__

    def without(name, *rest):
        if name == "fsspec":
            raise ModuleNotFoundError(name)
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(RemoteError, match=re.escape("pip install 'hta_widgets[remote]'")):
        open_trace("memory://a", progress=False)


def test_no_such_protocol():
    with pytest.raises(RemoteError, match="nope://a has a protocol that fsspec does not know"):
        open_trace("nope://a", progress=False)


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("failing", [False, True])
def test_credentials_are_never_said(folder, monkeypatch, capfd, caplog, failing):
    caplog.set_level(logging.DEBUG, "hta_widgets")
    url = f"counting://me:{SECRET}@bucket/run/rank0.json.gz?token={SECRET}"
    said = []
    if failing:
        monkeypatch.setattr(Counting, "failure", OSError(f"GET {url} failed"))
        with pytest.raises(RemoteError) as caught:
            open_trace(url)
        assert caught.value.__cause__ is caught.value.__context__ is None
        said.append(str(caught.value))
    else:
        job = open_trace(url)
        said += [repr(job), job.name, repr(job.sources), *job.notices, job.rank(0).trace.source]
        assert job.name == "counting://***@bucket/run/rank0.json.gz?***"
        said += [cache.describe_entry(entry) for entry in cache_files.entries(folder)]
    said += [*capfd.readouterr(), caplog.text]
    said += [str(path) for path in folder.rglob("*")]
    assert SECRET not in "".join(said)
    kept = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert SECRET.encode() not in b"".join(kept)


def test_the_facade_joins_names_to_a_folder(run):
    analysis = TraceAnalysis(["rank1.json.gz"], trace_dir=run, progress=False)
    assert analysis.job.ranks == (1,)
    assert TraceAnalysis(trace_dir=run, progress=False).job.name == run


def test_copies_with_counters_go_to_the_current_folder(run, remote, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    job = open_trace(run, progress=False)
    assert write_traces_with_counters(job, ranks=[0]) == [Path("rank0_with_counters.json.gz")]
    assert [path.name for path in Path().iterdir()] == ["rank0_with_counters.json.gz"]
    remote.pipe_file("/bucket/b/rank0.json.gz", remote.cat_file("/bucket/run/rank0.json.gz"))
    urls = {0: f"{run}/rank0.json.gz", 1: "counting://bucket/b/rank0.json.gz"}
    with pytest.raises(ParameterError, match="write one rank at a time"):
        write_traces_with_counters(open_trace(urls, progress=False))


def test_a_path_is_no_url():
    with pytest.raises(HtaWidgetsError, match="does not exist; give a trace, a folder"):
        open_trace("C:\\runs\\a.json", progress=False)
