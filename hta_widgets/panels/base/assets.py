"""The large part of the front end, in one hidden model per kernel that all panels share.

anywidget sends and saves the text of `_esm` with every widget, so a panel carries only a loader.
"""

from __future__ import annotations

import hashlib
from typing import Any

from traitlets import Dict, Unicode

from hta_widgets.panels.base.front_end import static_file
from hta_widgets.panels.base.widget import Widget

MODULES = ("panel", "plotly")


class SharedModel(Widget):
    """State in the browser that panels refer to and that has no view."""

    _esm = "export default {}"
    _view_name = Unicode(None, allow_none=True).tag(sync=True)


class Assets(SharedModel):
    """Modules of the front end, loaded once per page: gzipped files and their checksums."""

    files = Dict().tag(sync=True)
    sums = Dict().tag(sync=True)

    def _set_by_python(self) -> set[str]:
        return set(self.keys)


_shared: list[Assets] = []


def _built_modules() -> dict[str, Any]:
    files = {name: static_file(f"{name}.js.gz").read_bytes() for name in MODULES}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return {"files": files, "sums": sums}


def shared_assets() -> Assets:
    """Return the assets of this kernel, created with the first panel."""
    if not _shared or _shared[0].comm is None:
        _shared[:] = [Assets(**_built_modules())]
    return _shared[0]


def reload_assets() -> None:
    """Send rebuilt modules to the browser."""
    for assets in _shared:
        with assets.hold_sync():
            for name, value in _built_modules().items():
                setattr(assets, name, value)
