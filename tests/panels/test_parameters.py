"""What each panel takes, what editors and readers are told that it takes, and the defaults."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import pytest
from traitlets import Bool, Enum, Float, Int, List, TraitType, Unicode

from hta_widgets import TraceAnalysis, panels
from hta_widgets.panels import ComparePanel, IdleTimePanel
from hta_widgets.panels.base import declarations
from hta_widgets.panels.base.declarations import COMMON, docs_of
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.traits import Texts
from hta_widgets.panels.every import EVERY

OTHER_DEFAULTS = {
    "idle_time": {"visualize_pctg": (False, True)},  # GPUs on one scale, as the sentence says it
    "kernel_breakdown": {"duration_ratio": (1, 0.8)},  # the slider of the number is not inert
    "kernel_sequences": {"whole_name": (True, False)},  # operators are picked by their whole names
    "modules": {"merge": ("class", "instance")},  # a tree of instances fills many screens
}
"""Defaults of panels, and those of the functions and of HTA where they are others."""

METHODS = {
    "kernel_breakdown": TraceAnalysis.get_gpu_kernel_breakdown,
    "idle_time": TraceAnalysis.get_idle_time_breakdown,
    "launch_stats": TraceAnalysis.get_cuda_kernel_launch_stats,
    "kernel_sequences": TraceAnalysis.get_frequent_cuda_kernel_sequences,
}

each_panel = pytest.mark.parametrize("panel", EVERY.values(), ids=EVERY)


def test_every_panel_of_an_analysis_is_looked_at():
    public = {getattr(panels, name) for name in panels.__all__}
    of_analyses = {each for each in public if issubclass(each, Panel) and each is not Panel}
    assert of_analyses == set(EVERY.values())


def type_of(trait: TraitType) -> Any:
    if isinstance(trait, Enum):
        return Literal[tuple(trait.values)]
    if isinstance(trait, List):
        return list[type_of(trait._trait)]
    if isinstance(trait, Texts):
        return tuple[str, ...]
    kinds = {Bool: bool, Int: int, Float: float, Unicode: str}
    return next(kind for known, kind in kinds.items() if isinstance(trait, known))


def annotated(panel: type[Panel], parameter: str) -> Any:
    """The type that its declaration has, which is that of the keyword for type checkers."""
    (declared, *_) = [each for each in panel.__mro__ if parameter in inspect.get_annotations(each)]
    return inspect.get_annotations(declared, eval_str=True)[parameter]


@each_panel
def test_editors_know_its_parameters_and_their_types(panel):
    traits = panel.class_traits()
    for parameter in panel.parameters():
        assert annotated(panel, parameter) == type_of(traits[parameter]), parameter


@each_panel
def test_a_kernel_that_completes_code_knows_them(panel):
    signature = inspect.signature(panel).parameters
    given = ["first", "second"] if panel is ComparePanel else ["source"]
    assert signature.keys() == {*given, *panel.parameters(), *COMMON}
    defaults = {key: trait.default() for key, trait in panel.class_traits().items()}
    assert all(signature[key].default == defaults[key] for key in panel.parameters())


@each_panel
def test_each_is_described_below_its_trait_and_in_the_docstring(panel):
    below = docs_of(panel)
    section = inspect.getdoc(panel).split("Parameters\n----------\n")[1]
    listed = dict(re.findall(r"^(\w+) : .+\n((?:    .+\n)+)", section, re.MULTILINE))
    own = [each for each in panel.parameters() if each != "ranks"]
    for parameter in own:
        assert below.get(parameter), f"{panel.__name__}.{parameter} has no docstring below it"
        assert inspect.cleandoc(listed[parameter]) == below[parameter]
    assert listed.keys() - own == ({"first", "second"} if panel is ComparePanel else {"source"})


def test_a_docstring_lists_them_in_the_order_of_the_declarations():
    section = inspect.getdoc(IdleTimePanel).partition("Parameters\n")[2]
    assert re.findall(r"^(\w+) : (.+)$", section, re.MULTILINE)[1:] == [
        ("streams", "list"),
        ("level", '{"device", "stream"}'),
        ("consecutive_kernel_delay", "float"),
        ("visualize_pctg", "bool"),
    ]


def test_a_class_without_source_has_the_docstring_that_it_was_given():
    typed = type("Typed", (IdleTimePanel,), {"__doc__": "Typed into a notebook."})
    assert docs_of(typed) == docs_of(IdleTimePanel)
    assert inspect.getdoc(typed).startswith("Typed into a notebook.\n\nParameters\n")
    assert inspect.getdoc(type("Silent", (IdleTimePanel,), {})) == inspect.getdoc(IdleTimePanel)


def test_the_docstring_of_all_panels_is_the_one_in_its_source():
    assert inspect.getdoc(Panel).count("Parameters\n----------\n") == 1


def test_a_docstring_is_put_together_when_somebody_asks_for_it(monkeypatch):
    """And not while a class is made: that made an import take five seconds."""
    read = []
    monkeypatch.setattr(declarations, "docs_of", lambda panel: read.append(panel) or {})
    typed = type("Typed", (IdleTimePanel,), {"__doc__": "Typed into a notebook."})
    assert read == []
    assert typed.__doc__
    assert read == [typed]


def functions(name: str) -> list[Callable[..., Any]]:
    """The analysis, its figures if they have a module, and the method of `TraceAnalysis`."""
    module = f"hta_widgets.figures.{name}"
    members = inspect.getmembers(find_spec(module) and import_module(module), inspect.isfunction)
    drawn = [each for _, each in members if each.__module__.startswith(module)]
    method = [METHODS[name]] if name in METHODS else []
    above = {
        "critical_path": "diagnosis.critical_path",
        "diagnosis": "diagnosis",
        "what_if": "diagnosis.what_if",
    }.get(name, f"analyses.{name}")
    return [getattr(import_module(f"hta_widgets.{above}"), name), *drawn, *method]


def plain(value: object) -> object:
    """Whatever stands for all of something, as one value."""
    return "all" if value in (None, [], (), "") else value


@pytest.mark.parametrize(("name", "panel"), EVERY.items(), ids=EVERY)
def test_its_defaults_are_those_of_the_functions_that_it_calls(name, panel):
    ours = {key: plain(panel.class_traits()[key].default()) for key in panel.parameters()}
    theirs = {
        (function.__name__, parameter.name): plain(parameter.default)
        for function in functions(name)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name in ours and parameter.default is not parameter.empty
    }
    assert theirs
    different = {
        parameter: (ours[parameter], default)
        for (_, parameter), default in theirs.items()
        if ours[parameter] != default
    }
    assert different == OTHER_DEFAULTS.get(name, {})
