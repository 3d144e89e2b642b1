"""Declarations of a panel class: controls on its traits, buttons on its methods."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import Parameter, Signature, cleandoc, getattr_static, getsource, signature
from itertools import pairwise
from textwrap import dedent, indent
from typing import Any, Final, TypeVar, cast

from anywidget import AnyWidget
from traitlets import MetaHasTraits, TraitType

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


def parameter(trait: TraitType[Value, Any], control: Control | None = None) -> Value:
    """Declare a parameter of a panel, and the control that sets it if it has one.

    It is a keyword of the constructor, of the type that it is annotated with. What it means is said
    below it.

    Parameters
    ----------
    trait : TraitType
        What the panel and its page share.
    control : Control, optional
        Takes bounds and choices from the trait.

    Examples
    --------
    >>> class BarsPanel(Panel[Result]):  # doctest: +SKIP
    ...     num_bars: int = parameter(Int(10, min=1), Slider("Bars", max=100))
    ...     \"\"\"Maximum number of bars.\"\"\"
    """
    return cast("Value", trait.tag(sync=True, **({} if control is None else {"control": control})))


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
    """Texts below the attributes of a class and of its bases, by name.

    A class that was typed into a notebook may have no source: then it has none.
    """
    texts: dict[str, str] = {}
    for each in reversed(panel.__mro__):
        if any(isinstance(value, TraitType) for value in vars(each).values()):
            texts |= _own_docs(each)
    return texts


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

    Type checkers make one from the annotations; code completion in a kernel inspects the class.
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


_GIVEN: Final = {
    "source": "What to analyse.",
    "first": "What to compare; changes are those from the first to the second.",
    "second": "What to compare it with.",
}
_OPENED: Final = "Job, TraceAnalysis, path, list of paths or mapping of rank to path"


class PanelDoc:
    """The docstring of a panel class, with the parameters that are described below their traits.

    Editors show what stands below a trait; a kernel shows the docstring of the class.
    """

    def __init__(self, text: str | None) -> None:
        self._text = text

    def __get__(self, panel: object, owner: Any) -> str | None:  # noqa: ANN401
        """Put the docstring of a class together, when somebody asks for it."""
        if self._text is None:
            return None
        below, traits, own = docs_of(owner), owner.class_traits(), owner.parameters()
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


class PanelType(MetaHasTraits):
    """The class of panel classes, which gives docstrings to all but `Panel`, last of all.

    traitlets reads every attribute of a class while the class is made. A docstring that is put
    together then reads the sources of the class and its bases: it took most of an import.
    """

    def __init__(
        cls,  # noqa: N805
        name: str,
        bases: tuple[type, ...],
        own: dict[str, Any],
        **options: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(name, bases, own, **options)
        if any(isinstance(base, PanelType) for base in bases):
            cls.__doc__ = cast("str", PanelDoc(own.get("__doc__")))


def _values(trait: TraitType[Any, Any]) -> str:
    """What a trait takes, as numpydoc says it."""
    if isinstance(trait, LabelledEnum):
        return f"{{{', '.join(map(json.dumps, trait.labels))}}}"
    kind = trait.info().removeprefix("a ").removeprefix("an ")
    return {"boolean": "bool", "unicode string": "str"}.get(kind, kind)
