"""The signature of a panel class at run time, which JupyterLab uses to complete keywords."""

from __future__ import annotations

from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from hta_widgets.panels.base.panel import Panel

_COMMON: Final = {
    "selection": None,
    "job_notices": True,
    "layout": None,
    "output_dir": None,
    "on_demand": False,
}


class PanelSignature:
    """The constructor's signature with named parameters instead of ``**parameters``.

    Type checkers get the names from the `TypedDict` that the constructor unpacks; code completion
    in a kernel can only inspect the class.
    """

    def __get__(self, panel: Panel[Any] | None, owner: type[Panel[Any]]) -> Signature:
        """Make the signature of a class from its traits."""
        _, *accepted = signature(owner.__init__).parameters.values()
        traits = owner.class_traits()
        defaults = {name: traits[name].default() for name in owner.parameters()} | _COMMON
        return Signature(
            [each for each in accepted if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
            + [
                Parameter(name, Parameter.KEYWORD_ONLY, default=value)
                for name, value in defaults.items()
            ]
        )
