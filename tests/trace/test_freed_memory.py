"""Freed memory is reused, and returned when asked."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

ROUNDS = 20
BLOCKS = 10
BLOCK_BYTES = 300_000
PAGES = BLOCKS * BLOCK_BYTES // 4096
CHILD = f"""
import resource, sys
import numpy as np
from hta_widgets.trace.loaders.freed_memory import reuse_freed_memory

def touch():
    return [np.ones({BLOCK_BYTES}, dtype=np.uint8) for _ in range({BLOCKS})]

if "reuse" in sys.argv:
    reuse_freed_memory()
touch()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({ROUNDS}):
    touch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages_made(*arguments):
    child = [sys.executable, "-c", CHILD, *arguments]
    return int(subprocess.run(child, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries take no notice")
def test_pages_are_made_once():
    assert pages_made() > 3 * PAGES
    assert pages_made("reuse") < PAGES


RETURNED_MB = 200
RETURNING = f"""
import numpy as np
import pyarrow  # whose pool is asked, too
from hta_widgets.trace.loaders.freed_memory import return_freed_memory, reuse_freed_memory

def held_mb():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))

reuse_freed_memory()
blocks = [np.ones(1_000_000, dtype=np.uint8) for _ in range({RETURNED_MB})]
last = np.ones(1_000_000, dtype=np.uint8)  # the end of the heap, which stays in use
del blocks
held = held_mb()
return_freed_memory()
print(held - held_mb())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries decide themselves")
def test_freed_memory_is_returned():
    child = [sys.executable, "-c", RETURNING]
    returned = subprocess.run(child, capture_output=True, text=True, check=True).stdout
    assert int(returned) > RETURNED_MB / 2
