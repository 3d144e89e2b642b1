"""Record a block of code with torch.profiler, and show its dashboard below the cell."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns
from types import ModuleType
from typing import Any, Final

from hta_widgets.atomic_write import atomic_write
from hta_widgets.errors import PackageError, ParameterError, write_errors
from hta_widgets.trace.model.formats import UNPROFILED_STEP
from hta_widgets.trace.opening.live_profiler import wrote
from hta_widgets.trace.remote.urls import PathLike

try:
    from isal import igzip as gzip
except ImportError:  # isal has no wheel for some platforms; the standard library is only slower
    import gzip

_TORCH: Final = "torch"
_COMPRESSION_LEVEL: Final = 3
_END_BYTES: Final = 64
FEWEST_STEPS: Final = 3
"""Fewest steps that give a good mean length: the later half of at least five skipped steps."""
_RANK_VARIABLES: Final = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


@contextmanager
def profile(
    folder: PathLike = "traces",
    *,
    wait: int = 0,
    warmup: int = 0,
    active: int | None = None,
    shapes: bool = True,
    memory: bool = False,
    stacks: bool = False,
    show: bool | None = None,
    **options: Any,  # noqa: ANN401
) -> Iterator[Any]:
    """Record a block with ``torch.profiler``, and show its `Dashboard` in a notebook.

    Each process writes ``rank-<its rank>.json.gz`` into the folder, in place of an earlier one, so
    the folder holds the job of all ranks. If the block raises, what was recorded is written.

    Parameters
    ----------
    folder : path
        Created if it does not exist. With several nodes, all of them must see it.
    wait, warmup : int
        Steps before the profiler starts, and steps in which it runs but does not record yet. The
        mean length of the later half of the `wait` steps is written to the trace: a profiler slows
        the host, so the diagnosis gives its prices for steps of that length.
    active : int, optional
        Steps to record after these; by default, all up to the end of the block.
    shapes, memory, stacks : bool
        Record input shapes; allocations; the calling Python functions, which slows the host.
    show : bool, optional
        Show a dashboard of what this process recorded. By default, rank 0 shows one in a notebook;
        in a script, it says on standard error where the trace is.
    **options
        Other options of ``torch.profiler.profile``, such as ``activities``.

    Yields
    ------
    torch.profiler.profile
        Call its ``step()`` at the end of each step.

    Raises
    ------
    PackageError
        If PyTorch is not installed.
    ParameterError
        If the numbers of steps make no schedule, or PyTorch has no such option.
    WriteError
        If the system refuses to write.

    Examples
    --------
    ::

        with hta_widgets.profile(active=6, warmup=2) as profiler:
            for batch in loader:
                train_step(batch)
                profiler.step()
    """
    written: list[Path] = []
    options |= {"shapes": shapes, "memory": memory, "stacks": stacks}
    with recorded(written, folder, wait, warmup, active, **options) as profiler:
        yield profiler
    if not written:
        warnings.warn(
            f"nothing was recorded: the block ended within the first {wait + warmup} steps (wait "
            "and warmup); call step() after each step, or leave wait and warmup out",
            stacklevel=3,
        )
    elif show or (show is None and _is_in_notebook() and _rank() == 0):
        _show(written[-1])
    elif show is None and _rank() == 0:
        print(f"Wrote {written[-1]}: hta-widgets diagnose {folder}", file=sys.stderr)  # noqa: T201


def recorded(
    written: list[Path],
    folder: PathLike,
    wait: int,
    warmup: int,
    active: int | None,
    *,
    shapes: bool,
    memory: bool,
    stacks: bool,
    **options: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """A profiler for a ``with`` block; it appends the file that it writes to `written`."""
    torch_profiler = _torch_profiler()
    begins_ns: list[int] = []

    def save(profiler: Any) -> None:  # noqa: ANN401
        step_ns = _mean_step_ns(begins_ns[: wait + 1])
        written.append(_write(profiler, Path(folder).expanduser(), step_ns))

    action = _schedule(torch_profiler.ProfilerAction, wait, warmup, active)

    def schedule(step: int) -> Any:  # noqa: ANN401
        begins_ns.append(perf_counter_ns())  # the profiler asks at the start of each step
        return action(step)

    options |= {"record_shapes": shapes, "profile_memory": memory, "with_stack": stacks}
    try:
        return torch_profiler.profile(schedule=schedule, on_trace_ready=save, **options)
    except TypeError as error:
        msg = f"torch.profiler.profile does not accept these options: {error}"
        raise ParameterError(msg) from error


def _torch_profiler() -> ModuleType:
    try:
        return import_module("torch.profiler")
    except ImportError as error:
        raise PackageError.from_import(_TORCH, error) from error


def _schedule(
    actions: Any,  # noqa: ANN401
    wait: int,
    warmup: int,
    active: int | None,
) -> Callable[[int], Any]:
    """What the profiler does in each step; one cycle, so that a rank has one file."""
    if wait < 0 or warmup < 0 or (active is not None and active < 1):
        msg = (
            f"wait and warmup must be 0 or more steps, active 1 or more, or None for all; got "
            f"wait={wait}, warmup={warmup}, active={active}"
        )
        raise ParameterError(msg)
    begin = wait + warmup
    last = None if active is None else begin + active - 1

    def action(step: int) -> Any:  # noqa: ANN401
        if step < wait or (last is not None and step > last):
            return actions.NONE
        if step < begin:
            return actions.WARMUP
        return actions.RECORD_AND_SAVE if step == last else actions.RECORD

    return action


def _mean_step_ns(begins_ns: Sequence[int]) -> int:
    """Mean length of the later half of some steps; 0 if it has fewer than `FEWEST_STEPS`.

    The earlier half may do the setup of the job. Because a host runs ahead of its GPU, the time
    from one start to the next is not the length of a single step.
    """
    later = begins_ns[(len(begins_ns) - 1) // 2 :]
    steps = len(later) - 1
    return (later[-1] - later[0]) // steps if steps >= FEWEST_STEPS else 0


def _write(profiler: Any, folder: Path, unprofiled_step_ns: int) -> Path:  # noqa: ANN401
    """Write the trace of this process, gzipped; the file appears complete or not at all."""
    target = folder / f"rank-{_rank()}.json.gz"
    with write_errors(target):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory() as temporary, atomic_write(target) as partial:
            plain = Path(temporary, "trace.json")
            profiler.export_chrome_trace(str(plain))
            if unprofiled_step_ns:
                _add_to(plain, UNPROFILED_STEP, unprofiled_step_ns)
            with (
                plain.open("rb") as text,
                gzip.open(partial, "wb", compresslevel=_COMPRESSION_LEVEL) as out,
            ):
                shutil.copyfileobj(text, out)
    wrote(profiler, target)
    return target


def _add_to(trace: Path, key: str, value: int) -> None:
    """Add a number after the events: PyTorch accepts none once it has stopped recording."""
    with trace.open("rb+") as file:
        begin = max(file.seek(0, os.SEEK_END) - _END_BYTES, 0)
        file.seek(begin)
        end = file.read().rstrip()
        if end.endswith(b"}"):
            file.seek(begin + len(end) - 1)
            file.truncate()
            file.write(f', "{key}": {value}}}'.encode())


def _rank() -> int:
    """Rank of this process according to PyTorch or its launcher, or else 0."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    stated = (os.environ.get(name, "") for name in _RANK_VARIABLES)
    return next((int(each) for each in stated if each.isdecimal()), 0)


def _is_in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return getattr(shell, "kernel", None) is not None


def _show(path: Path) -> None:
    """Show the dashboard of a trace; processes that show none need not import widgets."""
    dashboard = import_module("hta_widgets.panels.dashboard").Dashboard(path)
    import_module("IPython.display").display(dashboard)
