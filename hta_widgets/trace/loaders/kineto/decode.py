"""Decode pieces of event text into typed records; pieces that are not quite JSON are repaired."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar

import msgspec

from hta_widgets.trace.loaders.columns import ABSENT
from hta_widgets.trace.loaders.kineto.repair import UNREADABLE, HoldBack, Reading, repair

MISSING_TEXT = msgspec.Raw(b"")
NAN = float("nan")


class Args(
    msgspec.Struct,
    gc=False,
    rename={
        "registers": "registers per thread",
        "shared_bytes": "shared memory",
        "blocks_per_sm": "blocks per SM",
        "warps_per_sm": "warps per SM",
        "occupancy_percent": "est. achieved occupancy %",
        "transferred": "bytes",
        "bandwidth": "memory bandwidth (GB/s)",
        "sequence_number": "Sequence number",
        "forward_thread": "Fwd thread id",
        "concrete_inputs": "Concrete Inputs",
        "input_types": "Input type",
        "input_dims": "Input Dims",
        "input_dims_of_2021": "Input dims",
        "call_stack": "Call stack",
        "collective": "Collective name",
        "in_elements": "In msg nelems",
        "out_elements": "Out msg nelems",
        "group_size": "Group size",
        "group_name": "Process Group Name",
        "group_description": "Process Group Description",
        "group_ranks": "Process Group Ranks",
        "source_rank": "Src Rank",
        "destination_rank": "Dst Rank",
        "sequence": "Seq",
    },
):
    """The arguments that some analysis uses; all others are skipped without being decoded.

    The defaults are the values that the columns have for missing arguments. The fields are in the
    order in which Kineto writes the keys, because a decoder looks for each key after the previous
    one first.
    """

    device: Any = ABSENT
    stream: Any = ABSENT
    correlation: Any = ABSENT
    registers: Any = None
    shared_bytes: Any = None
    blocks_per_sm: Any = None
    warps_per_sm: Any = None
    grid: msgspec.Raw = MISSING_TEXT
    block: msgspec.Raw = MISSING_TEXT
    occupancy_percent: Any = None
    transferred: Any = ABSENT
    bandwidth: Any = NAN
    forward_thread: Any = ABSENT
    sequence_number: Any = ABSENT
    concrete_inputs: msgspec.Raw = MISSING_TEXT
    input_types: msgspec.Raw = MISSING_TEXT
    input_dims: msgspec.Raw = MISSING_TEXT
    input_dims_of_2021: msgspec.Raw = MISSING_TEXT
    call_stack: msgspec.Raw = MISSING_TEXT
    collective: Any = None
    in_elements: Any = ABSENT
    out_elements: Any = ABSENT
    dtype: Any = None
    group_size: Any = ABSENT
    group_name: Any = None
    group_description: Any = None
    group_ranks: msgspec.Raw = MISSING_TEXT
    source_rank: Any = ABSENT
    destination_rank: Any = ABSENT
    sequence: Any = ABSENT


class MemoryArgs(msgspec.Struct, gc=False):
    """The arguments of an allocation or a free."""

    memory_type: Any = msgspec.field(default=ABSENT, name="Device Type")
    memory_device: Any = msgspec.field(default=ABSENT, name="Device Id")
    address: Any = msgspec.field(default=ABSENT, name="Addr")
    size: Any = msgspec.field(default=None, name="Bytes")
    total_allocated: Any = msgspec.field(default=ABSENT, name="Total Allocated")
    total_reserved: Any = msgspec.field(default=ABSENT, name="Total Reserved")


class AnyArgs(Args, gc=False):
    """The arguments of an event of any phase: those of `Args` and `MemoryArgs`."""

    memory_type: Any = msgspec.field(default=ABSENT, name="Device Type")
    memory_device: Any = msgspec.field(default=ABSENT, name="Device Id")
    address: Any = msgspec.field(default=ABSENT, name="Addr")
    size: Any = msgspec.field(default=None, name="Bytes")
    total_allocated: Any = msgspec.field(default=ABSENT, name="Total Allocated")
    total_reserved: Any = msgspec.field(default=ABSENT, name="Total Reserved")


NO_ARGS = AnyArgs()


class TimedEvent(msgspec.Struct, gc=False):
    """The decoded fields of an event; times stay text until they are converted to integers."""

    cat: str | None = None
    name: str | None = None
    pid: Any = None
    tid: Any = None
    ts: msgspec.Raw = MISSING_TEXT
    dur: int | float | str | None = None


class AnyPhaseEvent(TimedEvent, gc=False):
    """An element of ``traceEvents``."""

    ph: str | None = None
    args: AnyArgs | None = None


class Complete(TimedEvent, gc=False, tag_field="ph", tag="X"):
    """A span of time."""

    ph: ClassVar[str] = "X"
    args: Args | None = None


class Instant(TimedEvent, gc=False, tag_field="ph", tag="i"):
    """A moment."""

    ph: ClassVar[str] = "i"
    args: MemoryArgs | None = None


class CounterSample(TimedEvent, gc=False, tag_field="ph", tag="C"):
    """Values at a moment."""

    ph: ClassVar[str] = "C"
    args: Args | None = None


class FlowStart(msgspec.Struct, gc=False, tag_field="ph", tag="s"):
    """Start of a flow arrow; its fields are not used."""

    ph: ClassVar[str] = "s"
    cat: ClassVar[None] = None


class FlowEnd(msgspec.Struct, gc=False, tag_field="ph", tag="f"):
    """End of a flow arrow; its fields are not used."""

    ph: ClassVar[str] = "f"
    cat: ClassVar[None] = None


class MetadataEvent(msgspec.Struct, gc=False, tag_field="ph", tag="M"):
    """Name of a process or thread; its fields are not used."""

    ph: ClassVar[str] = "M"
    cat: ClassVar[None] = None


UsualPhaseEvent = Complete | Instant | CounterSample | FlowStart | FlowEnd | MetadataEvent
"""Nearly every element of ``traceEvents``; unused fields are not turned into objects."""

Event = UsualPhaseEvent | AnyPhaseEvent

EventInTime = Complete | Instant | CounterSample | AnyPhaseEvent
"""An event that may have a row."""


class CountedEvent(msgspec.Struct, gc=False):
    """All arguments of an event, for events whose arguments are counters."""

    cat: str | None = None
    ph: str | None = None
    args: Any = None


Fields = dict[str, msgspec.Raw]
"""The keys of an event, with the JSON text of the values."""

_ANY_EVENT = b"{"
_USUAL_PHASE_EVENTS = msgspec.json.Decoder(list[UsualPhaseEvent])
_ANY_PHASE_EVENTS = msgspec.json.Decoder(list[AnyPhaseEvent])
_ANY_PHASE_EVENT = msgspec.json.Decoder(AnyPhaseEvent)
_LIST_OF_FIELDS = msgspec.json.Decoder(list[Fields])
_FIELDS = msgspec.json.Decoder(Fields)
_COUNTED_EVENTS = msgspec.json.Decoder(list[CountedEvent])
_COUNTED_EVENT = msgspec.json.Decoder(CountedEvent)


def decode_events(
    text: bytes, separator: bytes, hold_back: HoldBack | None = None
) -> Reading[UsualPhaseEvent] | Reading[AnyPhaseEvent]:
    """Decode a JSON list of whole events, each of which starts with the separator.

    They are `UsualPhaseEvent` if all of them have a usual phase, else `AnyPhaseEvent`. `hold_back`
    takes back an event that was cut at the end of the text, and returns the rest.
    """
    with suppress(*UNREADABLE):
        return Reading(text, _USUAL_PHASE_EVENTS.decode(text))
    with suppress(*UNREADABLE):
        return Reading(text, _ANY_PHASE_EVENTS.decode(text))
    return repair(text[1:-1], separator, _ANY_PHASE_EVENTS, _ANY_PHASE_EVENT, hold_back)


def decode_fields(
    text: bytes, separator: bytes, hold_back: HoldBack | None = None
) -> Reading[Fields]:
    """Decode the same events into keys and the JSON text of values, for writing them again.

    Unreadable events are repaired or left out as by `decode_events`.
    """
    with suppress(*UNREADABLE):
        text.decode()
        return Reading(text, _LIST_OF_FIELDS.decode(text))
    return repair(text[1:-1], separator, _LIST_OF_FIELDS, _FIELDS, hold_back)


def decode_counters(text: bytes) -> Sequence[CountedEvent]:
    """Decode the same events again with all arguments."""
    with suppress(*UNREADABLE):
        return _COUNTED_EVENTS.decode(text)
    return repair(text[1:-1], _ANY_EVENT, _COUNTED_EVENTS, _COUNTED_EVENT).events
