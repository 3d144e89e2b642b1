"""Compile msgspec for Pyodide 0.27.7, where its CDN cannot be reached.

``python -m tests.wasm.compile_msgspec SOURCES PYODIDE HEADERS WHEEL``, with the unpacked source
distribution, the folder with ``python_stdlib.zip``, and the headers of Python 3.12. It needs
Emscripten 3.1.6 or newer (``apt-get install emscripten``).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile

MODULE = "msgspec/_core.cpython-312-wasm32-emscripten.so"
WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp312-cp312-pyodide_2024_0_wasm32\n"


def compile_msgspec(sources: Path, pyodide: Path, headers: Path, target: Path) -> None:
    version = sources.name.partition("-")[2]
    wheel = target / f"msgspec-{version}-cp312-cp312-pyodide_2024_0_wasm32.whl"
    with TemporaryDirectory() as folder, ZipFile(wheel, "w", ZIP_DEFLATED) as packed:
        include = shutil.copytree(headers, Path(folder) / "include")
        (include / "pyconfig.h").write_text(configuration(pyodide, headers / "pyconfig.h"))
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
        about = f"msgspec-{version}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: msgspec\nVersion: {version}\n"
        packed.writestr(f"{about}/METADATA", metadata)
        packed.writestr(f"{about}/WHEEL", WHEEL)
        packed.writestr(f"{about}/RECORD", "".join(f"{name},,\n" for name in packed.namelist()))


def configuration(pyodide: Path, native: Path) -> str:
    """Make pyconfig.h of what Pyodide's own Python was built with, by the names of a native one."""
    with ZipFile(pyodide / "python_stdlib.zip") as library:
        (name,) = (each for each in library.namelist() if "_sysconfigdata" in each)
        built: dict[str, dict[str, object]] = {}
        exec(library.read(name), built)  # noqa: S102  # Pyodide's own
    values = built["build_time_vars"]
    names = sorted(set(re.findall(r"(?:#define|#undef)\s+(\w+)", native.read_text("utf-8"))))
    return "".join(f"#define {each} {values[each]}\n" for each in names if values.get(each))


if __name__ == "__main__":
    compile_msgspec(*map(Path, sys.argv[1:]))
