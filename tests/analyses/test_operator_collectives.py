"""What the operator ``record_param_comms`` communicates, by each way to find out."""

from __future__ import annotations

from pathlib import Path

import pytest

from hta_widgets.analyses import operators
from hta_widgets.analyses.communication.recorded import operation_of
from hta_widgets.panels import OperatorsPanel
from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, read, write

RECORD = "record_param_comms"
BARS = "Operators with the most self GPU time"


def record(start, gpu_us, number, **arguments):
    """A record with a kernel that it launches, and the number of the kernel."""
    return [
        {**host(start, 10, RECORD), "args": arguments},
        call(start + 2, 2, number),
        kernel(1000 + start, gpu_us, correlation=number, name="ncclKernel"),
    ]


def job_of(folder: Path, events: list) -> Job:
    folder.mkdir(exist_ok=True)
    return open_trace(write(folder / "rank-0.json", events), progress=False)


def rows_of(job: Job, **parameters) -> list[tuple[str, int, str]]:
    rows = operators(job, **parameters).operators
    rows = rows[rows["operator"] == RECORD]
    return [*zip(rows["collectives"], rows["calls"], rows["gpu_self_ns"], strict=True)]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        (record(0, 5, 1, **{"Collective name": "_allgather_base"}), "all_gather"),
        ([*record(0, 5, 1), host(1, 1, "nccl:all_to_all", cat="user_annotation")], "all_to_all"),
        ([*record(10, 5, 1), host(5, 20, "c10d::allreduce_")], "all_reduce"),
        ([*record(10, 5, 1), host(5, 20, "_c10d_functional::broadcast")], "broadcast"),
        ([*record(10, 5, 1), host(5, 20, "my::allreduce_")], ""),
        (record(0, 5, 1, **{"Collective name": "wait"}), ""),
        ([*record(10, 5, 1), host(30, 5, "nccl:all_reduce", cat="user_annotation")], ""),
    ],
)
def test_what_a_record_is(tmp_path, events, expected):
    assert rows_of(job_of(tmp_path, events)) == [(expected, 1, 5_000)]


def test_fields_count_more_than_the_annotation_and_it_more_than_the_operator(tmp_path):
    around = host(5, 20, "c10d::allreduce_")
    inside = host(11, 1, "nccl:reduce_scatter", cat="user_annotation")
    job = job_of(tmp_path / "a", [around, inside, *record(10, 5, 1)])
    assert rows_of(job)[0][0] == "reduce_scatter"
    fields = {"Collective name": "allgather"}
    job = job_of(tmp_path / "b", [around, inside, *record(10, 5, 1, **fields)])
    assert rows_of(job)[0][0] == "all_gather"


@pytest.fixture
def several(tmp_path) -> Job:
    """Two all-gathers of 20 µs, of different shapes, an all-reduce of 30, and one unknown of 50."""
    gather = {"Collective name": "_allgather_base"}
    return job_of(
        tmp_path,
        [
            *record(0, 20, 1, **gather, **{"Input Dims": [[4]]}),
            *record(30, 20, 2, **gather, **{"Input Dims": [[8]]}),
            *record(60, 30, 3, **{"Collective name": "allreduce"}, **{"Input Dims": [[8]]}),
            *record(120, 50, 4),
            host(200, 5, "aten::mm"),
        ],
    )


def test_a_row_of_several_names_each_once_the_longest_first(several):
    assert rows_of(several) == [("all_gather, all_reduce", 4, 120_000)]
    assert rows_of(several, by="shape") == [
        ("all_reduce, all_gather", 2, 50_000),
        ("", 1, 50_000),
        ("all_gather", 1, 20_000),
    ]
    others = operators(several).operators.set_index("operator")["collectives"]
    assert others["aten::mm"] == ""


def test_the_sentence_and_the_bars_name_them(several):
    panel = OperatorsPanel(several)
    assert f"{RECORD} (all_gather, all_reduce) takes the most" in panel.result.finding
    (bar,) = panel.figures[BARS].data
    assert list(panel.figures[BARS].layout.yaxis.ticktext) == [f"{RECORD} · all_gather, all_reduce"]
    assert bar.customdata[0][0] == RECORD
    assert bar.hovertext[0].startswith(f"{RECORD}<br>all_gather, all_reduce<br>")
    panel.by = "shape"
    labels = panel.figures[BARS].layout.yaxis.ticktext
    assert f"{RECORD} · all_reduce, all_gather · 8" in labels
    assert f"{RECORD} · all_gather · 4" in labels


def test_the_table_has_a_column_of_them_where_there_are_any(several, tmp_path):
    assert OperatorsPanel(several).table.columns[2] == "collectives"
    none = job_of(tmp_path / "none", [host(0, 5, "aten::mm"), call(1, 2, 1)])
    assert "collectives" not in OperatorsPanel(none).table


def test_those_of_the_sample_are_the_recorded_ones(tmp_path):
    paths = write_sample(tmp_path, ranks=4, progress=False)
    result = operators(open_trace(tmp_path, progress=False))
    rows = result.operators[result.operators["operator"] == RECORD]
    assert len(rows)
    for rank, path in enumerate(sorted(paths)):
        events = read(path)["traceEvents"]
        recorded = {
            operation_of(event["args"]["Collective name"])
            for event in events
            if event.get("name") == RECORD
        }
        of_rank = rows.loc[rows["rank"] == rank, "collectives"]
        assert {name for text in of_rank for name in text.split(", ")} == recorded
