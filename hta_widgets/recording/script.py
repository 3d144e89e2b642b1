"""Record a training script as it is: its steps are those of its optimizer."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from hta_widgets.errors import ParameterError
from hta_widgets.recording.profiler import profile
from hta_widgets.trace.opening.live_profiler import written_by


def run_script(
    script: str,
    arguments: Sequence[str],
    say: Callable[[str], object],
    *,
    is_module: bool = False,
    **options: Any,  # noqa: ANN401
) -> None:
    """Run a script as ``python script arguments`` does, and record some of its steps.

    A step ends where the optimizer that steps first has done so: with accumulated gradients it
    holds several batches. What has no optimizer of PyTorch has one step, which lasts to the end.

    Parameters
    ----------
    script : str
        Path, or with `is_module` a name as of ``python -m``.
    arguments : sequence of str
        ``sys.argv[1:]`` of the script.
    say : callable
        Is told once where the trace is.
    is_module : bool
    **options
        Those of `profile`.

    Raises
    ------
    ParameterError
        If there is no such script.
    """
    if not is_module and not Path(script).is_file():
        msg = f"{script} is no file; give a Python script, or --module with the name of a module"
        raise ParameterError(msg)
    said: list[Path] = []

    def tell(profiler: Any, after: str = "") -> None:  # noqa: ANN401
        path = written_by(profiler)
        if path is not None and not said:
            said.append(path)
            say(f"recorded {path}{after}")

    def step(profiler: Any) -> None:  # noqa: ANN401
        profiler.step()
        tell(profiler, "; the script goes on")

    with ExitStack() as ending:
        profiler = ending.enter_context(_told_after(tell, profile(show=False, **options)))
        ending.enter_context(_after_each_step(partial(step, profiler)))
        before = sys.argv, sys.path[:]
        sys.argv = [script, *arguments]
        try:
            _run(script, is_module=is_module)
        finally:
            sys.argv, sys.path[:] = before


@contextmanager
def _told_after(
    tell: Callable[[Any], None], recording: AbstractContextManager[Any]
) -> Iterator[Any]:
    """A recording, of which is told after its end, also where it ends by an exception."""
    profiler = None
    try:
        with recording as profiler:
            yield profiler
    finally:
        if profiler is not None:
            tell(profiler)


def _run(script: str, *, is_module: bool) -> None:
    if is_module:
        sys.path.insert(0, "")
        runpy.run_module(script, run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(script).resolve().parent))
        runpy.run_path(script, run_name="__main__")


@contextmanager
def _after_each_step(call: Callable[[], None]) -> Iterator[None]:
    """Call something after each step of the optimizer that steps first."""
    first: object = None

    def after_step(optimizer: object, *_: object) -> None:
        nonlocal first
        first = optimizer if first is None else first
        if optimizer is first:
            call()

    module = import_module("torch.optim.optimizer")
    handle = module.register_optimizer_step_post_hook(after_step)
    try:
        yield
    finally:
        handle.remove()
