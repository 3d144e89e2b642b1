"""Write anonymised copies of the traces of a job."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from hta_widgets.atomic_write import atomic_folder
from hta_widgets.errors import ParameterError, TraceFormatError, os_errors_as_ours, write_errors
from hta_widgets.export.anonymise.events import Events
from hta_widgets.export.anonymise.names import Names
from hta_widgets.export.extended_trace import BETWEEN, atomic_open, name_of_copy
from hta_widgets.trace.loaders.kineto.decode import decode_fields
from hta_widgets.trace.loaders.kineto.format import KINETO
from hta_widgets.trace.loaders.kineto.text import EventText
from hta_widgets.trace.opening.find_captures import FOLDER as CAPTURES
from hta_widgets.trace.opening.recognise import format_of, traces_in
from hta_widgets.trace.remote.urls import PathLike

_encode = msgspec.json.encode
_KEY_BYTES: Final = 32


def anonymise(
    source: PathLike,
    target: PathLike,
    *,
    key: str | None = None,
    keep: Iterable[str] = (),
    keep_kernels: bool = False,
) -> list[Path]:
    """Copy Kineto traces without private names, so that they can be shared.

    Times, sizes, shapes, streams, ranks and process ids stay as they are. So do names that are
    public: operators and frames of PyTorch, calls of CUDA and HIP, kernels of NVIDIA, AMD and
    PyTorch, collectives, ProfilerSteps, spans of inference servers. Names of functions, files,
    folders, modules, annotations, groups, threads and other kernels become words; parts of them
    that an analysis reads, such as ``flash`` in a kernel, stay. All other arguments and metadata
    (host and user names, job ids, command lines) are left out. Analyses give the same numbers.

    Parameters
    ----------
    source : path
        A trace, or a folder with the traces of a job. It is only read.
    target : path
        A file for a file, or a new folder for a folder. File names in it keep the rank; the rest
        becomes words.
    key : str, optional
        Secret from which the words are made: with the same key, a name becomes the same word in
        every copy. By default, a random key that nobody can know.
    keep : iterable of str
        Packages and namespaces, such as ``vllm``, whose frames, operators and kernels are public.
    keep_kernels : bool
        Keep the names of all kernels.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    ParameterError
        If the key is empty, the target is (in) the source, or a target folder already exists.
    TraceNotFoundError
        If there is no trace.
    TraceFormatError
        If it is not a Kineto trace.
    WriteError
        If the system refuses to write.
    """
    given, goal = Path(source).expanduser(), Path(target).expanduser()
    if key is not None and not key:
        msg = "the key is empty; give a text that nobody can guess, or no key for a random one"
        raise ParameterError(msg)
    secret = secrets.token_bytes(_KEY_BYTES) if key is None else key.encode()
    names = Names(secret, tuple(keep), keep_kernels=keep_kernels)
    with os_errors_as_ours(given):
        found = _traces(given)
        _check(given, goal)
    if not given.is_dir():
        _write(given, goal, names)
        return [goal]
    with write_errors(goal), atomic_folder(goal) as partial:
        targets = _targets(found, names)
        for trace, name in targets.items():
            (partial / name).parent.mkdir(exist_ok=True)
            _write(trace, partial / name, names)
    return [goal / name for name in targets.values()]


def _traces(given: Path) -> list[Path]:
    """The traces of a file or folder.

    Raises `TraceNotFoundError` or `TraceFormatError` if there is none, or it has another format.
    """
    form = format_of(given) if given.exists() else None
    found = [given]
    if form is None and given.is_dir():
        form, found = traces_in(given, [])
        captures = given / CAPTURES
        if form == KINETO and captures.is_dir():
            found = found + [path for path in sorted(captures.iterdir()) if KINETO.matches(path)]
    if form is None or form != KINETO:
        what = f"is {form.noun}" if form else "does not exist"
        msg = (
            f"{given} {what}; only PyTorch-profiler traces (.json, .json.gz) can be anonymised: "
            "give one, or a folder of them"
        )
        raise TraceFormatError(msg)
    return found


def _check(given: Path, goal: Path) -> None:
    source, target = given.resolve(), goal.resolve()
    if target == source or source in target.parents:
        msg = f"{goal} is (in) the source, which is never changed; give another path"
        raise ParameterError(msg)
    if given.is_dir() and goal.exists():
        msg = f"{goal} exists; give a new folder"
        raise ParameterError(msg)
    if not given.is_dir() and goal.is_dir():
        msg = f"{goal} is a folder; give a file, such as {goal / 'trace.json.gz'}"
        raise ParameterError(msg)
    if not goal.parent.is_dir():
        msg = f"{goal.parent} is not a folder; create it first"
        raise ParameterError(msg)


def _targets(traces: Sequence[Path], names: Names) -> dict[Path, str]:
    """Path of the copy of each trace; names that would lose their order get a number in front."""
    folders = {
        trace.parent: f"{CAPTURES}/" if trace.parent.name == CAPTURES else "" for trace in traces
    }
    found: dict[Path, str] = {}
    for folder, shown in folders.items():
        inside = [trace for trace in traces if trace.parent == folder]
        made = [name_of_copy(names.file(trace.name)) for trace in inside]
        if made != sorted(set(made)):
            width = len(str(len(made)))
            made = [f"{place:0{width}}_{name}" for place, name in enumerate(made)]
        found |= {trace: f"{shown}{name}" for trace, name in zip(inside, made, strict=True)}
    return found


def _write(source: Path, target: Path, names: Names) -> None:
    with atomic_open(target, compressed_like=source) as out:
        for part in _parts(EventText(source), Events(names)):
            out.write(part)


def _parts(text: EventText, events: Events) -> Iterator[bytes]:
    """The text of a copy, piece by piece; the copy of a truncated file is truncated, too."""
    head = events.metadata(text.header())
    opening = _encode(head)[:-1] + (b"," if head else b"")
    yield opening + b'"traceEvents":[\n'
    before = b""
    for piece in text:
        reading = decode_fields(piece, text.separator, text.hold_back)
        if reading.events:
            yield before + BETWEEN.join(_encode(events.event(each)) for each in reading.events)
            before = BETWEEN
    if text.truncated:
        return
    rest = {
        name: value for name, value in events.metadata(text.metadata()).items() if name not in head
    }
    yield b"\n]" + (b"," + _encode(rest)[1:] if rest else b"}")
    yield b"\n"
