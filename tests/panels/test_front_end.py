"""The built front end exists, matches its sources, and reports missing files."""

from __future__ import annotations

import gzip
import hashlib
import shutil

import pytest

from hta_widgets.panels.base import drawn_widget, front_end
from hta_widgets.panels.base.assets import shared_assets


def test_the_build_is_up_to_date():
    assert front_end.is_up_to_date(), (
        f"hta_widgets/panels/static is missing or older than js/src: run "
        f"`{front_end.BUILD_COMMAND}` in {front_end.SOURCES}"
    )


@pytest.mark.skipif(not front_end.SOURCES.is_dir(), reason="installed: no sources beside it")
def test_a_changed_source_makes_it_stale(tmp_path, monkeypatch):
    sources = tmp_path / "js"
    shutil.copytree(front_end.SOURCES, sources, ignore=shutil.ignore_patterns("node_modules"))
    monkeypatch.setattr(front_end, "SOURCES", sources)
    assert front_end.is_up_to_date()
    with (sources / "src" / "panel.ts").open("a") as source:
        source.write("\n")
    assert not front_end.is_up_to_date()


def test_without_sources_the_build_is_trusted(tmp_path, monkeypatch):
    monkeypatch.setattr(front_end, "SOURCES", tmp_path / "js")
    assert front_end.is_up_to_date()


def test_a_missing_build_says_how_to_make_it(tmp_path, monkeypatch):
    monkeypatch.setattr(front_end, "STATIC", tmp_path)
    assert not front_end.is_up_to_date()
    with pytest.raises(FileNotFoundError, match=r"npm ci && npm run build"):
        front_end.static_file("loader.js")


def test_what_every_panel_carries_stays_small():
    assert front_end.static_file("loader.js").stat().st_size < 2_000


@pytest.mark.parametrize("name", ["panel", "plotly"])
def test_assets_hold_the_modules_and_their_sums(name):
    assets = shared_assets()
    assert hashlib.sha256(assets.files[name]).hexdigest() == assets.sums[name]
    assert b"plotly" in gzip.decompress(assets.files[name])


@pytest.mark.parametrize("name", ["panel", "plotly"])
def test_no_module_registers_with_an_amd_loader_of_the_page(name):
    assert b"define.amd" not in gzip.decompress(front_end.static_file(f"{name}.js.gz").read_bytes())


def test_closed_assets_are_made_again():
    first = shared_assets()
    first.close()
    assert shared_assets() is not first


def test_a_new_loader_brings_new_modules_with_it(tmp_path, monkeypatch):
    assets = shared_assets()
    before = dict(assets.sums)
    for name in ("panel", "plotly"):
        shutil.copy(front_end.static_file(f"{name}.js.gz"), tmp_path)
    (tmp_path / "panel.js.gz").write_bytes(gzip.compress(b"rebuilt"))
    monkeypatch.setattr(front_end, "STATIC", tmp_path)
    drawn_widget._Loader._esm.changed.emit("rebuilt")
    assert gzip.decompress(assets.files["panel"]) == b"rebuilt"
    assert assets.sums["panel"] != before["panel"]
    assert assets.sums["plotly"] == before["plotly"]
    assets.close()
