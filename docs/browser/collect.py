"""Collect what Python in a browser needs, for the page on which a trace is opened there.

``python docs/browser/collect.py FOLDER`` fetches Pyodide by npm, its packages from its CDN (each
has the checksum of its lock file, or it is refused), and pure ones by pip. With
``HTA_WIDGETS_PYODIDE=FOLDER``, the site that Sphinx makes has the page, and hosts all of it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

VERSION = "0.27.7"
"""Of Pyodide: the one that the page was tested with."""

CDN = f"https://cdn.jsdelivr.net/pyodide/v{VERSION}/full/"
CORE = (
    *("pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm"),
    *("python_stdlib.zip", "pyodide-lock.json"),
)
COMPILED = ("ipython", "msgspec", "numpy", "packaging", "pandas", "pyarrow", "sqlite3", "traitlets")
PURE = (
    *("anywidget==0.11.0", "comm==0.2.3", "ipywidgets==8.1.9", "platformdirs==4.14.8"),
    *("psygnal==0.16.1", "tqdm==4.70.1", "typing_extensions==4.16.0"),
)
LIST = "packages.json"


def collect(folder: Path, have: list[Path], instead: list[Path]) -> None:
    """Put Pyodide, its packages and their list into a folder.

    Parameters
    ----------
    folder : Path
    have : list of Path
        Folders to take files of Pyodide's packages from before they are fetched.
    instead : list of Path
        Wheels to take in place of Pyodide's of the same package, unchecked.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in core():
        (folder / name).write_bytes(content)
    lock = json.loads((folder / "pyodide-lock.json").read_text("utf-8"))["packages"]
    given = {wheel.name.partition("-")[0]: wheel for wheel in instead}
    names, missing = [], []
    for package in needed(lock, COMPILED):
        if package in given:
            name, content = given[package].name, given[package].read_bytes()
        else:
            name, content = lock[package]["file_name"], found(lock[package], have)
        names.append(name)
        if content is None:
            missing.append(name)
        else:
            (folder / name).write_bytes(content)
    if missing:
        sys.exit(f"{CDN} does not answer; name a folder that has {', '.join(missing)}: --from")
    with TemporaryDirectory() as wheels:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", wheels]
        only = ["--only-binary=:all:", "--platform=any", "--python-version=3.12", "--abi=none"]
        subprocess.run([*pip, *only, *PURE], check=True)
        for wheel in sorted(Path(wheels).glob("*.whl")):
            names.append(wheel.name)
            shutil.copy(wheel, folder)
    (folder / LIST).write_text(json.dumps(names), "utf-8")


def core() -> Iterator[tuple[str, bytes]]:
    """Pyodide itself, which npm checks."""
    with TemporaryDirectory() as folder:
        npm = ["npm", "pack", "--silent", f"pyodide@{VERSION}"]
        subprocess.run(npm, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (packed,) = Path(folder).glob("*.tgz")
        with tarfile.open(packed) as files:
            for name in CORE:
                content = files.extractfile(f"package/{name}")
                if content is None:
                    sys.exit(f"pyodide@{VERSION} has no {name}")
                yield name, content.read()


def needed(lock: dict[str, Any], packages: tuple[str, ...]) -> list[str]:
    """Packages with all that they depend on, by the lock file."""
    ordered: dict[str, None] = {}
    for name in packages:
        package = name.lower().replace("_", "-")
        ordered |= dict.fromkeys([*needed(lock, tuple(lock[package]["depends"])), package])
    return list(ordered)


def found(package: dict[str, Any], have: list[Path]) -> bytes | None:
    """The file of a package, if it has the checksum of the lock file; None if nobody has it."""
    name = package["file_name"]
    for folder in have:
        if (folder / name).is_file():
            content = (folder / name).read_bytes()
            break
    else:
        try:
            with urlopen(CDN + name, timeout=60) as answer:  # noqa: S310  # https
                content = answer.read()
        except (URLError, TimeoutError):
            return None
    if sha256(content).hexdigest() != package["sha256"]:
        sys.exit(f"{name} is not the file that Pyodide's lock file names")
    return content


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--from", dest="have", type=Path, action="append", default=[])
    parser.add_argument("--instead", type=Path, action="append", default=[])
    arguments = parser.parse_args()
    collect(arguments.folder, arguments.have, arguments.instead)
