"""Let atheris look for bytes on which our reader disagrees, guided by the coverage of the reader.

``python -m tests.fuzz.with_atheris [corpus] [arguments of libFuzzer]``
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Run."""
    import atheris  # noqa: PLC0415  # is not a dependency

    with atheris.instrument_imports(include=["hta_widgets.trace.loaders"]):
        from tests.fuzz.by_hand import problems  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"

        def look(content: bytes) -> None:
            found = problems(content, path)
            if found:
                raise AssertionError("\n".join(found))

        atheris.Setup(sys.argv, look)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
