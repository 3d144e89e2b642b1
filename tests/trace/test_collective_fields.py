"""The fields that PyTorch records of collectives, sends and receives."""

from __future__ import annotations

import pytest

from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import host, kernel, write

RECORD = {
    "Collective name": "send",
    "In msg nelems": 10,
    "Out msg nelems": 20,
    "Group size": 4,
    "dtype": "BFloat16",
    "Process Group Name": "3",
    "Process Group Description": "mesh_pp",
    "Process Group Ranks": "[0, 2, 4, 6]",
    "Dst Rank": 4,
    "Seq": 17,
}
COLUMNS = {
    "collective": "send",
    "in_elements": 10,
    "out_elements": 20,
    "group_size": 4,
    "dtype": "BFloat16",
    "group": "3",
    "group_description": "mesh_pp",
    "group_ranks": '"[0, 2, 4, 6]"',
    "source_rank": -1,
    "destination_rank": 4,
    "sequence": 17,
}


def side_table(path):
    return load_kineto(path, 0).events.side["collectives"].to_frame().to_dict("records")


def test_every_field_is_a_column(tmp_path):
    path = write(tmp_path / "a.json", [kernel(0, 1, **RECORD), kernel(2, 1)])
    assert side_table(path) == [COLUMNS]


def test_records_of_operators_have_them_too(tmp_path):
    record = host(0, 5, "record_param_comms") | {"args": RECORD}
    assert side_table(write(tmp_path / "a.json", [record, host(1, 1, "aten::add")])) == [COLUMNS]


@pytest.mark.parametrize(
    ("field", "value", "column", "expected"),
    [
        ("Process Group Name", 7, "group", "7"),
        ("Process Group Name", [7], "group", ""),
        ("Process Group Ranks", [0, 2], "group_ranks", "[0, 2]"),
        ("Seq", "18", "sequence", 18),
        ("Dst Rank", None, "destination_rank", -1),
    ],
)
def test_other_forms(tmp_path, field, value, column, expected):
    path = write(tmp_path / "a.json", [kernel(0, 1, **RECORD | {field: value})])
    assert side_table(path)[0][column] == expected


def test_old_traces_have_fewer_fields(tmp_path):
    fields = {"Collective name": "allreduce", "dtype": "Float"}
    found = side_table(write(tmp_path / "a.json", [kernel(0, 1, **fields)]))[0]
    assert found["group_ranks"] == found["group_description"] == found["group"] == ""
    assert found["sequence"] == found["source_rank"] == found["destination_rank"] == -1


@pytest.mark.usefixtures("cached")
def test_fields_from_the_cache(tmp_path):
    path = write(tmp_path / "a.json", [kernel(0, 1, **RECORD)])
    for _ in range(2):
        table = open_trace(path, progress=False).rank(0).trace.events.side["collectives"]
        assert table.to_frame().to_dict("records") == [COLUMNS]
