"""Look for bytes on which our reader disagrees with `json` of the standard library.

``python -m tests.fuzz.by_hand --seconds 600`` changes real layouts at random, and writes what it
finds to ``found/``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from hta_widgets.trace.loaders.kineto import text as event_text
from tests.fuzz.mutations import damaged, document
from tests.fuzz.reference import disagreements

FOUND = Path("found")
BLOCK_BYTES = (64, 700, 3 << 17)


def problems(content: bytes, path: Path) -> list[str]:
    """Disagreements on some bytes, whatever the size of the pieces."""
    path.write_bytes(content)
    found = []
    for event_text.BLOCK_BYTES in BLOCK_BYTES:
        try:
            found += disagreements(path)
        except Exception as error:  # noqa: BLE001  # any other error is what is looked for
            found.append(f"{type(error).__name__}: {error}")
    return list(dict.fromkeys(found))


def smaller(content: bytes, path: Path) -> bytes:
    """Bytes without what does not matter to the first problem."""
    size = len(content) // 2
    while size:
        begin = 0
        while begin < len(content):
            less = content[:begin] + content[begin + size :]
            if problems(less, path):
                content = less
            else:
                begin += size
        size //= 2
    return content


def at_random(seed: int, seconds: float) -> Iterator[bytes]:
    """Damaged traces, for some time."""
    until = time.monotonic() + seconds
    random = Random(seed)  # noqa: S311
    count = 0
    while time.monotonic() < until:
        yield damaged(random, document(random))
        count += 1
    print(f"{count} inputs from seed {seed}")  # noqa: T201


def report(content: bytes, path: Path) -> None:
    """Write the bytes, made smaller, and say what is wrong with them."""
    FOUND.mkdir(exist_ok=True)
    least = smaller(content, path)
    kept = FOUND / f"{len(list(FOUND.iterdir()))}.json"
    kept.write_bytes(least)
    print(kept, least[:300], *problems(least, path), sep="\n  ")  # noqa: T201


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        for content in at_random(options.seed, options.seconds):
            if problems(content, path):
                report(content, path)


if __name__ == "__main__":
    main()
