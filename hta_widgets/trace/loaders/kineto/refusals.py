"""Errors that say what is wrong with a file that is not a PyTorch-profiler trace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from hta_widgets.errors import TraceFormatError
from hta_widgets.trace.loaders.decompression_limit import most_unpacked_bytes
from hta_widgets.trace.loaders.kineto.brackets import WHITE

_MAGIC: Final = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ\x00": "xz",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf\x27\x1c": "7z",
}
_TAR, _TAR_POSITION = b"ustar", 257


def archive_kind(content: bytes) -> str:
    """Kind of archive or compressed file that starts like this; empty for anything else."""
    if content[_TAR_POSITION:].startswith(_TAR):
        return "tar"
    return next((kind for magic, kind in _MAGIC.items() if content.startswith(magic)), "")


_HATCHET: Final = re.compile(rb'\s*\{\s*"(?:children|frame|metrics)"\s*:')
_UTF_16_OR_32: Final = (b"\xff\xfe", b"\xfe\xff", b"\0\0", b"{\0", b"[\0", b"\0{", b"\0[")
_LFS: Final = b"version https://git-lfs"
_PICKLE: Final = re.compile(rb"\x80[\x02-\x05]")  # "protocol", and which


def not_json(path: Path, text: bytes) -> TraceFormatError:
    """Error for a file that does not start like JSON."""
    if kind := archive_kind(text):
        msg = f"{path} is packed ({kind}); unpack it and open the trace inside"
    elif text.startswith(_LFS):
        msg = f"{path} is only a Git LFS pointer; fetch the file itself: git lfs pull"
    elif _PICKLE.match(text):
        msg = (
            f"{path} is a pickle, such as a memory snapshot of torch.cuda.memory, not a trace; no "
            "pickle is opened here, as it can run any code. Export a trace with torch.profiler's "
            "export_chrome_trace; with profile_memory=True it shows memory"
        )
    elif text.startswith(_UTF_16_OR_32):
        msg = f"{path} is text in UTF-16 or UTF-32; save it as UTF-8"
    else:
        msg = (
            f"{path} is not a JSON trace: it does not start with '{{' or '['; "
            "expected a PyTorch-profiler (Kineto) trace, *.json or *.json.gz"
        )
    return TraceFormatError(msg)


def other_tool(path: Path, tool: str) -> TraceFormatError:
    """Error for a Chrome trace without anything from the PyTorch profiler."""
    msg = (
        f"{path} looks like a trace of {tool} and cannot be read: no event has a category of the "
        "PyTorch profiler (kernel, cpu_op, …); record with torch.profiler, or with Nsight Systems "
        "(nsys profile, then nsys export --type sqlite)"
    )
    return TraceFormatError(msg)


def no_events(path: Path, text: bytes) -> TraceFormatError:
    """Error for a file whose text has no list of events."""
    if not text.strip(WHITE):
        msg = f"{path} is empty or cannot be decompressed; copy or export it again"
    else:
        msg = (
            f"{path} has no 'traceEvents': it is JSON, but not a PyTorch-profiler (Kineto) "
            "trace; export one with torch.profiler's export_chrome_trace"
        )
    return TraceFormatError(msg)


def too_long(path: Path, limit: int) -> TraceFormatError:
    """Error for a file with a long stretch of text in which no event ends."""
    msg = (
        f"{path} is not a trace: {limit >> 20} MiB of its text contain no complete event; "
        "export it again with torch.profiler's export_chrome_trace"
    )
    return TraceFormatError(msg)


def too_packed(path: Path, packed_bytes: int) -> TraceFormatError:
    """Error for a compressed file that unpacks to more text than a trace of its size has."""
    limit = most_unpacked_bytes(packed_bytes) >> 20
    msg = (
        f"{path} is not a trace: its {packed_bytes:,} bytes unpack to more text than a trace of "
        f"that size has ({limit:,} MiB at most); if you trust it, unpack it and open the result"
    )
    return TraceFormatError(msg)


def refuse_other_lists(path: Path, head: bytes, first: bytes) -> None:
    """Refuse a bare list of anything but events, given the text before and of its elements.

    Raises `TraceFormatError` if the list does not start like a list of events.
    """
    if not head.lstrip(WHITE).startswith(b"["):
        return
    what = "a Proton profile (.hatchet)" if _HATCHET.match(first) else ""
    if first.lstrip(WHITE)[:1] not in (b"{", b"]", b""):
        what = "a list of something other than events, such as a memory timeline"
    if what:
        msg = (
            f"{path} is {what}, not a trace; "
            "export a trace with torch.profiler's export_chrome_trace"
        )
        raise TraceFormatError(msg)


SUFFIX: Final = ".xplane.pb"


def refuse_xplane(path: Path) -> None:
    """Raise a `TraceFormatError` if the name of a path is that of an XPlane profile."""
    if path.name.endswith(SUFFIX):
        msg = (
            f"{path} is an XPlane profile (of JAX, TensorFlow or PyTorch/XLA), which hta_widgets "
            "does not read; open it with XProf, or record the GPUs with Nsight Systems (nsys "
            "profile, then nsys export --type sqlite)"
        )
        raise TraceFormatError(msg)
