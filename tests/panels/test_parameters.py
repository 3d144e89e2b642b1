"""What each panel takes, what editors and readers are told that it takes, and the defaults."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Literal, get_args, get_type_hints

import pytest
import typing_extensions
from traitlets import Bool, Enum, Float, Int, List, TraitType, Unicode

from hta_widgets import TraceAnalysis, panels
from hta_widgets.panels import ComparePanel
from hta_widgets.panels.base.panel import Panel
from hta_widgets.panels.base.parameters import PanelParameters, WidgetParameters
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


def declared(panel: type[Panel]) -> Any:
    """The `TypedDict` that the constructor unpacks."""
    hints = get_type_hints(
        panel.__init__,
        {**inspect.getmodule(panel).__dict__, "Unpack": typing_extensions.Unpack},
    )
    (typed_dict,) = get_args(hints["parameters"])
    return typed_dict


def type_of(trait: TraitType) -> Any:
    if isinstance(trait, Enum):
        return Literal[tuple(trait.values)]
    if isinstance(trait, List):
        return list[type_of(trait._trait)]
    if isinstance(trait, Texts):
        return tuple[str, ...]
    kinds = {Bool: bool, Int: int, Float: float, Unicode: str}
    return next(kind for known, kind in kinds.items() if isinstance(trait, known))


@each_panel
def test_editors_know_its_parameters_and_their_types(panel):
    traits = panel.class_traits()
    expected = {parameter: type_of(traits[parameter]) for parameter in panel.parameters()}
    hints = get_type_hints(declared(panel))
    assert {key: hints[key] for key in hints.keys() - WidgetParameters.__annotations__} == expected
    assert not declared(panel).__required_keys__


@each_panel
def test_a_kernel_that_completes_code_knows_them(panel):
    signature = inspect.signature(panel).parameters
    given = ["first", "second"] if panel is ComparePanel else ["source"]
    common = WidgetParameters.__annotations__
    assert signature.keys() == {*given, *panel.parameters(), *common}
    defaults = {key: trait.default() for key, trait in panel.class_traits().items()}
    assert all(signature[key].default == defaults[key] for key in panel.parameters())


@each_panel
def test_its_docstring_lists_them(panel):
    section = inspect.getdoc(panel).split("Parameters\n----------\n")[1]
    listed = re.findall(r"^(\w+)(?:, (\w+))? : ", section, re.MULTILINE)
    names = [each for names in listed for each in names if each]
    inherited = get_type_hints(PanelParameters)
    assert sorted(names) == sorted(
        {*panel.parameters(), *(["first", "second"] if panel is ComparePanel else ["source"])}
        - inherited.keys()
    )


def functions(name: str) -> list[Callable[..., Any]]:
    """The analysis, its figures, and the method of `TraceAnalysis`."""
    module = import_module(f"hta_widgets.figures.{name}")
    drawn = [each for _, each in inspect.getmembers(module, inspect.isfunction)]
    drawn = [each for each in drawn if each.__module__.startswith(module.__name__)]
    method = [METHODS[name]] if name in METHODS else []
    return [getattr(import_module(f"hta_widgets.analyses.{name}"), name), *drawn, *method]


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
