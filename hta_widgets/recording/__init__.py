"""Record a trace with torch.profiler, and show it."""

from __future__ import annotations

from argparse import ArgumentParser


def add_options(
    parser: ArgumentParser, *, wait: int = 0, warmup: int = 0, active: int | None = None
) -> None:
    """Add options with the names of `profile`'s parameters, and the given defaults."""
    parser.add_argument(
        "--folder", default="traces", help="where rank-N.json.gz is written (default: %(default)s)"
    )
    for name, default, what in (
        ("wait", wait, "steps before the profiler starts"),
        ("warmup", warmup, "steps that it runs before it records"),
        ("active", active, "steps to record; the last one is not analysed"),
    ):
        shown = "all" if default is None else default
        parser.add_argument(
            f"--{name}", type=int, default=default, help=f"{what} (default: {shown})"
        )
    parser.add_argument("--memory", action="store_true", help="record allocations")
    parser.add_argument(
        "--stacks", action="store_true", help="record Python functions; this slows the host"
    )
    parser.add_argument(
        "--no-shapes", dest="shapes", action="store_false", help="do not record input shapes"
    )
