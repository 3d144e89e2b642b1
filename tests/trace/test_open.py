"""Finding traces and their ranks, and error messages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hta_widgets.errors import RankError, TraceFormatError, TraceNotFoundError, UnknownRankError
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.opening.open import as_job, open_trace
from tests.kineto_text import host, kernel, step, write

EVENTS = [host(0, 1, "aten::add"), kernel(1, 1)]


def rank(number):
    return {"distributedInfo": {"backend": "nccl", "rank": number, "world_size": 8}}


def ranks_of(source):
    return open_trace(source, progress=False).ranks


def test_folder_with_ranks_in_the_files(tmp_path):
    write(tmp_path / "b.json.gz", EVENTS, **rank(3))
    write(tmp_path / "a.json", EVENTS, layout="compact", **rank(11))
    assert ranks_of(tmp_path) == (3, 11)
    assert ranks_of(str(tmp_path)) == (3, 11)


def test_rank_after_the_events(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"traceEvents": EVENTS, **rank(5)}))
    assert ranks_of(tmp_path) == (5,)


@pytest.mark.usefixtures("cached")
def test_rank_behind_the_events_is_looked_for_once(tmp_path, monkeypatch):
    looked = []
    look = EventText.metadata_around_events
    monkeypatch.setattr(
        EventText, "metadata_around_events", lambda text: looked.append(text.path) or look(text)
    )
    for suffix in ("json", "json.gz"):
        path = write(tmp_path / f"rank3.{suffix}", EVENTS)
        for _ in range(3):
            assert ranks_of(path) == (3,)
        assert looked == [path]
        path.write_bytes(path.read_bytes() + b" ")
        ranks_of(path)
        assert looked == [path, path]
        looked.clear()
    ranks_of(write(tmp_path / "other.json", EVENTS, **rank(4)))
    ranks_of({5: write(tmp_path / "third.json", EVENTS)})
    assert looked == []


def test_rank_of_an_event_is_not_the_rank_of_the_job(tmp_path):
    path = write(tmp_path / "a.json", [kernel(0, 1, rank=7)])
    assert ranks_of(path) == (0,)


def test_rank_from_the_name(tmp_path):
    for number in (2, 10):
        write(tmp_path / f"rank_0_of_run-rank-{number}.pt.trace.json.gz", EVENTS)
    assert ranks_of(tmp_path) == (2, 10)


def test_single_file_without_rank_is_rank_0(tmp_path):
    assert ranks_of(write(tmp_path / "trace.json", EVENTS)) == (0,)


def test_list_and_mapping(tmp_path):
    first = write(tmp_path / "a.json", EVENTS, **rank(4))
    second = write(tmp_path / "b.json", EVENTS, **rank(4))
    assert ranks_of([first]) == (4,)
    assert ranks_of({9: second, "1": str(first)}) == (1, 9)


def test_several_files_without_rank(tmp_path):
    write(tmp_path / "a.json", EVENTS)
    write(tmp_path / "b.json", EVENTS, **rank(1))
    with pytest.raises(RankError, match=r"- rank 1 of 8: a\.json\n  open_trace\('/.*a\.json'\)"):
        open_trace(tmp_path)


def test_two_files_of_one_rank(tmp_path):
    write(tmp_path / "a.json", EVENTS, **rank(1))
    write(tmp_path / "b.json", EVENTS, **rank(1))
    with pytest.raises(RankError, match=r"several files of one rank, and neither .*; open one"):
        open_trace(tmp_path)


def test_other_json_in_the_folder_is_noticed(tmp_path):
    """Except what vLLM and SGLang write next to all captures."""
    write(tmp_path / "rank-0.json", EVENTS)
    (tmp_path / "config.json").write_text('{"lr": 1}')
    (tmp_path / "execution_details.json").write_text('[{"batch_size": 32}]')
    (tmp_path / "rank-1.json").touch()
    job = open_trace(tmp_path)
    assert job.ranks == (0,)
    assert [each for each in job.notices if "left out" in each] == [
        "config.json is not a trace and is left out",
        "rank-1.json is empty and is left out",
    ]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda folder: folder / "nowhere", "does not exist"),
        (lambda folder: folder, "is empty"),
        (lambda folder: {0: folder}, "is a folder"),
        (lambda folder: {}, "no trace was given"),  # noqa: ARG005
        (lambda folder: [], "no trace was given"),  # noqa: ARG005
        (lambda folder: None, "None is not a path; give a trace"),  # noqa: ARG005
    ],
)
def test_nothing_there(tmp_path, make, words):
    with pytest.raises(TraceNotFoundError, match=words):
        open_trace(make(tmp_path))


def test_folder_without_traces_says_what_it_has(tmp_path):
    (tmp_path / "readme.txt").touch()
    with pytest.raises(TraceNotFoundError, match=r"has no trace: it has readme\.txt"):
        open_trace(tmp_path)
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(TraceNotFoundError, match=r"no 'traceEvents' in a\.json"):
        open_trace(tmp_path)
    (tmp_path / "b.json").touch()
    with pytest.raises(TraceNotFoundError, match=r"there is nothing in b\.json; copy or export"):
        open_trace(tmp_path)


def test_single_file_that_is_no_trace(tmp_path):
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(TraceFormatError, match=r"a\.json has no 'traceEvents'"):
        open_trace(tmp_path / "a.json")


def test_unknown_rank_says_which_there_are(tmp_path):
    write(tmp_path / "rank-0.json", EVENTS)
    write(tmp_path / "rank-1.json", EVENTS)
    with pytest.raises(UnknownRankError, match="rank 7 is not in this job; its ranks are 0-1"):
        open_trace(tmp_path).rank(7)


def test_ranks_are_aligned_on_one_clock(tmp_path):
    write(tmp_path / "rank-0.json", [host(5, 1, "op")], baseTimeNanoseconds=1_000)
    write(tmp_path / "rank-1.json", [host(2, 1, "op")], baseTimeNanoseconds=9_000)
    job = open_trace(tmp_path)
    assert (job.origin_ns, job.offset_ns(0), job.offset_ns(1)) == (6_000, 0, 5_000)


def test_as_job_takes_a_job_what_has_one_and_a_path(tmp_path):
    path = write(tmp_path / "rank-0.json", EVENTS)
    job = open_trace(path)
    holder = type("Holder", (), {"job": job})()
    assert as_job(job) is job
    assert as_job(holder) is job
    assert as_job(path).ranks == (0,)


def test_rank_without_gpu_work_says_so(tmp_path):
    write(tmp_path / "rank-0.json", EVENTS)
    write(tmp_path / "rank-1.json", [host(0, 1, "op")])
    assert "rank 1: the trace has no GPU work" in open_trace(tmp_path).notices


def test_work_without_launch_is_counted(tmp_path):
    job = open_trace(write(tmp_path / "rank-0.json", [step(1, 0, 9), kernel(1, 1), kernel(3, 1)]))
    assert job.notices[0].startswith("2 of 2 GPU operations have no launch in the trace")


def test_job_of_a_folder_is_named_after_it(tmp_path):
    folder = tmp_path / "my run"
    folder.mkdir()
    write(folder / "rank-0.json", EVENTS)
    assert open_trace(folder).name == "my run"
    assert open_trace([folder / "rank-0.json"]).name == "my run"
    assert open_trace(Path(folder / "rank-0.json")).name == "rank-0.json"
    assert repr(open_trace(folder)) == "Job('my run', ranks 0)"


class TestCopiesOfHta:
    """HTA writes copies without a mark beside the traces they are of."""

    @pytest.mark.parametrize(
        ("trace", "copy"),
        [
            ("rank-0.json.gz", "rank-0_with_counters.json.gz"),
            ("rank-0.json", "rank-0_with_counters.json"),
            ("rank-0.json.gz", "overlaid_rank-0.json.gz"),
            ("a.pt.trace.json.gz", "overlaid_critical_path_a.pt.trace.json.gz"),
        ],
    )
    def test_they_are_left_out_and_named(self, tmp_path, trace, copy):
        events = [step(1, 0, 10), kernel(2, 5)]
        for name in (trace, copy):
            write(tmp_path / name, events, distributedInfo={"rank": 0})
        write(tmp_path / "rank-1.json", events, distributedInfo={"rank": 1})
        job = open_trace(tmp_path, progress=False)
        assert [source.path.name for source in job.sources.values()] == [trace, "rank-1.json"]
        assert f"copies that HTA wrote of other traces are left out: {copy}" in job.notices

    def test_a_copy_of_a_copy_goes_too(self, tmp_path):
        names = ["rank-0.json", "rank-0_with_counters.json", "overlaid_rank-0_with_counters.json"]
        for name in names:
            write(tmp_path / name, [kernel(2, 5)])
        job = open_trace(tmp_path, progress=False)
        assert [source.path.name for source in job.sources.values()] == names[:1]
        assert ", ".join(sorted(names[1:])) in job.notices[0]

    @pytest.mark.parametrize("name", ["overlaid_rank-0.json", "rank-0_with_counters.json"])
    def test_without_the_trace_it_is_a_trace(self, tmp_path, name):
        write(tmp_path / name, [kernel(2, 5)])
        write(tmp_path / "rank-1.json", [kernel(2, 5)])
        job = open_trace(tmp_path, progress=False)
        assert {source.path.name for source in job.sources.values()} == {name, "rank-1.json"}
        assert not any("HTA wrote" in notice for notice in job.notices)
