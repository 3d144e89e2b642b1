"""The version that is installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("hta_widgets")
except PackageNotFoundError:
    __version__ = "0+unknown"
