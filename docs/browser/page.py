"""Write the page that opens a trace in the browser, beside the pages of the site."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from string import Template
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile

import hta_widgets
from hta_widgets.panels.base.front_end import static_file
from hta_widgets.panels.base.report.page import policy as report_policy

HERE: Final = Path(__file__).parent


def write_page(pyodide: Path, site: Path) -> None:
    """Write the page, its scripts, Pyodide and hta_widgets into the folder of a site.

    Parameters
    ----------
    pyodide : Path
        Folder that ``collect.py`` made.
    site : Path
    """
    runtime = site / "browser" / "runtime"
    shutil.copytree(pyodide, runtime, dirs_exist_ok=True)
    package = Path(hta_widgets.__file__).parent
    with ZipFile(runtime / "hta_widgets.zip", "w", ZIP_DEFLATED) as packed:
        for file in sorted(package.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                packed.write(file, file.relative_to(package.parent))
    for name in ("page.js", "worker.js"):
        shutil.copy(HERE / name, site / "browser")
    lock = json.loads((runtime / "pyodide-lock.json").read_text("utf-8"))
    page = Template((HERE / "page.html").read_text("utf-8")).substitute(
        policy=policy(),
        version=lock["info"]["version"],
        size=round(sum(file.stat().st_size for file in runtime.iterdir()) / 1e6),
    )
    (site / "try.html").write_text(page, "utf-8")


def policy() -> str:
    """What the page may do: run Python, ask its own site, and show the report in a frame.

    The frame has a policy of its own and inherits this one, so the report's script is in both.
    """
    script = static_file("report.js").read_text("utf-8").strip()
    (sum_,) = re.findall(r"'sha256-[^']+'", report_policy(script))
    rules = {
        "default-src": "'none'",
        "script-src": f"'self' blob: 'wasm-unsafe-eval' {sum_}",
        "connect-src": "'self'",
        "worker-src": "blob:",
        "style-src": "'unsafe-inline'",
        "img-src": "data: blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())
