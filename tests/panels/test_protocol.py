"""Python and TypeScript agree on what travels between them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import anywidget
import pytest
from traitlets import Bool, Enum, Int, List, TraitType, Unicode

from hta_widgets.analyses.timeline.added import LANE_KINDS
from hta_widgets.analyses.timeline.tracks import LaneName
from hta_widgets.panels import Dashboard, FlamePanel, Panel, Selection, TimelinePanel
from hta_widgets.panels.bands import messages as dashboard_messages
from hta_widgets.panels.base import protocol
from hta_widgets.panels.base.assets import MODULES, Assets, SharedModel
from hta_widgets.panels.base.front_end import SOURCES
from hta_widgets.panels.base.traits import Integers, Texts
from hta_widgets.panels.dashboard import PANELS
from hta_widgets.panels.timeline import messages as timeline_messages
from hta_widgets.panels.timeline.requests import answer
from hta_widgets.trace.job import Job

TYPESCRIPT = Path(os.environ.get("HTA_WIDGETS_JS", SOURCES)) / "src"
TYPES = TYPESCRIPT / "types.ts"
OF_DASHBOARD = TYPESCRIPT / "dashboard" / "types.ts"
SIMPLE = {
    Any: "unknown",
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    bytes: "ArrayBufferView",
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
            named = re.findall(r"\w+", parents)
            inherited = [self.interfaces[each] for each in named if each in self.interfaces]
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
    if arguments[-1] is Ellipsis:
        return f"{in_typescript(arguments[0], names)}[]"
    inner = [in_typescript(each, names) for each in arguments]
    return {
        list: f"{inner[0]}[]",
        tuple: f"[{', '.join(inner)}]",
        dict: f"Record<{', '.join(inner)}>",
        Union: one_way(" | ".join(inner)),
        UnionType: one_way(" | ".join(inner)),
    }[origin]


def interface(typed_dict: Any, names: Mapping[Any, str]) -> dict[str, str]:
    optional = getattr(typed_dict, "__optional_keys__", ())
    return {
        name + "?" * (name in optional): in_typescript(hint, names)
        for name, hint in get_type_hints(typed_dict).items()
    }


@pytest.fixture(scope="module")
def typescript() -> TypeScript:
    return TypeScript(TYPES.read_text() + OF_DASHBOARD.read_text())


@pytest.fixture(scope="module")
def names() -> dict[Any, str]:
    """Everything that panels and dashboards send, and its name."""
    return {
        value: name
        for module in (protocol, dashboard_messages)
        for name, value in vars(module).items()
        if is_typeddict(value) or name in protocol.__annotations__
    }


FILES = {
    protocol.__name__: ("hta_widgets/panels/base/protocol.py", "js/src/types.ts"),
    dashboard_messages.__name__: (
        "hta_widgets/panels/bands/messages.py",
        "js/src/dashboard/types.ts",
    ),
}
"""Where a message is typed in Python, and where in TypeScript."""


def differences(
    ours: Mapping[str, Mapping[str, str]],
    theirs: Mapping[str, Mapping[str, str]],
    modules: Mapping[str, str],
) -> list[str]:
    """What two lists of messages disagree on, and the file to edit."""
    ours_are_in = " or ".join(python for python, _ in FILES.values())
    said = [
        f"{name} is not in Python: write it in {ours_are_in}"
        for name in theirs.keys() - ours.keys()
    ]
    for name, fields in ours.items():
        python, typescript = FILES[modules[name]]
        if name not in theirs:
            said.append(f"{name} of {python} is not in TypeScript: write it in {typescript}")
            continue
        for field in {**fields, **theirs[name]}:
            of_ours, of_theirs = fields.get(field), theirs[name].get(field)
            if of_ours != of_theirs:
                said.append(
                    f"{name}.{field} is {of_ours or 'missing'} in {python} and "
                    f"{of_theirs or 'missing'} in {typescript}: edit one of them"
                )
    return said


@needs_sources
def test_interfaces_have_the_same_fields_of_the_same_types(typescript, names):
    typed = {name: value for value, name in names.items() if is_typeddict(value)}
    ours = {name: interface(value, names) for name, value in typed.items()}
    theirs = {k: v for k, v in typescript.interfaces.items() if k not in STATES}
    modules = {name: value.__module__ for name, value in typed.items()}
    assert differences(ours, theirs, modules) == []


def test_what_messages_disagree_on_is_said_with_the_file_to_edit():
    modules = dict.fromkeys(("DialSpec", "ToggleSpec"), protocol.__name__)
    (python, typescript), (of_dashboard, _) = FILES.values()
    ours = {"DialSpec": {"kind": '"dial"'}, "ToggleSpec": {"label": "string", "name": "string"}}
    theirs = {"ToggleSpec": {"label": "number", "name": "string"}, "KnobSpec": {}}
    assert differences(ours, theirs, modules) == [
        f"KnobSpec is not in Python: write it in {python} or {of_dashboard}",
        f"DialSpec of {python} is not in TypeScript: write it in {typescript}",
        f"ToggleSpec.label is string in {python} and number in {typescript}: edit one of them",
    ]


PLACES_OF_A_KIND = {
    "hta_widgets/panels/base/protocol.py": 'Literal["{kind}"]',
    "hta_widgets/panels/base/controls.py": 'kind="{kind}"',
    "js/src/types.ts": 'kind: "{kind}";',
    "js/src/controls.ts": 'case "{kind}":',
}
"""The files of a kind of control, and what each has of it."""


def lacking_of_kind(kind: str) -> list[str]:
    """What a kind of control lacks, and the file to add it to."""
    package, sources = Path(protocol.__file__).parents[3], TYPESCRIPT.parents[1]
    return [
        f"the control {kind} has no {text.format(kind=kind)}: add it to {path}"
        for path, text in PLACES_OF_A_KIND.items()
        if text.format(kind=kind)
        not in ((sources if path.endswith(".ts") else package) / path).read_text(encoding="utf-8")
    ]


KINDS = [get_args(get_type_hints(each)["kind"])[0] for each in get_args(protocol.ControlSpec)]


@needs_sources
@pytest.mark.parametrize("kind", [each for each in KINDS if each != "button"])
def test_every_kind_of_control_has_its_four_places(kind):
    assert lacking_of_kind(kind) == []


@needs_sources
def test_what_a_kind_of_control_lacks_is_said_with_the_file():
    said = lacking_of_kind("dial")
    assert len(said) == 4
    assert said[0] == (
        'the control dial has no Literal["dial"]: add it to hta_widgets/panels/base/protocol.py'
    )
    assert said[-1] == 'the control dial has no case "dial":: add it to js/src/controls.ts'


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
    traits.pop("_esm", None)  # anywidget reads it
    traits = {key: trait for key, trait in traits.items() if not trait.read_only}  # hosts read it
    assert fields.keys() == traits.keys()
    for key, trait in traits.items():
        assert fields[key] in types_of(trait), key


def types_of(trait: TraitType) -> set[str]:
    if isinstance(trait, Int | Bool):
        plain = "number" if isinstance(trait, Int) else "boolean"
        return {one_way(f"{plain} | null") if trait.allow_none else plain}
    if isinstance(trait, Integers):
        return {one_way("[number, number] | null") if trait.allow_none else "number[]"}
    if isinstance(trait, List | Texts):
        is_text = isinstance(trait, Texts) or isinstance(trait._trait, anywidget.WidgetTrait)
        is_free = isinstance(trait, List) and trait._trait is None
        return {"string[]" if is_text else "Option[]" if is_free else "number[]"}
    if isinstance(trait, Enum):
        return {"Activity"}
    if isinstance(trait, Unicode | anywidget.WidgetTrait):
        return {"string"}
    of_text = "to_json" in trait.metadata
    return (
        {"string"}
        if of_text
        else {
            "PanelSpec",
            "BoardSpec",
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
        kind = kinds[control["kind"]]
        assert kind.__required_keys__ <= control.keys() <= get_type_hints(kind).keys()


# Panels with a protocol of their own


class Fits:
    """Whether real messages are what TypeScript takes them for."""

    def __init__(self, source: str) -> None:
        self.of = TypeScript(source)

    def check(self, value: Any, kind: str, where: str = "") -> None:
        """Compare a value with a type, and all that it holds."""
        if kind in self.of.aliases:
            kind = self.of.aliases[kind]
        choices = kind.split(" | ")
        if len(choices) > 1:
            assert any(self.is_one(value, choice) for choice in choices), (where, kind, value)
        elif kind.endswith("[]"):
            assert isinstance(value, list | tuple), (where, kind, value)
            for each in value:
                self.check(each, kind[:-2], f"{where}[]")
        elif kind.startswith("["):
            parts = kind[1:-1].split(", ")
            assert len(value) == len(parts), (where, kind, value)
            for each, part in zip(value, parts, strict=True):
                self.check(each, part, where)
        elif kind in self.of.interfaces:
            fields = self.of.interfaces[kind]
            assert value.keys() == fields.keys(), (where, kind)
            for name, field in fields.items():
                self.check(value[name], field, f"{where}.{name}")
        else:
            assert self.is_one(value, kind), (where, kind, value)

    def is_one(self, value: Any, kind: str) -> bool:
        """Whether a value is of one of the types of a union."""
        if kind.startswith('"'):
            return value == kind.strip('"')
        simple = {"string": str, "number": int | float, "boolean": bool, "null": NoneType}
        if kind in simple:
            return isinstance(value, simple[kind])
        try:
            self.check(value, kind)
        except (AssertionError, AttributeError, TypeError):
            return False
        return True


@needs_sources
def test_the_timeline_has_the_same_types_on_both_sides():
    source = TypeScript((TYPESCRIPT / "timeline" / "types.ts").read_text())
    ours = {
        each: each.__name__
        for each in vars(timeline_messages).values()
        if is_typeddict(each) or each is LaneName
    }
    names = {**ours, timeline_messages.Step: "Step", protocol.Fill: "Fill"}
    mine = {name: interface(each, names) for each, name in ours.items()}
    state = source.interfaces.pop("TimelineState")
    assert mine == source.interfaces
    assert source.aliases["Step"] == in_typescript(timeline_messages.Step, {})
    own = TimelinePanel.class_trait_names(sync=True)
    assert state.keys() - {"_recorded?"} == {*own} - {*Panel.class_trait_names(sync=True)}


@needs_sources
def test_messages_of_the_timeline_are_what_the_browser_takes_them_for(loaded: Job):
    fits = Fits(TYPES.read_text() + (TYPESCRIPT / "timeline" / "types.ts").read_text())
    panel = TimelinePanel(loaded, lanes=("queue",), ranks=[0])
    fits.check(panel._timeline, "TimelineLayout")
    lanes = panel.result.lanes
    row = int(loaded.rank(0).gpu_work.rows[-1])
    where = {"start": 0, "end": 10**7, "pixels": 9}
    asked = {
        "WindowAnswer": {"kind": "window", "lanes": [[0, "rank", 0], [0, "queue 0 7", 0]], **where},
        "BandsAnswer": {"kind": "bands", "ranks": [0, 1], **where},
        "LanesAnswer": {"kind": "lanes", "rank": 0},
        "AddedAnswer": {"kind": "added", "rank": 0, "lanes": [*LANE_KINDS]},
        "KindsAnswer": {"kind": "kinds"},
        "EventAnswer": {"kind": "event", "rank": 0, "row": row},
        "RefusedAnswer": {"kind": "event", "rank": 0, "row": -1},
        "NoneAnswer": {"kind": "next", "rank": 0, "key": "phases", "row": row, "forward": True},
    }
    first = {"kind": "first", "rank": 0, "time": 0, "key": "stream 0 7", "forward": True}
    for name, request in [*asked.items(), ("EventAnswer", first)]:
        fits.check(answer(lambda: lanes, {**request, "id": 1}).content, name, name)
    panel.close()


@needs_sources
def test_the_flame_graph_is_what_the_browser_takes_it_for(loaded: Job):
    fits = Fits((TYPESCRIPT / "flame" / "types.ts").read_text())
    panel = FlamePanel(loaded)
    fits.check(json.loads(panel._flame), "FlameMessage")
    state = fits.of.interfaces["FlameState"]
    own = {*FlamePanel.class_trait_names(sync=True)} - {*Panel.class_trait_names(sync=True)}
    assert own - {*FlamePanel.controls} == state.keys()
    panel.close()
