"""Declarations of a panel class: controls on its traits, buttons on its methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import Parameter, Signature, getattr_static, signature
from typing import Any, Final, TypeVar

from anywidget import AnyWidget
from traitlets import TraitType

from hta_widgets.panels.base.controls import Control, Picker
from hta_widgets.panels.base.protocol import ButtonSpec
from hta_widgets.panels.base.selection import LINKED_FIELDS
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.kineto.format import KINETO

Method = TypeVar("Method", bound=Callable[..., Any])

_BUTTON = "_button"

COMMON: Final = {
    "selection": None,
    "job_notices": True,
    "layout": None,
    "output_dir": None,
    "on_demand": False,
}
"""Keywords that every panel takes besides its parameters, and their defaults."""

FOLDER = "output_dir"
"""Parameter of the methods that write into a folder."""


@dataclass(frozen=True)
class Button:
    """A button that calls a method of the panel."""

    label: str
    takes_folder: bool
    """Whether the method writes into a folder that can be chosen."""

    def works_for(self, job: Job) -> bool:
        """Whether any rank has a trace file that can be copied with events added."""
        return any(source.format == KINETO for source in job.sources.values())

    def spec(self, name: str) -> ButtonSpec:
        """Describe the button of the method of that name to the front end."""
        return ButtonSpec(
            kind="button", name=name, label=self.label, takes_folder=self.takes_folder
        )


def button(label: str) -> Callable[[Method], Method]:
    """Decorator that adds a button with this label, which calls the method.

    The method returns the files that it wrote, or a status message. If it has a parameter
    ``output_dir``, the page lets the user choose a folder. The browser cannot call any other
    methods.

    Examples
    --------
    >>> class WritingPanel(Panel[Result]):  # doctest: +SKIP
    ...     @button("Write trace")
    ...     def write(self) -> Path: ...
    """
    if callable(label):
        msg = '@button takes the label of the button, such as @button("Write trace")'
        raise TypeError(msg)

    def mark(method: Method) -> Method:
        setattr(method, _BUTTON, Button(label, FOLDER in signature(method).parameters))
        return method

    return mark


def controls_of(panel: type) -> dict[str, Control]:
    """Controls on the traits of a class, in order of declaration, inherited ones first."""
    return {
        name: value.metadata["control"]
        for name, value in _declared(panel)
        if isinstance(value, TraitType) and "control" in value.metadata
    }


def buttons_of(panel: type) -> dict[str, Button]:
    """Buttons on the methods of a class, in order of declaration, inherited ones first."""
    return {
        name: getattr(value, _BUTTON) for name, value in _declared(panel) if hasattr(value, _BUTTON)
    }


def check_declarations(panel: type) -> None:
    """Check the declarations of a class, without those of its bases.

    Raises
    ------
    TypeError
        If a control or a button would have no effect, or does not suit its trait, or a trait hides
        a method of all widgets.
    """
    for name, value in vars(panel).items():
        try:
            _check(name, value)
        except TypeError as error:
            msg = f"{panel.__name__}.{name}: {error}"
            raise TypeError(msg) from None


def _check(name: str, value: object) -> None:
    if isinstance(value, TraitType):
        _check_trait(name, value)
    elif isinstance(value, Control):
        msg = f"a control is declared on a trait: {name} = Int(…).tag(sync=True, control=…)"
        raise TypeError(msg)
    elif hasattr(value, _BUTTON) and (name.startswith("_") or not callable(value)):
        msg = "a button is declared on a public method"
        raise TypeError(msg)


def _check_trait(name: str, trait: TraitType[Any, Any]) -> None:
    for key, value in trait.metadata.items():
        if isinstance(value, Control) != (key == "control"):
            msg = f"the tag {key}={value!r} is not a control; tag a trait with control=…"
            raise TypeError(msg)
    hidden = getattr_static(AnyWidget, name, None)
    if callable(hidden) and not name.startswith("_"):
        msg = "every widget has a method of this name; give the trait another"
        raise TypeError(msg)
    control = trait.metadata.get("control")
    if control is None:
        return
    if name.startswith("_") or not trait.metadata.get("sync"):
        msg = "a trait with a control is public and has the tag sync=True"
        raise TypeError(msg)
    if isinstance(control, Picker) and name not in LINKED_FIELDS:
        msg = f"a picker sets a field of the selection: {' or '.join(LINKED_FIELDS)}"
        raise TypeError(msg)
    control.check(trait)


def _declared(panel: type) -> Iterator[tuple[str, object]]:
    names = dict.fromkeys(name for each in reversed(panel.__mro__) for name in vars(each))
    return ((name, getattr_static(panel, name)) for name in names)


class PanelSignature:
    """The constructor's signature with named parameters instead of ``**parameters``.

    Type checkers get the names from the `TypedDict` that the constructor unpacks; code completion
    in a kernel can only inspect the class.
    """

    def __get__(self, panel: object, owner: Any) -> Signature:  # noqa: ANN401
        """Make the signature of a class from its traits."""
        _, *accepted = signature(owner.__init__).parameters.values()
        traits = owner.class_traits()
        defaults = {name: traits[name].default() for name in owner.parameters()} | COMMON
        return Signature(
            [each for each in accepted if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
            + [
                Parameter(name, Parameter.KEYWORD_ONLY, default=value)
                for name, value in defaults.items()
            ]
        )
