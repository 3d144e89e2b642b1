"""The first example of the README in JupyterLab in Firefox, as it is installed here.

By hand, once ``npm --prefix tests/hosts install --no-save puppeteer-core`` was run:
``python -m tests.hosts.firefox [--picture FILE]``.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat

from hta_widgets.sample import write_sample
from tests.browser.lab_pages import jupyter, notebook

HERE = Path(__file__).parent


DASHBOARD = "from hta_widgets import Dashboard\nboard = Dashboard({!r})\nboard"
PANEL = """from hta_widgets.panels import KernelBreakdownPanel
panel = KernelBreakdownPanel(board.job)
panel"""


def main(arguments: list[str] | None = None) -> int:
    """Open the notebook, and return the exit code of the script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--firefox", default=shutil.which("firefox") or "firefox")
    parser.add_argument("--picture", default="", help="where to keep a picture of the page")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        write_sample(Path(folder) / "job", progress=False)
        with jupyter("lab", Path(folder)) as (url, token, root):
            cells = DASHBOARD.format(f"{folder}/job"), PANEL
            nbformat.write(notebook(cells), root / "first.ipynb")
            address = f"{url}/doc/tree/first.ipynb?token={token}"
            script = ["node", str(HERE / "firefox.mjs"), address, options.firefox]
            return subprocess.run([*script, options.picture], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
