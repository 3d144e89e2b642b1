"""Panels and dashboards that tests leave open are closed."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakSet

import pytest

from hta_widgets.panels.base import drawn_widget


@pytest.fixture(autouse=True)
def _nothing_stays_open() -> Iterator[None]:
    """What is open follows the selection of its job: each later test would compute it again."""
    before = WeakSet(drawn_widget._open)
    yield
    for each in [*drawn_widget._open]:
        if each not in before:
            each.close()
