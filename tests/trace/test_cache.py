"""What the cache stores, when it is read, and what invalidates it."""

from __future__ import annotations

import os

import pytest

from hta_widgets.trace.cache import files as cache_files
from hta_widgets.trace.opening.open import open_trace
from hta_widgets.trace.ranks import cache
from hta_widgets.trace.ranks.loading import load_rank
from hta_widgets.trace.ranks.source import RankSource
from tests.kineto_text import call, host, kernel, write

EVENTS = [host(0, 9, "aten::mm"), call(1, 1, 1), kernel(3, 3, correlation=1)]


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_trace_is_read_once(tmp_path, cached, reads):
    source = RankSource(write(tmp_path / "a.json.gz", EVENTS))
    first, second = (load_rank(source, 0) for _ in range(2))
    assert len(reads) == 1
    assert len(files(cached)) == 1
    assert second.trace.events.start_ns.tolist() == first.trace.events.start_ns.tolist()
    assert second.links["launches"].tolist() == first.links["launches"].tolist() == [-1, -1, 1]
    assert second.links["parents"].tolist() == [-1, 0, -1]


def test_progress_is_whole_either_way(tmp_path, cached):
    source = RankSource(write(tmp_path / "a.json", EVENTS))
    for _ in range(2):
        read = []
        load_rank(source, 0, read.append)
        assert sum(read) == source.size
    assert files(cached)


def test_another_rank_of_the_same_file_is_another_trace(tmp_path, cached, reads):
    source = RankSource(write(tmp_path / "a.json", EVENTS))
    assert [load_rank(source, rank).trace.rank for rank in (0, 1, 1)] == [0, 1, 1]
    assert len(reads) == len(files(cached)) == 2


def test_a_changed_file_is_read_again(tmp_path, cached, reads):
    path = write(tmp_path / "a.json", EVENTS)
    state = path.stat()
    load_rank(RankSource(path), 0)
    path.write_bytes(path.read_bytes().replace(b"aten::mm", b"aten::bb"))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))
    assert "aten::bb" in load_rank(RankSource(path), 0).trace.events.name.values
    assert len(reads) == 2
    assert cached.is_dir()


def test_a_gzip_of_the_same_size_and_time_has_another_trailer(tmp_path, cached, reads):
    path = write(tmp_path / "a.json.gz", EVENTS)
    state = path.stat()
    load_rank(RankSource(path), 0)
    content = bytearray(path.read_bytes())
    content[-8] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert cache.load(RankSource(path), 0) is None
    assert len(reads) == len(files(cached)) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.write_bytes(file.read_bytes()[:-100]),
        lambda file: file.write_bytes(b"something else"),
        lambda file: file.write_bytes(b""),
    ],
    ids=["cut", "foreign", "empty"],
)
def test_a_damaged_file_is_written_again(tmp_path, cached, reads, damage):
    source = RankSource(write(tmp_path / "a.json", EVENTS))
    load_rank(source, 0)
    [file] = cached.iterdir()
    damage(file)
    for _ in range(2):
        assert len(load_rank(source, 0).trace.events) == 3
    assert len(reads) == 2


def test_what_other_code_wrote_is_read_again_and_written_over(tmp_path, cached, reads, monkeypatch):
    source = RankSource(write(tmp_path / "a.json", EVENTS))
    load_rank(source, 0)
    monkeypatch.setattr(cache, "code_version", lambda _: "other code")
    for _ in range(2):
        load_rank(source, 0)
    assert len(reads) == 2
    assert len(files(cached)) == 1


def test_off(tmp_path, cached, reads, monkeypatch):
    monkeypatch.setenv(cache_files.VARIABLE, "OFF")
    source = RankSource(write(tmp_path / "a.json", EVENTS))
    for _ in range(2):
        load_rank(source, 0)
    assert len(reads) == 2
    assert not cached.exists()


def test_small_traces_are_not_kept(tmp_path, cached, monkeypatch):
    monkeypatch.setattr(cache, "WORTH_KEEPING", 2**20)
    open_trace(write(tmp_path / "a.json", EVENTS), progress=False)
    assert not cached.exists()


def test_the_platform_has_a_place_for_it(monkeypatch):
    monkeypatch.delenv(cache_files.VARIABLE)
    assert "hta_widgets" in cache_files.cache_folder().parts


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, cached, reads):
    cached.parent.joinpath("cache").write_text("a file where the folder should be")
    load_rank(RankSource(write(tmp_path / "a.json", EVENTS)), 0)
    assert len(reads) == 1


def test_what_was_used_longest_ago_goes_first(tmp_path, cached, monkeypatch):
    sources = [RankSource(write(tmp_path / f"{name}.json", EVENTS)) for name in "abc"]
    for source in sources[:2]:
        load_rank(source, 0)
    by_age = {entry.path: entry.size for entry in cache_files.entries(cached)}
    for age, path in enumerate(by_age):
        os.utime(path, (1_000 - age, 1_000 - age))
    newest = next(iter(by_age))
    monkeypatch.setenv(cache_files.SIZE_VARIABLE, str(2.5 * max(by_age.values()) / 10**9))
    load_rank(sources[2], 0)
    left = [entry.path for entry in cache_files.entries(cached)]
    assert len(left) == 2
    assert newest in left
    sizes = sum(path.stat().st_size for path in left)
    assert cache_files.prune(cached, 0) == sizes
    assert cache_files.entries(cached) == []


def test_two_jobs_share_the_pages(tmp_path, cached):
    path = write(tmp_path / "a.json", EVENTS)
    first, second = (open_trace(path, progress=False) for _ in range(2))
    assert not second.rank(0).trace.events.start_ns.flags.owndata
    assert second.rank(0).launches.tolist() == first.rank(0).launches.tolist()
    assert files(cached)
