"""A page downloads the files that a button wrote, and no others."""

from __future__ import annotations

import pytest

from hta_widgets.panels.base import written_files
from hta_widgets.panels.base.written_files import answer_about_file


def ask(written, **content):
    return answer_about_file({"kind": "written-file", "id": "7", "offset": 0, **content}, written)


def test_its_parts_are_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(written_files, "CHUNK_BYTES", 4)
    file = tmp_path / "a.json.gz"
    file.write_bytes(b"0123456789")
    answers = [ask({file.name: file}, name=file.name, offset=each) for each in (0, 4, 8)]
    assert b"".join(answer.buffers[0] for answer in answers) == file.read_bytes()
    assert all(answer.content["bytes"] == 10 for answer in answers)


@pytest.mark.parametrize(
    "content",
    [
        {"name": "/etc/passwd"},
        {"name": "../a.json.gz"},
        {"name": ["a.json.gz"]},
        {"name": "a.json.gz", "offset": -1},
        {"name": "a.json.gz", "offset": "0"},
        {"name": "gone.json.gz"},
    ],
)
def test_others_are_refused_in_words(tmp_path, content):
    file = tmp_path / "a.json.gz"
    file.write_bytes(b"0123456789")
    written = {"a.json.gz": file, "gone.json.gz": tmp_path / "gone.json.gz"}
    answer = ask(written, **content)
    assert answer.buffers == []
    assert answer.content["problem"]
