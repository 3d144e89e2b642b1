"""Record an unmodified training script: its steps are the steps of its optimizer."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from shlex import quote

from hta_widgets.errors import ParameterError
from hta_widgets.quantities import counted
from hta_widgets.recording.profiler import recorded


def run_script(
    script: str,
    arguments: Sequence[str],
    say: Callable[[str], object],
    *,
    is_module: bool = False,
    folder: str = "traces",
    wait: int,
    warmup: int,
    active: int,
    **options: bool,
) -> None:
    """Run a script as ``python script arguments`` does, and record some of its steps.

    A step ends after each step of the optimizer that steps first. With accumulated gradients, it
    holds several batches. A script without a PyTorch optimizer has one step, up to its end.

    `script` is a path, or with `is_module` a module name as for ``python -m``. `say` is called once
    with where the trace is, or why there is none. The other options are those of `profile`.
    """
    if not is_module and not Path(script).is_file():
        msg = f"{script} is not a file; give a Python script, or --module and a module name"
        raise ParameterError(msg)
    written: list[Path] = []
    after = f"Next: hta-widgets diagnose {quote(str(folder))}"
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1
        before = len(written)
        profiler.step()
        if len(written) > before:
            say(f"recorded {written[-1]}; the script goes on. {after}")

    profiler = recorded(written, folder, wait, warmup, active, **options)
    before = sys.argv, sys.path[:]
    sys.argv = [script, *arguments]
    try:
        with profiler, _after_each_step(step):
            _run(script, is_module=is_module)
    finally:
        sys.argv, sys.path[:] = before
        if not written:
            say(
                f"nothing was recorded: the first {wait + warmup} steps are left out (--wait, "
                f"--warmup), and the script ended after {counted(steps, 'optimizer step')}; "
                "--wait 0 --warmup 0 records all of it"
            )
        elif steps < wait + warmup + active:
            say(f"recorded {written[-1]}. {after}")


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
