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

OF_SERVERS = "server_steps"
"""The panel that has nothing to say of the sample, which is no server."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HTA_WIDGETS_CACHE"] = str(Path(folder) / "cache")
        write_sample(Path(folder) / "job", ranks=2, steps=3, progress=False)
        first, cached = (_findings(Path(folder) / "job") for _ in range(2))
    assert first == cached
    assert [name for name, finding in first.items() if not finding] == [OF_SERVERS]
    print(f"Python {platform.python_version()}, {_dependencies()}: {len(first)} panels")  # noqa: T201


def _findings(job_folder: Path) -> dict[str, str]:
    """Read a job, or what the cache holds of it, and show every panel and all of them together."""
    job = open_trace(job_folder, progress=False)
    panels = {name: make(job) for name, make in PANELS.items()}
    assert all(panel._repr_mimebundle_() for panel in panels.values())
    assert Dashboard(job)._repr_mimebundle_()
    return {name: panel.result.finding for name, panel in panels.items()}


def _dependencies() -> str:
    required = (each for each in requires("hta_widgets") or [] if "extra ==" not in each)
    names = sorted({each.partition(">=")[0] for each in required})
    return ", ".join(f"{name} {version(name)}" for name in names)


if __name__ == "__main__":
    main()
