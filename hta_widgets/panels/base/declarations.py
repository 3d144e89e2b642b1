"""Declarations of a panel class: controls on its traits, buttons on its methods."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from inspect import Parameter, Signature, cleandoc, getattr_static, getsource, signature
from itertools import pairwise
from textwrap import dedent, indent
from typing import Any, Final, TypeVar, cast

from anywidget import AnyWidget
from traitlets import TraitType

from hta_widgets.panels.base.controls import Control, Picker
from hta_widgets.panels.base.protocol import ButtonSpec
from hta_widgets.panels.base.selection import LINKED_FIELDS
from hta_widgets.panels.base.traits import LabelledEnum
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.kineto.format import KINETO

Method = TypeVar("Method", bound=Callable[..., Any])
Value = TypeVar("Value")

_BUTTON = "_button"

COMMON: Final = {
    "selection": None,
    "job_notices": True,
    "layout": None,
    "output_dir": None,
    "on_demand": False,
}
"""Keywords that every panel accepts in addition to its parameters, with their defaults."""

FOLDER = "output_dir"
"""Name of the parameter of methods that write into a folder."""


@dataclass(frozen=True)
class Button:
    """A button that calls a method of the panel."""

    label: str
    takes_folder: bool
    """Whether the method writes into a folder that can be chosen."""

    def works_for(self, job: Job) -> bool:
        """Whether any rank has a trace file to which events can be added in a copy."""
        return any(source.format == KINETO for source in job.sources.values())

    def spec(self, name: str) -> ButtonSpec:
        """Describe the button of the method with this name to the front end."""
        return ButtonSpec(
            kind="button", name=name, label=self.label, takes_folder=self.takes_folder
        )


def parameter(trait: TraitType[Value, Any], control: Control | None = None) -> Value:
    """Declare a parameter of a panel and, optionally, the control that sets it.

    The parameter becomes a keyword of the constructor, with its annotated type. Document it in a
    string below the declaration. The control takes bounds and choices from the trait.

    Examples
    --------
    >>> class BarsPanel(Panel[Result]):  # doctest: +SKIP
    ...     num_bars: int = parameter(Int(10, min=1), Slider("Bars", max=100))
    ...     \"\"\"Maximum number of bars.\"\"\"
    """
    return cast("Value", trait.tag(sync=True, **({} if control is None else {"control": control})))


def button(label: str) -> Callable[[Method], Method]:
    """Decorator that adds a button with this label, which calls the method.

    The method returns the files it wrote, or a status message. If it has a parameter
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
    """Check the declarations of a class, excluding those of its bases.

    Raises a `TypeError` if a control or a button would have no effect or does not fit its trait, or
    if a trait hides a method that all widgets have.
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
        msg = f"a control is declared with its trait: {name}: int = parameter(Int(…), {value!r})"
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
        msg = "a trait with a control is public and has the tag sync=True, as parameter() gives it"
        raise TypeError(msg)
    if isinstance(control, Picker) and name not in LINKED_FIELDS:
        msg = f"a picker sets a field of the selection: {' or '.join(LINKED_FIELDS)}"
        raise TypeError(msg)
    control.check(trait)


def docs_of(panel: type) -> dict[str, str]:
    """Docstrings below the attributes of a class and of its bases, by name.

    A class that was typed into a notebook may have no source, and then has no such docstrings.
    """
    texts: dict[str, str] = {}
    for each in reversed(panel.__mro__):
        if any(isinstance(value, TraitType) for value in vars(each).values()):
            texts |= _own_docs(each)
    return texts


@lru_cache(maxsize=256)  # all panels have the same bases; notebooks may define any number
def _own_docs(panel: type) -> dict[str, str]:
    try:
        (declared,) = ast.parse(dedent(getsource(panel))).body
    except (OSError, TypeError, SyntaxError, ValueError):
        return {}
    return {
        first.target.id: cleandoc(second.value.value)
        for first, second in pairwise(cast("ast.ClassDef", declared).body)
        if isinstance(first, ast.AnnAssign)
        and isinstance(first.target, ast.Name)
        and isinstance(second, ast.Expr)
        and isinstance(second.value, ast.Constant)
        and isinstance(second.value.value, str)
    }


def _declared(panel: type) -> Iterable[tuple[str, object]]:
    found: dict[str, object] = {}
    for each in reversed(panel.__mro__):
        found |= vars(each)
    return found.items()


class PanelSignature:
    """The constructor's signature with named parameters instead of ``**parameters``.

    Type checkers derive it from annotations; code completion in a kernel inspects the class.
    """

    def __get__(self, panel: object, owner: Any) -> Signature:  # noqa: ANN401
        """Build the signature of a class from its traits."""
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


_GIVEN: Final = {
    "source": "What to analyse.",
    "first": "The job to compare; changes are from the first to the second.",
    "second": "The job to compare it with.",
}
_OPENED: Final = "Job, TraceAnalysis, path, list of paths or mapping of rank to path"


class PanelDoc:
    """The docstring of a panel class, including the parameters documented below their traits.

    Editors show the text below a trait; a kernel shows the docstring of the class. traitlets reads
    every attribute while it makes a class, which has no traits until then: reading the sources for
    a docstring at that time took most of the import time.
    """

    def __init__(self, text: str | None) -> None:
        self._text = text

    def __get__(self, panel: object, owner: Any) -> str | None:  # noqa: ANN401
        """Assemble the docstring of a class when somebody asks for it."""
        traits, own = owner.class_traits(), owner.parameters()
        if self._text is None or not traits:
            return self._text
        below = docs_of(owner)
        listed = [
            (f"{name} : {_OPENED}", text)
            for name, text in _GIVEN.items()
            if name in owner.__signature__.parameters
        ]
        listed += [
            (f"{name} : {_values(traits[name])}", below.get(name, ""))
            for name, _ in _declared(owner)
            if name in own and name != "ranks"
        ]
        others = [f"`{name}`" for name in (*(("ranks",) if "ranks" in own else ()), *COMMON)]
        last = ("**parameters", f"{', '.join(others[:-1])} and {others[-1]}, as for every `Panel`.")
        rows = [f"{head}\n{indent(text, '    ')}" for head, text in (*listed, last)]
        return "\n".join([cleandoc(self._text), "", "Parameters", "----------", *rows])


def _values(trait: TraitType[Any, Any]) -> str:
    """The values that a trait accepts, in numpydoc's notation."""
    if isinstance(trait, LabelledEnum):
        return f"{{{', '.join(map(json.dumps, trait.labels))}}}"
    kind = trait.info().removeprefix("a ").removeprefix("an ")
    return {"boolean": "bool", "unicode string": "str"}.get(kind, kind)
