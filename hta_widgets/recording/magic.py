"""``%%gpu_profile``: record a cell, and show its dashboard below it."""

from __future__ import annotations

import argparse
import shlex
from typing import Any, Final, NoReturn

from IPython.core.error import UsageError

from hta_widgets.errors import HtaWidgetsError
from hta_widgets.recording import add_options
from hta_widgets.recording.profiler import profile

VARIABLE: Final = "profiler"
"""Name of the profiler in the cell, for ``profiler.step()``."""


def register(shell: Any) -> None:  # noqa: ANN401
    """Add the magic to an IPython shell."""

    def gpu_profile(line: str, cell: str) -> None:
        options = vars(_arguments(line))
        before = shell.user_ns.get(VARIABLE)
        try:
            with profile(**options) as profiler:
                shell.user_ns[VARIABLE] = profiler
                _run(shell, cell)
        except _CellFailedError:
            return  # the shell has already shown why
        except HtaWidgetsError as error:
            raise UsageError(str(error)) from error
        finally:
            shell.user_ns.pop(VARIABLE, None)
            if before is not None:
                shell.user_ns[VARIABLE] = before

    gpu_profile.__doc__ = f"Record a cell; in it, call profiler.step() after each step.\n\n{_HELP}"
    shell.register_magic_function(gpu_profile, "cell", "gpu_profile")


class _CellFailedError(Exception):
    """The cell raised an exception."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        msg = f"{message}\n{_HELP}"
        raise UsageError(msg)


def _parser() -> _Parser:
    parser = _Parser(prog="%%gpu_profile", add_help=False)
    add_options(parser)
    return parser


_HELP: Final = _parser().format_help()


def _arguments(line: str) -> argparse.Namespace:
    try:
        words = shlex.split(line)
    except ValueError as error:
        msg = f"{error} in {line!r}"
        raise UsageError(msg) from error
    return _parser().parse_args(words)


def _run(shell: Any, cell: str) -> None:  # noqa: ANN401
    if not shell.run_cell(cell).success:
        raise _CellFailedError
