"""Python and TypeScript agree on what travels between them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import anywidget
import pytest
from traitlets import Bool, Int, List, TraitType, Unicode

from hta_widgets.panels import Dashboard, Panel, Selection
from hta_widgets.panels.base import protocol
from hta_widgets.panels.base.assets import MODULES, Assets, SharedModel
from hta_widgets.panels.base.front_end import SOURCES
from hta_widgets.panels.dashboard import PANELS
from hta_widgets.trace.job import Job

TYPES = Path(os.environ.get("HTA_WIDGETS_JS", SOURCES)) / "src" / "types.ts"
SIMPLE = {
    Any: "unknown",
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    NoneType: "null",
}
STATES = {
    "PanelState": Panel,
    "DashboardState": Dashboard,
    "SelectionState": Selection,
    "AssetsState": Assets,
}

needs_sources = pytest.mark.skipif(not TYPES.is_file(), reason="installed: no sources beside it")


class TypeScript:
    """The interfaces and aliases of a source file, each type in one way of writing it."""

    INTERFACE = re.compile(
        r"^(?:export )?interface (\w+)(?: extends ([\w, ]+))? \{(.*?)^\}", re.MULTILINE | re.DOTALL
    )
    FIELD = re.compile(r"^  (\w+\??): (.+);$", re.MULTILINE)
    ALIAS = re.compile(r"^(?:export )?type (\w+) =\s+(.+?);$", re.MULTILINE | re.DOTALL)

    def __init__(self, source: str) -> None:
        self.aliases = {name: one_way(text) for name, text in self.ALIAS.findall(source)}
        self.interfaces: dict[str, dict[str, str]] = {}
        for name, parents, body in self.INTERFACE.findall(source):
            inherited = [self.interfaces[parent] for parent in re.findall(r"\w+", parents)]
            own = {field: one_way(text) for field, text in self.FIELD.findall(body)}
            self.interfaces[name] = {
                key: of for fields in (*inherited, own) for key, of in fields.items()
            }


def one_way(text: str) -> str:
    """Drop line breaks and the labels of tuples, and sort unions."""
    unlabelled = re.sub(r"(?<=[\[ ])\w+: ", "", " ".join(text.split()))
    return " | ".join(sorted(unlabelled.removeprefix("| ").split(" | ")))


def in_typescript(hint: Any, names: Mapping[Any, str]) -> str:
    """Write a Python type in TypeScript."""
    if hint in names:
        return names[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is None:
        return SIMPLE[hint]
    if origin is Literal:
        return one_way(" | ".join(f'"{value}"' for value in arguments))
    inner = [in_typescript(each, names) for each in arguments]
    return {
        list: f"{inner[0]}[]",
        tuple: f"[{', '.join(inner)}]",
        dict: f"Record<{', '.join(inner)}>",
        Union: one_way(" | ".join(inner)),
        UnionType: one_way(" | ".join(inner)),
    }[origin]


def interface(typed_dict: Any, names: Mapping[Any, str]) -> dict[str, str]:
    optional = typed_dict.__optional_keys__
    return {
        name + "?" * (name in optional): in_typescript(hint, names)
        for name, hint in get_type_hints(typed_dict).items()
    }


@pytest.fixture(scope="module")
def typescript() -> TypeScript:
    return TypeScript(TYPES.read_text())


@pytest.fixture(scope="module")
def names() -> dict[Any, str]:
    """Everything that the protocol defines, and its name."""
    return {
        value: name
        for name, value in vars(protocol).items()
        if is_typeddict(value) or name in protocol.__annotations__
    }


@needs_sources
def test_interfaces_have_the_same_fields_of_the_same_types(typescript, names):
    ours = {name: interface(value, names) for value, name in names.items() if is_typeddict(value)}
    theirs = {k: v for k, v in typescript.interfaces.items() if k not in STATES}
    assert ours == theirs


@needs_sources
def test_aliases_stand_for_the_same_types(typescript, names):
    aliases = {value: name for value, name in names.items() if not is_typeddict(value)}
    for value, name in aliases.items():
        rest = {each: known for each, known in names.items() if each != value}
        assert typescript.aliases.pop(name) == in_typescript(value, rest)
    assert typescript.aliases.keys() == {"AssetName", "Gzipped", "WidgetState"}
    assert typescript.aliases["AssetName"] == " | ".join(
        f'"{module}"' for module in sorted(MODULES)
    )


@needs_sources
@pytest.mark.parametrize(("name", "widget"), STATES.items(), ids=STATES)
def test_models_have_the_traits_that_the_browser_reads(typescript, name, widget):
    base = SharedModel if issubclass(widget, SharedModel) else anywidget.AnyWidget
    inherited = base.class_trait_names(sync=True)
    traits = {k: v for k, v in widget.class_traits(sync=True).items() if k not in inherited}
    if widget is Panel:
        traits = {key: trait for key, trait in traits.items() if key not in Panel.parameters()}
    fields = typescript.interfaces[name]
    assert fields.keys() == traits.keys()
    for key, trait in traits.items():
        assert fields[key] in types_of(trait), key


def types_of(trait: TraitType) -> set[str]:
    if isinstance(trait, Int):
        return {"number"}
    if isinstance(trait, List):
        of_widgets = isinstance(trait._trait, anywidget.WidgetTrait)
        return {"string[]" if of_widgets else "number[]"}
    if isinstance(trait, Bool):
        return {"boolean"}
    if isinstance(trait, Unicode | anywidget.WidgetTrait):
        return {"string"}
    of_text = "to_json" in trait.metadata
    return (
        {"string"}
        if of_text
        else {
            "PanelSpec",
            "Action",
            "Answer",
            "Record<AssetName, Gzipped>",
            "Record<AssetName, string>",
        }
    )


@pytest.mark.parametrize("name", PANELS)
def test_panels_send_what_the_protocol_says(loaded: Job, name):
    panel = PANELS[name](loaded)
    spec, view = panel._spec, panel._view
    assert spec.keys() == protocol.PanelSpec.__annotations__.keys()
    assert view.keys() == protocol.View.__annotations__.keys()
    kinds = {
        get_args(get_type_hints(each)["kind"])[0]: each for each in get_args(protocol.ControlSpec)
    }
    for control in spec["controls"]:
        assert control.keys() == get_type_hints(kinds[control["kind"]]).keys()
