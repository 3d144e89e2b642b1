"""Details of the one kernel or operator that is selected."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.operators import operators
from hta_widgets.arrays import Int64Array
from hta_widgets.grouping import opens_run
from hta_widgets.panels.bands.events import selected_events
from hta_widgets.panels.bands.messages import Detail, Fact, RankBar
from hta_widgets.panels.base.selection import Selection
from hta_widgets.quantities import counted, duration, named_numbers
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.kernels import type_words

MOST_BARS: Final = 64

LONGEST_NAME: Final = 96
"""Maximum characters of the label; template symbols can have thousands."""


def detail_of(
    events: pd.DataFrame,
    selection: Selection,
    label: str,
    more: Sequence[Fact] = (),
    captured: Collection[str] = (),
    *,
    of_gpus: bool = True,
) -> Detail:
    """Describe the selected kernel, or else the selected operator.

    `events` are the `selected_events`, ignoring the window. `label` names it as the other parts of
    the page do. `more` says how the kernel is launched,
    or gives the CPU time of the operator; `captured` are operators known from graph captures.
    """
    kind = "kernel" if selection.kernel else "operator"
    name = selection.kernel or selection.operators[0]
    windows = Windows.of(events)
    by_rank = events.groupby("rank")["duration_ns"].agg(["count", "mean"])
    means = by_rank["mean"].head(MOST_BARS)
    longest = max(float(means.max()), 1.0) if len(means) else 1.0
    rows = zip(means.index.tolist(), means.tolist(), by_rank["count"].tolist(), strict=False)
    bars = [
        RankBar(rank=rank, text=f"{duration(mean)} × {count:,}", share=mean / longest)
        for rank, mean, count in rows
    ]
    return Detail(
        kind=kind,
        name=name,
        label=label,
        about=_about(kind, events, selection, captured) if of_gpus else "",
        facts=[*_in_window(events, selection.window_ns), *_facts(events), *more],
        bars=bars,
        place=windows.place(selection.window_ns),
        count=windows.start_ns.size,
        code="dash.events",
    )


def _about(kind: str, events: pd.DataFrame, selection: Selection, captured: Collection[str]) -> str:
    """What it is, and which part of the job the facts cover."""
    if events.empty:
        return "launches no selected GPU work"
    types = ", ".join(type_words(each) for each in sorted(set(events["type"])))
    streams = sorted(set(events["stream"].tolist()))
    said = [types] if kind == "kernel" else [f"launches {types}"]
    said.append(f"stream{'s' * (len(streams) > 1)} {', '.join(map(str, streams[:6]))}")
    if kind == "kernel":
        named = [name for name in events["operator"].value_counts().index if name]
        if named:
            said.append(f"launched by {named[0]}")
    in_graphs = events.loc[events["launch"].str.contains("GraphLaunch"), "operator"]
    if in_graphs.isin([*captured]).any():
        said.append("as recorded in the graph's capture")
    if selection.ranks:
        said.append(f"on {named_numbers('rank', selection.ranks)}")
    if steps := selection.time_in_words(("steps", "phase")):
        said.append(f"in {steps}")
    return " · ".join(said)


def calls_on_cpu(job: Job, selection: Selection) -> list[Fact]:
    """CPU time of an operator, for one that launches no selected GPU work."""
    steps = selection.steps_of(job) or None
    table = operators(job, job.select_ranks(selection.ranks), steps=steps).operators
    own = table[table["operator"].isin(selection.operators)]
    if own.empty:
        return []
    return [
        Fact(label="CPU time", text=duration(int(own["cpu_total_ns"].sum()))),
        Fact(label="self CPU time", text=duration(int(own["cpu_self_ns"].sum()))),
        Fact(label="calls", text=counted(int(own["calls"].sum()), "call")),
    ]


def _in_window(events: pd.DataFrame, window_ns: tuple[int, ...] | None) -> list[Fact]:
    """The part of the events inside the window; empty without a window."""
    if window_ns is None:
        return []
    start_ns, end_ns = events["start_ns"], events["start_ns"] + events["duration_ns"]
    inside_ns = end_ns.clip(upper=window_ns[1]) - start_ns.clip(lower=window_ns[0])
    inside_ns = inside_ns[inside_ns > 0]
    text = f"{duration(int(inside_ns.sum()))}, {counted(len(inside_ns), 'time')}"
    return [Fact(label="in the window", text=text)]


def _facts(events: pd.DataFrame) -> list[Fact]:
    if events.empty:
        return []
    length = events["duration_ns"]
    facts = [
        Fact(label="time", text=duration(int(length.sum()))),
        Fact(label="recorded", text=counted(len(length), "time")),
        Fact(label="mean", text=duration(float(length.mean()))),
        Fact(label="longest", text=duration(int(length.max()))),
    ]
    launched = events[events["launch_start_ns"] >= 0]
    if len(launched):
        queued_ns = launched["start_ns"] - launched["launch_start_ns"]
        facts += [
            Fact(label="launch call", text=duration(float(launched["launch_duration_ns"].mean()))),
            Fact(label="from launch to start", text=duration(float(queued_ns.median()))),
        ]
    return facts


class Windows(NamedTuple):
    """Windows (ns) that show each of the events, in order; simultaneous events share one."""

    start_ns: Int64Array
    end_ns: Int64Array

    @classmethod
    def of(cls, events: pd.DataFrame) -> Windows:
        """Windows of each event with half its length before and after it."""
        start_ns, length_ns = (
            events[name].to_numpy(np.int64) for name in ("start_ns", "duration_ns")
        )
        around_ns = np.maximum(length_ns // 2, 1)
        first_ns, last_ns = start_ns - around_ns, start_ns + length_ns + around_ns
        order = np.lexsort((last_ns, first_ns))
        first_ns, last_ns = first_ns[order], last_ns[order]
        is_new = opens_run(first_ns, last_ns)
        return cls(first_ns[is_new], last_ns[is_new])

    def place(self, window_ns: tuple[int, ...] | None) -> int:
        """Position, from 1, of the event that a window shows; 0 if it shows none."""
        if window_ns is None:
            return 0
        same = (self.start_ns == window_ns[0]) & (self.end_ns == window_ns[1])
        return int(same.argmax()) + 1 if same.any() else 0

    def neighbour(self, window_ns: tuple[int, ...] | None, by: int) -> tuple[int, int] | None:
        """The window of the next (1) or previous (-1) event; None if there are no events."""
        count = self.start_ns.size
        if not count:
            return None
        here = self.place(window_ns)
        place = (here - 1 + by) % count if here else (0 if by > 0 else count - 1)
        return int(self.start_ns[place]), int(self.end_ns[place])


def go_to_event(job: Job, selection: Selection, by: int) -> None:
    """Select the window of the next (1) or previous (-1) event of what is selected."""
    if not (selection.kernel or selection.operators):
        return
    events = selected_events(job, selection, in_window=False)
    window = Windows.of(events).neighbour(selection.window_ns, by)
    if window is not None:
        with selection.hold():
            selection.window_ns, selection.finding = window, None
