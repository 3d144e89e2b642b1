"""The traces given on the command line: paths, and URLs without credentials."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from hta_widgets.errors import RemoteError, TraceNotFoundError
from hta_widgets.trace.remote.files import RemoteFiles
from hta_widgets.trace.remote.urls import is_url, local_path, name_in, redacted


class GivenTrace(NamedTuple):
    """An existing trace or folder of traces.

    Attributes
    ----------
    source : str
        The absolute path, or the URL.
    name : str
        Name for display.
    """

    source: str
    name: str

    @classmethod
    def from_argument(cls, given: str) -> GivenTrace:
        """Check that the given path or URL exists.

        Raises
        ------
        TraceNotFoundError
            If it does not exist.
        RemoteError
            If a URL contains credentials, or its file system does not respond.
        """
        path = local_path(given) if is_url(given) else Path(given)
        if path is None:
            return cls._remote(given)
        if not path.exists():
            msg = f"{path} does not exist"
            raise TraceNotFoundError(msg)
        return cls(str(path.resolve()), path.resolve().name)

    @classmethod
    def _remote(cls, url: str) -> GivenTrace:
        if redacted(url) != url:
            msg = (
                f"{redacted(url)}: the notebook would store the user, password or query string of "
                "this URL; pass credentials through the environment or the configuration of the "
                "file-system package instead"
            )
            raise RemoteError(msg)
        RemoteFiles(url).root()
        return cls(url, name_in(url))
