"""anywidget's base class, as type checkers see it."""
# ruff: noqa: ANN401, D102

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from traitlets import HasTraits

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    @dataclass_transform(kw_only_default=True, field_specifiers=(field,))
    class AnyWidget(HasTraits):
        """The methods used here.

        For a subclass without a constructor, type checkers and editors derive one from its
        annotated attributes; `Panel` has those of all panels. With an untyped base, they would
        accept any keyword, and ipywidgets has no types.
        """

        def __init__(self, **traits: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...
        def __del__(self) -> None: ...
        def _handle_custom_msg(self, content: Any, buffers: Any) -> None: ...
        def _handle_msg(self, msg: dict[str, Any]) -> None: ...
        def _repr_mimebundle_(self, **kwargs: Any) -> Any: ...
        def close(self) -> None: ...
        def open(self) -> None: ...
        def set_state(self, sync_data: dict[str, Any]) -> None: ...

else:
    from anywidget import AnyWidget  # noqa: F401
