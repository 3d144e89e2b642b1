"""What a user does first, in one process: open the sample job and show its panels.

`bash tests/run versions` runs this against the oldest and the newest dependencies on every Python.
Nothing but the package and what it depends on is imported.
"""

from __future__ import annotations

import os
import platform
import tempfile
from importlib.metadata import requires, version
from pathlib import Path

from hta_widgets import Dashboard, open_trace
from hta_widgets.panels.dashboard import PANELS
from hta_widgets.sample import write_sample


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HTA_WIDGETS_CACHE"] = str(Path(folder) / "cache")
        write_sample(Path(folder) / "job", ranks=2, steps=3, progress=False)
        first, cached = (_findings(Path(folder) / "job") for _ in range(2))
    assert first == cached
    assert all(first)
    print(f"Python {platform.python_version()}, {_dependencies()}: {len(first)} panels")  # noqa: T201


def _findings(job_folder: Path) -> list[str]:
    """Read a job, or what the cache holds of it, and show every panel and all of them together."""
    job = open_trace(job_folder, progress=False)
    panels = [make(job) for make in PANELS.values()]
    assert all(panel._repr_mimebundle_() for panel in panels)
    assert Dashboard(job)._repr_mimebundle_()
    return [panel.result.finding for panel in panels]


def _dependencies() -> str:
    required = (each for each in requires("hta_widgets") or [] if "extra ==" not in each)
    names = sorted({each.partition(">=")[0] for each in required})
    return ", ".join(f"{name} {version(name)}" for name in names)


if __name__ == "__main__":
    main()
