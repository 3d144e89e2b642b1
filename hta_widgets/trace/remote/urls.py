"""Recognise URLs, and display them without credentials."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

PathLike: TypeAlias = str | os.PathLike[str]
"""A path, or the text of a URL."""

TraceSource: TypeAlias = PathLike | Sequence[PathLike] | Mapping[int, PathLike]
"""One trace or a folder of traces, several traces, or a mapping of rank to trace."""

HIDDEN = "***"

_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]+"
_URL = re.compile(rf"(?:{_SCHEME}::)*{_SCHEME}://")
_FILE = re.compile(r"(?:file|local)://")
_USER = re.compile(r"(?<=://)(?:[^/?#]*@|[^/?#@]*:(?!\d+(?:[/?#]|$)).*@)")
_QUERY = re.compile(r"\?.*", re.DOTALL)
_FRAGMENT = re.compile(r"(?<=#)[^/]*=.*", re.DOTALL)


def is_url(source: object) -> bool:
    r"""Whether a text is a URL rather than a path.

    Examples
    --------
    >>> [is_url(text) for text in ("s3://bucket/run", "zip://a.json::s3://b/a.zip")]
    [True, True]
    >>> [is_url(text) for text in ("runs/a.json", "C:\\runs", "C://runs", "std::vector.json")]
    [False, False, False, False]
    """
    return isinstance(source, str) and _URL.match(source) is not None


def redacted(url: str) -> str:
    """Return a URL without user, password and query, for display.

    Examples
    --------
    >>> redacted("https://me:secret@host:8080/run/a.json?token=secret")
    'https://***@host:8080/run/a.json?***'
    >>> redacted("hf://datasets/me/traces@main/a.json")
    'hf://datasets/me/traces@main/a.json'
    """
    return "::".join(map(_redacted, url.split("::")))


def name_in(url: str) -> str:
    """Return the last part of a URL, without its query.

    Examples
    --------
    >>> [name_in(url) for url in ("s3://bucket/run/", "https://host/a.json?token=1", "gs://b")]
    ['run', 'a.json', 'b']
    """
    path = _QUERY.sub("", url.split("::", maxsplit=1)[0]).partition("://")[2]
    name = path.rstrip("/").rpartition("/")[2].rpartition("\\")[2]
    return name if name not in ("", ".", "..") else "root"


def parent_url(url: str) -> str:
    """Return the URL of the folder that contains what a URL names, for display."""
    first = redacted(url).split("::", maxsplit=1)[0].removesuffix(f"?{HIDDEN}").rstrip("/")
    return first.rpartition("/")[0] or first


def join_url(folder: str, name: str) -> str:
    """Return the URL of a file in a folder, adding the name before the query and chained URLs."""
    first, chain, rest = folder.partition("::")
    path, mark, query = first.partition("?")
    return f"{path.rstrip('/')}/{name}{mark}{query}{chain}{rest}"


def local_path(url: str) -> Path | None:
    """Return the path that a ``file://`` URL names, either literally or with decoded escapes."""
    if not _FILE.match(url):
        return None
    from urllib.request import url2pathname  # noqa: PLC0415  # imports all of HTTP

    literal = Path(_FILE.sub("", url))
    return literal if literal.exists() else Path(url2pathname(urlsplit(url).path))


def _redacted(url: str) -> str:
    without_user = _USER.sub(f"{HIDDEN}@", url)
    return _FRAGMENT.sub(HIDDEN, _QUERY.sub(f"?{HIDDEN}", without_user))
