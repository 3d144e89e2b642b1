"""Contents of the bands of a dashboard: header, chips, findings, details, budget.

They are plain data (see `messages`), made from one diagnosis of the job and the selection; those
that show everything are cached with the traces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final, TypedDict

import pandas as pd

from hta_widgets.analyses.launch_facts import launch_facts
from hta_widgets.analyses.roofline.peaks import devices_of
from hta_widgets.analyses.roofline.vendor import words_of
from hta_widgets.analyses.server_steps import recording_in_words
from hta_widgets.analyses.time.calls import captured_operators
from hta_widgets.analyses.time.rows import Row, records
from hta_widgets.analyses.time.window import window_of
from hta_widgets.diagnosis import CpuOwner, CpuWork, Diagnosis, diagnosis
from hta_widgets.diagnosis.budget_table import budget, named_classes
from hta_widgets.diagnosis.cpu_work import COLLECTIVES, OPERATORS, RANGES
from hta_widgets.diagnosis.facts.not_recorded import UNTOLD_OF_GPU
from hta_widgets.diagnosis.gpu_bound import labels_in_job
from hta_widgets.diagnosis.replay.critical_path import PRECEDING, UNEXPLAINED
from hta_widgets.diagnosis.report import report
from hta_widgets.figures.diagnosis import budget_title, step_budget
from hta_widgets.figures.svg.picture import svg
from hta_widgets.names.shorten import cut_in_the_middle
from hta_widgets.panels.bands.budget import APART, budget_band
from hta_widgets.panels.bands.detail import LONGEST_NAME, calls_on_cpu, detail_of
from hta_widgets.panels.bands.events import count_events, selected_events
from hta_widgets.panels.bands.gpu_bound import gpu_bound
from hta_widgets.panels.bands.messages import Bands, Detail, Fact
from hta_widgets.panels.bands.search import proof_of_annotations
from hta_widgets.panels.bands.tabs import OF_CPUS, answering_panel, panel_of
from hta_widgets.panels.base.finding_rows import occurrences, rows_to_try, shown_rows
from hta_widgets.panels.base.protocol import AdviceRow, FindingRow, Numbers, Occurrence
from hta_widgets.panels.base.selection import Selection
from hta_widgets.panels.base.summary import SUMMARY_BYTES
from hta_widgets.panels.base.table import table_view
from hta_widgets.quantities import (
    NS_PER_MS,
    counted,
    data_size,
    duration,
    named_numbers,
    number,
    percent,
    signed,
)
from hta_widgets.trace.job import Job
from hta_widgets.trace.model.details import DetailGroup
from hta_widgets.trace.ranks.identity import identity_of, sharing_ranks
from hta_widgets.trace.ranks.rank import Rank
from hta_widgets.trace.ranks.replayed_calls import joined_replays

MOST_EVENTS: Final = 300_000
"""Maximum events of a rank whose file is read for launch details; that takes under a second."""

_NOT_RECORDED: Final = Fact(label="grid", text="not recorded")

_NOT_SOUND: Final = "⚠ recording unreliable"
"""Shown next to the notices, which say what the recorder got wrong."""

_HAS_FAULTS: Final = "recording faults, see notices"
"""Shown instead if the faults put no finding in doubt. In one such trace, three of 56 calls that
wait for the GPU return 1.3 µs too early."""

_NOT_READ: Final = Fact(label="grid", text="tick “Launch facts” in the kernel breakdown")

_LONGEST_NAME: Final = 40

_MOST_KINDS: Final = 2

MOSTLY: Final = 60
"""Percentage of the critical path below which the second-largest bound is named too: given 52.3 %
for the GPU and a finding about launches, readers asked which of the two it was."""

LEAST_OUTSIDE: Final = 1
"""Percent of the GPU time outside the steps of the verdict from which the page says so: a kernel
breakdown counted 241 launches of a kernel, and the verdict above it 168."""

NOT_YET: Final = Bands(
    ready=False,
    facts=[],
    everything="everything",
    verdict="",
    said="",
    findings=[],
    replayed=[],
    to_try=[],
    kernels=None,
    notices=[],
    budget=None,
    detail=None,
    events="",
    code="",
    error=None,
)


def cpu_rows(found: Diagnosis, selection: Selection | None) -> list[FindingRow]:
    """Turn what the CPUs did into rows, with *Show* if there is a selection; none with GPU work.

    How to record the GPU work comes first, unless the text above the rows says it.
    """
    work = found.cpu_work
    if work is None:
        return []
    of_gpu: list[FindingRow] = []
    others: list[FindingRow] = []
    for each in found.not_recorded:
        rows = of_gpu if each.untold == UNTOLD_OF_GPU else others
        rows.append(_row(f"{each.lack}: {each.untold}.", f"{each.how}."))
    return [*(of_gpu if work.launches else ()), *_of_work(work, selection, found.job), *others]


def _of_work(work: CpuWork, selection: Selection | None, job: Job) -> list[FindingRow]:
    show: dict[str, dict[str, Any]] = {}
    windows: dict[str, list[Occurrence]] = {}
    if selection is not None and work.operators:
        show[OPERATORS] = {**selection.nothing(), "operators": [work.operators[0].name]}
    spans = {COLLECTIVES: work.collective, RANGES: next((each.name for each in work.ranges), "")}
    for part, name in spans.items():
        if selection is not None and name:
            found = occurrences(proof_of_annotations(job, name), selection)
            if found:
                windows[part], show[part] = found, {**selection.nothing(), **found[0]["fields"]}
    tables = {part: [_table(each.what, each.owners)] for part, each in work.lists.items()}
    return [
        _row(
            text,
            work.what_to_do(part),
            tables.get(part, ()),
            show.get(part),
            panel_of(work, part),
            windows=windows.get(part, ()),
        )
        for part, text in work.parts.items()
    ]


def _row(
    sentence: str,
    action: str = "",
    numbers: Sequence[Numbers] = (),
    show: dict[str, Any] | None = None,
    panel: str = OF_CPUS,
    *,
    windows: Sequence[Occurrence] = (),
) -> FindingRow:
    """A row without a price, as it is unknown what a step would save."""
    return FindingRow(
        price="",
        bound="",
        percent="",
        share=0,
        color="",
        fill="solid",
        sentence=sentence,
        cause=sentence,
        doubt="",
        advice=[AdviceRow(do=action, code="")] if action else [],
        numbers=[*numbers],
        show=show,
        of_second=False,
        occurrences=[*windows],
        panel=panel,
        folded=False,
    )


def _table(label: str, owners: Sequence[CpuOwner]) -> Numbers:
    table = pd.DataFrame([*owners], columns=CpuOwner._fields)
    return Numbers(label=label, text="", table=table_view(table))


def launch_of(job: Job, kernel: str, events: pd.DataFrame) -> list[Fact]:
    """Grid and block that take the most time, on the rank with the most, and what follows."""
    if not kernel or events.empty:
        return []
    by_rank = events.groupby("rank")["duration_ns"].sum()
    number = int(by_rank.index.to_numpy()[by_rank.to_numpy().argmax()])
    rank = job.rank(number)
    if len(rank.trace.events) > MOST_EVENTS and not rank.has_read(DetailGroup.LAUNCH_CONFIGURATION):
        return [_NOT_READ]
    found = launch_facts(job, [number], by="configuration", kernel=kernel)
    if found.kernels.empty:
        return []
    rows = records(found.kernels)
    most = max(rows, key=lambda row: row["gpu_ns"])
    if not most["grid"]:
        return [_NOT_RECORDED]
    sizes = {(row["grid"], row["block"]) for row in rows}
    (whole, *_) = records(launch_facts(job, [number], kernel=kernel).kernels)
    return _facts(most, len(sizes) - 1, float(whole["occupancy_percent"]))


def _facts(row: Row, others: int, occupancy_percent: float) -> list[Fact]:
    """Facts about the size with the most time; the occupancy is over all sizes, as in tables."""
    more = f" and {counted(others, 'other size')}" if others else ""
    sizes = f"{row['grid']} blocks of {row['block']} threads{more}"
    found = [Fact(label="grid", text=sizes)]
    if row["registers"] > 0:
        found.append(Fact(label="registers/thread", text=number(row["registers"])))
    if row["shared_bytes"] > 0:
        text = data_size(row["shared_bytes"])
        found.append(Fact(label="shared memory/block", text=text))
    if occupancy_percent >= 0:
        notes = ["median"] if others else []
        notes += ["estimated"] if row["occupancy_source"] == "estimated" else []
        said = f" ({', '.join(notes)})" if notes else ""
        found.append(Fact(label="occupancy", text=f"{percent(occupancy_percent)}{said}"))
    if 0 < row["blocks"] < row["sms"]:
        found.append(Fact(label="fills", text=f"{row['blocks']:,} of {row['sms']:,} SMs"))
    elif row["waves"] >= 0:
        found.append(Fact(label="waves", text=number(row["waves"])))
    if row["tensor_core"]:
        found.append(Fact(label="tensor cores", text=row["tensor_core"]))
    return found


def devices_in_words(job: Job) -> str:
    """GPUs that did work, by kind, such as ``4 × NVIDIA H100``, and the number of ranks."""
    by_rank = job.reduce(gpu_names, job.ranks)
    identities = job.reduce(identity_of, job.ranks)
    again = {rank for ranks in sharing_ranks(identities) for rank in ranks[1:]}
    kinds = Counter(name for rank in by_rank if rank not in again for name in by_rank[rank])
    if not kinds:
        return counted(len(job.ranks), "rank")
    said = ", ".join(f"{count} × {kind}" for kind, count in kinds.most_common())
    if "" in kinds or len(kinds) > _MOST_KINDS:
        said = counted(kinds.total(), "GPU")
    return said if kinds.total() == len(job.ranks) else f"{counted(len(job.ranks), 'rank')}, {said}"


def gpu_names(rank: Rank) -> tuple[str, ...]:
    """Name of each GPU on which the rank did work; empty if it was not recorded."""
    known = devices_of(rank.trace.metadata)
    return tuple(
        cut_in_the_middle(known[device].name, _LONGEST_NAME) for device in rank.gpu_work.devices
    )


def facts(job: Job, found: Diagnosis) -> list[str]:
    """Facts about a job: reliability, kind, devices, graphs, steps, and the time of a step."""
    words = (_soundness(found), recording_in_words(job), devices_in_words(job), _graphs(job))
    said = [each for each in words if each]
    steps = found.steps["step"].unique().tolist()
    has_steps = bool(steps) and steps != [-1]
    if has_steps:
        said.append(f"{named_numbers('step', steps)}{found.unrecorded}")
    if found.cpu_work is not None:
        analysed_ns = found.cpu_work.analysed_ns or sum(
            job.reduce(_analysed_ns, found.ranks).values()
        )
        of_gpu = "no times of GPU work" if found.cpu_work.measured else "no GPU work"
        said += [of_gpu, f"{duration(analysed_ns / len(found.ranks))} analysed"]
    if found.step_ns > 0:
        time = duration(found.step_ns)
        per_step = f"{time} per step{found.varied}{found.profiled}"
        said.append(per_step if has_steps else f"GPU span of {time}")
    return said


def everything(found: Diagnosis) -> str:
    """Say what counts where nothing is selected: more than the steps of the verdict.

    Panels also count what runs before, between and after these, or in another phase of a server.
    """
    if found.steps.empty:
        return "everything"
    busy_ns = sum(found.job.reduce(_busy_ns, found.ranks).values())
    inside_ns = int((found.steps["period_ns"] - found.steps["idle_ns"]).sum())
    outside = 100 * (1 - inside_ns / busy_ns) if busy_ns else 0.0
    if outside < LEAST_OUTSIDE:
        return "everything"
    return f"everything ({percent(outside)} of the GPU time is outside the steps of the verdict)"


def _busy_ns(rank: Rank) -> int:
    """Time in which the device with most work is busy."""
    device = rank.gpu_work.main_device
    return 0 if device is None else rank.gpu_work.by_device()[device].busy.length


def _soundness(found: Diagnosis) -> str:
    """Whether faults of the recording put anything in doubt; empty without faults."""
    if found.health.is_sound:
        return ""
    if found and found.health.doubts and not found.health.doubts_of(found[0].percent):
        return _HAS_FAULTS  # clocks that differ by 79 µs matter little to 127 ms
    is_doubted = any(each.confidence == "inconclusive" for each in found)
    return _NOT_SOUND if found.health.doubts or is_doubted else _HAS_FAULTS


def _graphs(job: Job) -> str:
    """How many graph replays get operators from captures; empty without captures."""
    counts = [*job.reduce(joined_replays, job.ranks).values()]
    joined, replays = (sum(each) for each in zip(*counts, strict=True)) if counts else (0, 0)
    return f"{joined:,} of {counted(replays, 'graph replay')} matched to captures" * bool(replays)


def _analysed_ns(rank: Rank) -> int:
    window = window_of(rank)
    return window.end_ns - window.start_ns


def verdict(found: Diagnosis) -> str:
    """How much of a step the GPU does not compute; empty if that is nothing, or unknown."""
    if found.steps.empty:
        return ""
    table = budget(found.steps)
    whole_ns = float(table["period_ns"].mean())
    idle_ns = whole_ns - float(table["compute_ns"].mean())
    if idle_ns < 1:
        return ""
    whose = "a rank's " if found.step_ns > APART * found.period_ns else ""
    has_steps = (table["step"] >= 0).any()
    of = f"{whose or 'the ' * (not has_steps)}{duration(whole_ns)} "
    of += "per step" if has_steps else "GPU span"
    of += " with the profiler" if found.profiler_ns else ""
    return f"GPU not computing for {duration(idle_ns)} of {of}"


def headline(found: Diagnosis) -> str:
    """What a step is bound by and, if there are findings, how much of it computes nothing.

    Further lines say what is unexplained, and what is fine; as clauses of one sentence, nobody
    read them.
    """
    said = [each for each in (_pace(found), verdict(found) if found else "") if each]
    fine = [f"fine: {found.fine}"] * bool(found.fine)
    return "\n".join(["; ".join(said)] * bool(said) + [*found.unexplained, *fine])


def _pace(found: Diagnosis) -> str:
    """The bottleneck, and the next one if the first has too little of the critical path."""
    if not found.shares:
        return found.bound_by
    (_, most), (other, share), *_ = found.shares.items()
    if most >= MOSTLY or not share or other == UNEXPLAINED:
        return found.bound_by
    path = " of the critical path"
    return found.bound_by.replace(path, f"{path}, {other} {percent(share)}", 1)


MORE_THAN_SUM: Final = 1.05
"""Ratio of what findings bring together to their sum above which the line says why: of two of one
host, 45 % and 11 % without one of them, and 76 % without both."""


def tickable(found: Diagnosis) -> list[int]:
    """Positions of the findings that can be replayed."""
    prices = found.replayed.prices if found.replayed else {}
    return [place for place, each in enumerate(found) if each.cause in prices]


def together(found: Diagnosis, unticked: Collection[int]) -> str:
    """Say how long a step would take without the ticked findings; empty if none can be replayed."""
    places = tickable(found)
    ticked = [found[place] for place in places if place not in unticked]
    if not places:
        return ""
    if not ticked:
        return "Tick findings to see how long a step takes without them."
    result = found.together(ticked)
    before, after = (duration(found.step_ns - ms * NS_PER_MS) for ms in (0, result.gain_ms))
    count = "both findings" if len(ticked) == len(found) == 2 else counted(len(ticked), "finding")  # noqa: PLR2004
    whose = f"Without {'this finding' if len(places) == 1 else count}"
    at_best = ", at best" if any(each.bound == "at most" for each in ticked) else ""
    change = signed(-100 * result.gain_ms * NS_PER_MS / found.step_ns, percent)
    # if ranks start the first step apart, what the earlier ones wait for is not recorded
    then = (
        "; most of the rest precedes the recording: record more steps to see it"
        if PRECEDING in result.bound_by
        else f", then {result.bound_by.partition(' (')[0]}"
    )
    is_more = result.gain_ms > MORE_THAN_SUM * sum(each.recoverable_ms for each in ticked)
    others = "the other" if len(ticked) == 2 else "others"  # noqa: PLR2004
    why = f", more than their sum: each is partly hidden behind {others}" * is_more
    return f"{whose}{at_best}: {before} → {after} ({change}{why}){then}"


def bands_of(found: Diagnosis, selection: Selection) -> Bands:
    """Assemble the bands, from the diagnosis of all ranks of the job.

    The largest kernels make room while a finding is shown: its proof was below the screen.
    """
    rows = shown_rows(found, selection)
    job = found.job
    few = not job.too_many_to_hold(selection.ranks)
    on_cpu = cpu_rows(found, selection)
    return Bands(
        ready=True,
        facts=facts(found.job, found),
        everything=everything(found),
        verdict=headline(found),
        said=_said(found),
        findings=rows or on_cpu,
        replayed=tickable(found),
        to_try=rows_to_try(found, selection) if few else [],
        kernels=job.remember(gpu_bound, found) if few and selection.finding is None else None,
        notices=_notices(found),
        budget=budget_band(found, selection, rows),
        detail=_detail(job, selection) if few else None,
        events=f"{count_events(job, selection):,}" if few else "",
        code=selection.to_code(),
        error=None,
    )


def _notices(found: Diagnosis) -> list[str]:
    """Notices about the verdict, not the job: what limits it, and what it does not count.

    They leave out unexplained time, which is next to the heading. If what the CPUs did replaces the
    findings, they also leave out what was not recorded, which is shown below that.
    """
    others = {*found.job.notices_for(found.job.ranks), *found.unexplained}
    if found.cpu_work is not None:
        others.update(each.sentence for each in found.not_recorded)
    return [each for each in found.notices if each not in others]


def _said(found: Diagnosis) -> str:
    """Text in place of findings, or above what the CPUs did."""
    if found.cpu_work is not None:
        return found.cpu_work.no_gpu_work if found.cpu_work.sentences else found.finding
    return "" if found else found.finding


def _detail(job: Job, selection: Selection) -> Detail | None:
    if not selection.kernel and len(selection.operators) != 1:
        return None
    events = selected_events(job, selection, in_window=False)
    ranks = job.select_ranks(selection.ranks)
    captured = frozenset().union(*job.reduce(_operators_of_captures, ranks).values())
    name = selection.kernel or selection.operators[0]
    (label,) = labels_in_job(job, ranks, [name], LONGEST_NAME)
    on_cpu = calls_on_cpu(job, selection) if events.empty and selection.operators else []
    more = [*on_cpu, *launch_of(job, selection.kernel, events)]
    words = words_of(job)
    facts = [Fact(label=words(each["label"]), text=words(each["text"])) for each in more]
    return detail_of(events, selection, label, facts, captured, of_gpus=job.has_gpu_work())


def _operators_of_captures(rank: Rank) -> frozenset[str]:
    return frozenset(captured_operators(rank)) - {""} if rank.captures else frozenset()


class FirstScreen(TypedDict):
    """Everything made from the diagnosis of a job before anything is selected.

    `verdict` is its report, `answer` the name of the panel that shows the most expensive finding,
    and `budget` a picture of where a step goes, as SVG, by its title.
    """

    bands: Bands
    together: str
    verdict: str
    answer: str
    budget: dict[str, str]


def first_screen(job: Job) -> FirstScreen:
    """Diagnose a job, or reuse what an earlier session made of its diagnosis."""
    return job.recall(_first_screen, FirstScreen)


def _first_screen(job: Job) -> FirstScreen:
    found = job.remember(diagnosis)
    table, pictures = budget(found.steps), {}
    if not table.empty:
        classes = named_classes(found.steps, lost_most=found.health.lost_most)
        bar = step_budget(table, classes=classes)
        pictures[budget_title(table)] = svg(bar, points=SUMMARY_BYTES)
    return FirstScreen(
        bands=bands_of(found, _Nothing()),
        together=together(found, ()),
        verdict=report(found),
        answer=answering_panel(found),
        budget=pictures,
    )


class _Nothing(Selection):
    """A selection that pages are not told about."""

    def open(self) -> None:
        """Open no model: a page reports an error for a model that is closed at once."""
