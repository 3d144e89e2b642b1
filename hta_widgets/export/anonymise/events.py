"""The fields of an event, and the metadata of a file, without anything private.

Whatever is not in `kept` is left out together with its key: nobody can guess what is not there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from hta_widgets.export.anonymise import kept
from hta_widgets.export.anonymise.names import Names
from hta_widgets.trace.loaders.kineto.decode import Fields

_encode = msgspec.json.encode

_NUMBER: Final = (
    rb"(?:-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|0x[0-9a-fA-F]+|true|false|null|True|False|None|-?inf|-?nan"
    rb"|-?Infinity|-?NaN|\.\.\.)"
)
_BETWEEN: Final = rb"[\[\]\s,]"
NUMBERS: Final = re.compile(
    rb'"?(?:grid\()?'
    + _BETWEEN
    + rb"*(?:"
    + _NUMBER
    + rb"(?:"
    + _BETWEEN
    + rb"+"
    + _NUMBER
    + rb")*)?"
    + _BETWEEN
    + rb'*\)?"?'
)
"""JSON of a number, of a list of numbers, or of a text with either."""

_METRIC: Final = re.compile(r"[a-z0-9]{2,12}__[a-z0-9_.]{1,120}")
"""Names of NVIDIA's performance counters."""

_LONGEST: Final = 1 << 16
_RAW_TEXT: Final = msgspec.json.Decoder(str)
_ANY: Final = msgspec.json.Decoder(Any)
_OBJECT: Final = msgspec.json.Decoder(Fields)
_BAD: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _What(NamedTuple):
    """How events of one phase and category are anonymised."""

    of_name: str
    rule: Callable[[str], str]
    are_counters: bool
    has_phase: bool


class Events:
    """Anonymises events and metadata."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._texts: dict[tuple[str, bytes], msgspec.Raw | None] = {}
        self._whats: dict[tuple[bytes, bytes], _What] = {}
        self._rules: dict[str, Callable[[str], str]] = {
            "Process Group Name": names.group,
            "Process Group Description": names.group,
            "Call stack": names.stack,
            "Module Hierarchy": names.hierarchy,
            "kernel_file": names.path,
            "kernel": names.kernel,
            "cat": names.category,
            **{key: self._kept_texts(pattern) for key, pattern in kept.TEXTS.items()},
        }
        self._lists: dict[str, Callable[[str], str]] = {
            "Input type": names.type,
            "Concrete Inputs": self._value,
        }

    def event(self, fields: Fields) -> Fields:
        """The kept fields of an event."""
        what = self._what_of(fields)
        made: Fields = {}
        for key, raw in fields.items():
            if key == "name":
                value = self._text(what.of_name, raw, what.rule)
            elif key in _TIMES:
                value = _number(raw)
            elif key in _TEXT_FIELDS:
                value = self._text(key, raw, self._rules[key]) if _is_text(raw) else _number(raw)
            elif key == "args":
                value = self._arguments(raw, are_counters=what.are_counters)
            elif key == "ph":
                value = raw if what.has_phase else None
            else:
                continue
            if value is not None:
                made[key] = value
        return made

    def _what_of(self, fields: Fields) -> _What:
        """How events of one phase and category are anonymised."""
        place = bytes(fields.get("ph", b'""')), bytes(fields.get("cat", b'""'))
        found = self._whats.get(place)
        if found is None:
            phase, category = map(self._plain, place)
            found = self._whats[place] = _What(
                of_name=f"name {category}",
                rule=self._name_of(category),
                are_counters=phase == "C" or category.lower() == "cuda_profiler_range",
                has_phase=_PHASE.fullmatch(phase) is not None,
            )
        return found

    def metadata(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """The kept metadata of a file."""
        made: dict[str, Any] = {}
        for key, value in metadata.items():
            if key in kept.METADATA_NUMBERS and is_number(value):
                made[key] = value
            elif key in kept.VERSIONS:
                made[key] = self._names.version(str(value))
            elif key == "displayTimeUnit" and isinstance(value, str):
                made[key] = self._rules[key](value)
            elif key == "deviceProperties" and isinstance(value, list):
                made[key] = [_device(each) for each in value]
            elif key == "distributedInfo" and isinstance(value, Mapping):
                made[key] = self._distributed(value)
        return made

    def _arguments(self, raw: msgspec.Raw, *, are_counters: bool) -> msgspec.Raw | None:
        try:
            arguments = _OBJECT.decode(raw)
        except _BAD:
            return None
        if are_counters:
            counters = {
                key if _METRIC.fullmatch(key) else self._names.word(key): number
                for key, value in arguments.items()
                if (number := _number(value)) is not None
            }
            return msgspec.Raw(_encode(counters))
        made = {}
        for key, value in arguments.items():
            if key in kept.NUMBERS:
                shown = _number(value)
            elif key in self._lists:
                shown = self._text(key, value, self._lists[key])
            elif key in _ARGUMENTS and (_is_text(value) or key in _NUMBERED):
                shown = self._text(key, value, self._rules[key])
            else:
                shown = None
            if shown is not None:
                made[key] = shown
        return msgspec.Raw(_encode(made))

    def _text(self, key: str, raw: msgspec.Raw, rule: Callable[[str], str]) -> msgspec.Raw | None:
        """JSON of a text, or list of texts, changed by a rule; None for anything else."""
        data = bytes(raw)
        place = key, data
        if place not in self._texts:
            made = self._made(data, rule)
            if len(data) > _LONGEST:
                return made
            self._texts[place] = made
        return self._texts[place]

    def _made(self, data: bytes, rule: Callable[[str], str]) -> msgspec.Raw | None:
        try:
            value = _ANY.decode(data)
        except _BAD:
            return None
        if isinstance(value, str):
            return msgspec.Raw(_json(rule(value)))
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return msgspec.Raw(_json([rule(each) for each in value]))
        return msgspec.Raw(data) if is_number(value) else None

    def _name_of(self, category: str) -> Callable[[str], str]:
        if category:
            return lambda name: self._names.event(category, name)
        return self._of_no_category

    def _of_no_category(self, name: str) -> str:
        """Name of a metadata event, an instant or a counter."""
        return name if name in _METADATA_EVENTS else self._names.call(name)

    def _kept_texts(self, pattern: re.Pattern[str]) -> Callable[[str], str]:
        return lambda text: text if pattern.fullmatch(text) else self._names.word(text)

    def _value(self, text: str) -> str:
        """Value of an input: numbers and Python keywords are kept."""
        is_number_text = NUMBERS.fullmatch(text.encode("utf-8", "replace"))
        return text if is_number_text else self._names.word(text)

    def _plain(self, raw: bytes) -> str:
        try:
            return _RAW_TEXT.decode(raw)
        except _BAD:
            return ""

    def _distributed(self, info: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {
            key: info[key]
            for key in ("rank", "world_size", "pg_count")
            if is_number(info.get(key, {}))
        }
        if isinstance(info.get("backend"), str):
            made["backend"] = self._rules["backend"](info["backend"])
        if "nccl_version" in info:
            made["nccl_version"] = self._names.version(str(info["nccl_version"]))
        groups = info.get("pg_config")
        if isinstance(groups, str):
            try:
                made["pg_config"] = json.dumps(self._groups(json.loads(groups)))
            except (ValueError, RecursionError):
                return made
        elif groups is not None:
            made["pg_config"] = self._groups(groups)
        return made

    def _groups(self, groups: object) -> list[dict[str, Any]]:
        made = []
        for group in groups if isinstance(groups, list) else []:
            if isinstance(group, Mapping):
                each = {
                    key: group[key] for key in ("pg_size", "ranks") if is_number(group.get(key, {}))
                }
                for key in ("pg_name", "pg_desc"):
                    value = group.get(key, {})
                    if isinstance(value, str):
                        each[key] = self._names.group(value)
                    elif is_number(value):
                        each[key] = value
                made.append(each)
        return made


_PHASE: Final = re.compile(r"[A-Za-z]")
_TIMES: Final = frozenset({"ts", "dur"})
_TEXT_FIELDS: Final = frozenset({"cat", "pid", "tid", "id", "bp", "s"})
_NUMBERED: Final = frozenset({"Process Group Name", "Process Group Description"})
_ARGUMENTS: Final = frozenset(
    {
        *("Process Group Name", "Process Group Description", "Call stack", "Module Hierarchy"),
        *("kernel_file", "dtype", "Collective name", "cuda_sync_kind", "labels", "scope", "name"),
        *("kernel_backend", "kernel"),
    }
)
_METADATA_EVENTS: Final = kept.words("""
    process_name process_labels process_sort_index thread_name thread_sort_index
    """)


def is_number(value: object) -> bool:
    """Whether a value is a number, a flag, or a list of these."""
    if isinstance(value, list):
        return all(map(is_number, value))
    if isinstance(value, str):
        return NUMBERS.fullmatch(value.encode("utf-8", "replace")) is not None
    return value is None or isinstance(value, int | float)


def _number(raw: msgspec.Raw) -> msgspec.Raw | None:
    data = bytes(raw)
    return raw if data.isdigit() or NUMBERS.fullmatch(data) else None  # `isdigit` is faster


def _is_text(raw: msgspec.Raw) -> bool:
    return bytes(raw).startswith(b'"')


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _device(properties: object) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in properties.items() if isinstance(properties, Mapping) else ():
        is_model = key == "name" and isinstance(value, str) and kept.GPU_NAME.fullmatch(value)
        if is_model or (kept.DEVICE_NUMBERS.fullmatch(key) and isinstance(value, int | float)):
            made[key] = value
    return made
