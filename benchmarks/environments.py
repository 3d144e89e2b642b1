"""HTA's virtual environment, and the versions and machine of a run."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import venv
from datetime import datetime, timezone
from pathlib import Path

from benchmarks.children import CHECKOUT

HTA = "traceinsight"
"""HTA's name in the package index since 0.6; it was HolisticTraceAnalysis before."""

RESULTS = "benchmarks/results.md"
"""Saved while a run goes on, which does not change what the rest of it measures."""

DIRTY = "-dirty"
COMPARED = ("traceinsight", "HolisticTraceAnalysis", "numpy", "pandas", "msgspec")


def hta_python(work: Path, requirement: str) -> Path:
    """Return the Python of an environment that HTA's newest release is installed in."""
    environment = work / f"hta-{''.join(c if c.isalnum() else '-' for c in requirement)}"
    python = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    done = environment / "installed"
    if not done.exists():
        print(f"  installing {requirement} into {environment}", file=sys.stderr, flush=True)
        venv.create(environment, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", requirement], check=True)
        done.touch()
    return python


def versions(python: Path) -> str:
    """Versions of the packages that matter in an environment."""
    code = (
        "import sys, platform\nfrom importlib.metadata import version, PackageNotFoundError\n"
        "print('Python', platform.python_version(), end='')\n"
        "for name in sys.argv[1:]:\n"
        "    try: print(f', {name} {version(name)}', end='')\n"
        "    except PackageNotFoundError: pass\n"
    )
    said = subprocess.run([python, "-c", code, *COMPARED], check=True, capture_output=True)
    return said.stdout.decode()


def revision(checkout: Path = CHECKOUT) -> str:
    """Commit that is checked out, ``-dirty`` where anything but the results differs from it."""
    commit = _git(checkout, "rev-parse", "--short", "HEAD")
    changes = _git(checkout, "status", "--porcelain", "--", ".", f":!{RESULTS}")
    return f"commit {commit or 'unknown'}{DIRTY if changes or not commit else ''}"


def machine() -> str:
    """Processor, cores, memory, system."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GB, {platform.system()}"


def today() -> str:
    """Date of the figures."""
    return datetime.now(timezone.utc).date().isoformat()


def _git(checkout: Path, *arguments: str) -> str:
    said = subprocess.run(["git", *arguments], check=False, capture_output=True, cwd=checkout)
    return said.stdout.decode().strip()


def _processor() -> str:
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
