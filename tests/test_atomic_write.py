"""Files and folders are there completely or not at all."""

from __future__ import annotations

import os
import stat

import pytest

from hta_widgets.atomic_write import PARTIAL_NAME, atomic_folder, atomic_write


def test_a_file_is_replaced_at_the_end(tmp_path):
    target = tmp_path / "table"
    target.write_text("old")
    with atomic_write(target) as partial:
        partial.write_text("new")
        assert PARTIAL_NAME.fullmatch(partial.name)
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_appears_at_the_end(tmp_path):
    target = tmp_path / "new" / "tables"
    with atomic_folder(target) as partial:
        (partial / "table").write_text("rows")
        assert not target.exists()
    assert [file.name for file in target.iterdir()] == ["table"]
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("write", [atomic_write, atomic_folder])
def test_nothing_is_left_after_an_error(tmp_path, write):
    with pytest.raises(ZeroDivisionError), write(tmp_path / "target"):
        _ = 1 / 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
@pytest.mark.parametrize(("private", "mode"), [(False, 0o644), (True, 0o600)])
def test_only_private_files_are_hidden_from_others(tmp_path, private, mode):
    before = os.umask(0o022)
    try:
        with atomic_write(tmp_path / "table", private=private):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "table").stat().st_mode) == mode
