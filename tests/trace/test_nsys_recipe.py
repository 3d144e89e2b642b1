"""Output folders of the overlap recipe: ranks, times and irregular content."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hta_widgets
from hta_widgets.analyses.overlap import overlap
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.formats import OVERLAP_RECIPE
from hta_widgets.trace.loaders.overlap_recipe import load as nsys_recipe
from hta_widgets.trace.loaders.overlap_recipe.load import (
    is_recipe_folder,
    load_nsys_recipe,
    recipe_files,
    recipe_name,
)
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.ranks.source import RankSource
from tests.recipe_folder import SESSION_NS, write_files, write_recipe_folder, write_segments

TYPES = ("Compute", "Communicate", "Overlap", "Empty")


def load(tmp_path, segments):
    return load_nsys_recipe(write_segments(tmp_path / "type_r.parquet", segments), 0)


def open_job(paths):
    sources = {rank: RankSource(path, OVERLAP_RECIPE) for rank, path in paths.items()}
    return Job(sources, name="recipe")


def rows_of(trace):
    events = trace.events
    starts = (events.start_ns + trace.origin_ns).tolist()
    names = events.names_at(events.rows_of(Kind.BUSY))
    return list(zip(names, starts, events.duration_ns.tolist(), strict=True))


def test_compute_and_communicate_both_include_their_overlap(tmp_path):
    segments = [
        (100, 110, "Compute"),
        (110, 115, "Overlap"),
        (115, 130, "Communicate"),
        (130, 140, "Empty"),
        (140, 141, "Compute"),
    ]
    trace = load(tmp_path, segments)
    assert rows_of(trace) == [
        ("Compute", 100, 15),
        ("Communicate", 110, 20),
        ("Compute", 140, 1),
    ]
    assert trace.origin_ns == 100
    assert trace.notices == ()
    assert set(trace.events.device.tolist()) == set(trace.events.stream.tolist()) == {-1}


segment_lists = st.lists(
    st.tuples(st.integers(-50, 50), st.integers(0, 30), st.sampled_from(TYPES)),
    min_size=1,
    max_size=12,
)


@given(segment_lists)
def test_any_order_and_overlap_against_counting_each_nanosecond(tmp_path_factory, drawn):
    path = tmp_path_factory.mktemp("recipe") / "type_x.parquet"
    write_segments(path, [(start, start + length, kind) for start, length, kind in drawn])
    covered = {"Compute": set(), "Communicate": set()}
    for start, length, kind in drawn:
        for name in covered:
            if kind in (name, "Overlap"):
                covered[name] |= set(range(start, start + length))
    read = {"Compute": [], "Communicate": []}
    for name, start, length in rows_of(load_nsys_recipe(path, 0)):
        read[name] += range(start, start + length)
    for name, times in covered.items():
        assert sorted(read[name]) == sorted(times)


def test_columns_in_any_order_and_of_other_types(tmp_path):
    columns = {
        "extra": [1.5, 2.5],
        "OverlapType": pa.array(["Compute", "Overlap"]).dictionary_encode(),
        "end": pa.array([9.0, 12.0]),
        "start": pa.array([5, 9], pa.uint32()),
    }
    path = tmp_path / "type_x.parquet"
    pq.write_table(pa.table(columns), path)
    assert rows_of(load_nsys_recipe(path, 0)) == [("Compute", 5, 7), ("Communicate", 9, 3)]


def test_what_is_odd_is_counted(tmp_path):
    segments = [
        (0, 5, "Empty"),
        (5, 20, "Compute"),
        (15, 30, "Communicate"),
        (30, 40, "Sleeping"),
        (50, 40, "Compute"),
        (2**62, 2**62 + 1, "Compute"),
        (60, 70, "Empty"),
    ]
    trace = load(tmp_path, segments)
    assert rows_of(trace) == [("Compute", 5, 15), ("Communicate", 15, 15)]
    assert [notice.text().split(" segments ")[0] for notice in trace.notices] == [
        "2",
        "1",
        "1 of 4",
        "2 Empty",
    ]


def test_missing_times(tmp_path):
    columns = {"start": [1, None, 3], "end": [2, 3, None], "OverlapType": ["Compute"] * 3}
    path = tmp_path / "type_x.parquet"
    pq.write_table(pa.table(columns), path)
    trace = load_nsys_recipe(path, 0)
    assert rows_of(trace) == [("Compute", 1, 1)]
    assert trace.notices[0].counts == (2,)


def test_a_rank_that_never_computes_is_empty(tmp_path):
    trace = load(tmp_path, [(0, 5, "Empty")])
    assert len(trace.events) == 0
    assert trace.notices == ()


def test_files_in_the_order_of_the_list(tmp_path):
    paths = write_recipe_folder(tmp_path, ranks=12, segments=4)
    (tmp_path / "type_profile_4086675_node0_rank3.parquet").unlink()
    (tmp_path / "type_unlisted.parquet").touch()
    (tmp_path.parent / "type_outside.parquet").touch()
    outside = ["../type_outside", "/../../type_outside", "x\\..\\y", "a\0b", "x" * 5000]
    write_files(tmp_path, [*sorted(path.stem[5:] for path in paths.values()), *outside])
    files, missing = recipe_files(tmp_path)
    text_order = [0, 1, 2, 4, 5, 6, 7, 10, 11, 8, 9]
    assert files == [paths[rank] for rank in text_order]
    assert missing[:5] == ["profile_4086675_node0_rank3", *outside[:4]]
    assert len(missing[5]) == 100
    assert is_recipe_folder(tmp_path)


def test_what_is_no_recipe_folder(tmp_path):
    assert not is_recipe_folder(tmp_path)
    (tmp_path / "files.parquet").write_bytes(b"PAR1 nonsense PAR1")
    assert not is_recipe_folder(tmp_path)
    pq.write_table(pa.table({"Rank": [0]}), tmp_path / "files.parquet")
    assert not is_recipe_folder(tmp_path)
    pq.write_table(pa.table({"File": [[1]]}), tmp_path / "files.parquet")
    assert not is_recipe_folder(tmp_path)
    write_files(tmp_path, ["report"])
    assert not is_recipe_folder(tmp_path)
    with pytest.raises(TraceFormatError, match=r"files\.parquet"):
        recipe_files(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"RecipeName": "diff", "Outputs": [1]}', "diff"),
        ('{"RecipeJsonVersion": "1.2.0"}', None),
        ('{"RecipeName": 3}', None),
        ("[1]", None),
        ('{"RecipeName": "di', None),
        ('{"a":' * 100_000, None),
        ('{"RecipeName": "' + "x" * 2000 + '"}', "x" * 50 + "…" + "x" * 49),
        (b'{"RecipeName": "\xff"}'.decode("latin-1"), None),
    ],
)
def test_recipe_name(tmp_path, text, name):
    (tmp_path / "out.nsys-analysis").write_bytes(text.encode("latin-1", "replace"))
    assert recipe_name(tmp_path) == name


def test_no_recipe_name(tmp_path):
    assert recipe_name(tmp_path) is None
    (tmp_path / "folder.nsys-analysis").mkdir()
    assert recipe_name(tmp_path) is None


def damaged(data):
    return [data[:-20], data[:40], b"", b"PAR1" + data[4:60] + b"PAR1", data[:30] + data[90:]]


@pytest.mark.parametrize("which", range(5))
def test_damaged_files(tmp_path, which):
    path = write_segments(tmp_path / "type_x.parquet", [(0, 5, "Compute")])
    path.write_bytes(damaged(path.read_bytes())[which])
    with pytest.raises(TraceFormatError, match=r"type_x\.parquet"):
        load_nsys_recipe(path, 0)


@pytest.mark.parametrize(
    "columns",
    [
        {"start": [1], "end": [2]},
        {"start": ["one"], "end": ["two"], "OverlapType": ["Compute"]},
        {"start": [0.5], "end": [2.0], "OverlapType": ["Compute"]},
        {"start": [1], "end": [2], "OverlapType": [{"a": 1}]},
        {"start": [[1]], "end": [2], "OverlapType": ["Compute"]},
    ],
)
def test_other_columns_are_refused(tmp_path, columns):
    path = tmp_path / "type_x.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(TraceFormatError, match="overlap recipe"):
        load_nsys_recipe(path, 0)


def test_files_that_unpack_without_end_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(nsys_recipe, "MOST_ROWS", 2)
    with pytest.raises(TraceFormatError, match="3 rows; the limit is 2"):
        load(tmp_path, [(0, 1, "Compute")] * 3)


def test_reading_is_reported(tmp_path):
    path = write_segments(tmp_path / "type_x.parquet", [(0, 5, "Compute")])
    read = []
    load_nsys_recipe(path, 3, read.append)
    assert read == [path.stat().st_size]


def test_ranks_lie_on_one_clock(tmp_path):
    paths = write_recipe_folder(tmp_path, ranks=3, segments=9)
    job = open_job(paths)
    starts = {rank: pq.read_table(path).column("start")[0].as_py() for rank, path in paths.items()}
    for rank, start in starts.items():
        assert job.offset_ns(rank) == start - min(starts.values())
        assert job.rank(rank).trace.origin_ns == start >= SESSION_NS


def test_analyses_give_the_times_of_the_recipe(tmp_path):
    paths = write_recipe_folder(tmp_path, ranks=2, segments=30, slow_ranks=[1])
    job = open_job(paths)
    table = overlap(job).ranks
    for rank, path in paths.items():
        total = dict.fromkeys(TYPES, 0)
        for row in pq.read_table(path).to_pylist():
            total[row["OverlapType"]] += row["duration"]
        found = table[table["rank"] == rank].iloc[0]
        assert found["computation_time_ns"] == total["Compute"] + total["Overlap"]
        assert found["communication_time_ns"] == total["Communicate"] + total["Overlap"]
        assert found["overlap_time_ns"] == total["Overlap"]
        times = temporal_breakdown(job, [rank]).ranks.iloc[0]
        assert times["idle_time_ns"] == total["Empty"]


@pytest.mark.parametrize("name", ["dlrm_2rank", "compare_control", "h100_bert"])
def test_converted_traces(real_traces, name):
    folder = real_traces / "converted" / name
    expected = json.loads((folder / "expected.json").read_text())
    files, missing = recipe_files(folder / "nsys_recipe")
    assert missing == []
    assert {file.stem.removeprefix("type_") for file in files} == set(expected)
    for file in files:
        job = open_job({0: file})
        found = overlap(job).ranks.iloc[0]
        idle_ns = temporal_breakdown(job).ranks["idle_time_ns"].iloc[0]
        both = found["overlap_time_ns"]
        assert expected[file.stem.removeprefix("type_")]["overlap4_ns"] == {
            "Compute": found["computation_time_ns"] - both,
            "Communicate": found["communication_time_ns"] - both,
            "Overlap": both,
            "Empty": idle_ns,
        }


def test_another_recipe_is_no_overlap_recipe(real_traces):
    folder = real_traces / "nsys" / "recipe_nvtx_gpu_proj_trace" / "rank0"
    assert not is_recipe_folder(folder)
    assert recipe_name(folder) == "nvtx_gpu_proj_trace"
    for path in (folder, folder.parent):
        with pytest.raises(TraceFormatError, match=r"rank0 is .*'nvtx_gpu_proj_trace'.*nsys"):
            hta_widgets.open_trace(path, progress=False)


def test_each_of_hundreds_of_ranks_is_read_once(tmp_path, monkeypatch):
    read = []
    make = nsys_recipe.opened_parquet
    monkeypatch.setattr(
        nsys_recipe, "opened_parquet", lambda path, *texts: read.append(path) or make(path, *texts)
    )
    paths = write_recipe_folder(tmp_path)
    job = open_job(paths)
    assert read == []
    events = sum(len(job.rank(rank).trace.events) for rank in job.ranks)
    assert events > 512 * 50
    assert read == list(paths.values())
