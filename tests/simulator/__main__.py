"""Write the traces of a simulated job with one cause: ``python -m tests.simulator slow_link``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hta_widgets.errors import HtaWidgetsError
from tests.simulator import CAUSES, LAYOUTS, write_job


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the job that the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulator",
        description="Write the traces of a simulated job that one cause makes slow.",
        epilog=f"causes: {', '.join(CAUSES)}",
    )
    parser.add_argument("cause", metavar="CAUSE", help="what to plant; see below")
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        metavar="FOLDER",
        help="where to write the traces (default: the name of the cause)",
    )
    parser.add_argument(
        "--layout", metavar="LAYOUT", help=f"{', '.join(LAYOUTS)} (default: as suits the cause)"
    )
    parser.add_argument("--healthy", action="store_true", help="leave the cause out")
    parser.add_argument("--ranks", type=int, default=4, help="number of GPUs (default: 4)")
    parser.add_argument("--steps", type=int, default=5, help="training steps (default: 5)")
    parser.add_argument("--seed", type=int, default=0, help="other numbers, another place")
    given = parser.parse_args(arguments)
    folder = given.folder or Path(given.cause)
    try:
        write_job(
            folder,
            given.cause,
            layout=given.layout,
            healthy=given.healthy,
            ranks=given.ranks,
            steps=given.steps,
            seed=given.seed,
        )
    except HtaWidgetsError as error:
        parser.error(str(error))
    sys.stdout.write(f"hta-widgets open {folder}\n")


if __name__ == "__main__":
    main()
