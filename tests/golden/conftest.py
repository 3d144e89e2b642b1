"""Golden tests go through the cache: the first to open a trace writes it, the others map it."""

from __future__ import annotations

import pytest

from hta_widgets.trace.cache.files import VARIABLE


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _cached(cache, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(cache))
    monkeypatch.setattr("hta_widgets.trace.ranks.cache.WORTH_KEEPING", 0)
