"""Steps of an inference server: phase, tokens, and what the GPU waits for around each."""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from hta_widgets.analyses.budget.served_steps import SAID, served_steps
from hta_widgets.analyses.result import Result
from hta_widgets.arrays import Int64Array
from hta_widgets.errors import ParameterError
from hta_widgets.quantities import counted, duration, named_numbers
from hta_widgets.trace.job import Job, select_ranks
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.model.questions import asked_once
from hta_widgets.trace.ranks.facts import step_source_of
from hta_widgets.trace.ranks.rank import Rank

SERVED_PHASES: Final = ("decode", "mixed", "prefill")
"""Phases of steps, in the order in which a headline names them."""

TIMES: Final = ("period_ns", "gap_before_ns", "scheduling_ns", "preparing_ns", "gap_inside_ns")
"""Times of a step whose medians are listed for a phase."""

FEW: Final = 2
"""If a phase has more recorded steps than this, the first step of the recording does not count as
like the others, because it waits for what came before."""

STEADY_STEPS: Final = 5
STEADY_WITHIN: Final = 0.1
"""A steady state is a run of at least `STEADY_STEPS` decoding steps whose numbers of requests
differ by at most this part, or by 1."""

STALLED_STEPS: Final = 5
"""Prompts hold up decoding if there are at least this many decoding steps, and the longest prompt
takes as long as this many of them; the chunks that engines compute with decoding take up to 3."""

STALLED_PERCENT: Final = 20
"""Percentage of the time of all steps that prompts must take from running requests to be
mentioned."""

LEAST_REPEATS: Final = 3
REPEATS_WITHIN: Final = 1.5
"""A request repeats a compiled graph if the graph runs at least `LEAST_REPEATS` times, with the
longest run at most this many times as long as the shortest."""

_COMPILED_GRAPH: Final = re.compile(r"## Call CompiledFxGraph ")

_TEXTS: Final = ("label", "engine", "phase")
_HOST: Final = ("host_start_ns", "host_end_ns")
_MEASURED: Final = (
    *("gpu_start_ns", "gpu_end_ns", "period_ns", "busy_ns", "gap_before_ns"),
    *("scheduling_ns", "preparing_ns", "gap_inside_ns", "kernels", "graphs"),
    *("no_requests_ns", "unrecorded_ns"),
)
STEP_COLUMNS: Final = ("rank", "step", *_TEXTS, *SAID, *_HOST, *_MEASURED, "recorded")


@dataclass(frozen=True, kw_only=True, eq=False)
class ServerStepTable(Result):
    """Steps of inference servers, and their phases.

    Attributes
    ----------
    steps : DataFrame
        One row per rank and analysed step: ``rank``, ``step``, ``label`` (name of its span),
        ``engine``, ``phase`` (``prefill``, ``decode`` or ``mixed``); ``context_requests``,
        ``context_tokens``, ``generation_requests`` and ``generation_tokens`` (NA if the name
        does not say; not all tokens of a verifying step are accepted); times in int64 ns since
        the rank's first event: ``host_start_ns``, ``host_end_ns`` (the start of the next step),
        ``gpu_start_ns`` and ``gpu_end_ns`` (the edges of the step on the GPU), ``period_ns`` (their
        difference), ``busy_ns`` (work runs), ``gap_before_ns`` (idle until its first work),
        ``scheduling_ns`` and ``preparing_ns`` (the parts of that gap in which the GPU waits for the
        host: before the step's span, and from there to its first launch), and ``gap_inside_ns``
        (idle after its first work); ``kernels``,
        ``graphs`` (graph launches), ``no_requests_ns`` (the part of the gap before in which the
        server waits for requests, if the gap is long), ``unrecorded_ns`` (the same if nothing shows
        what the server does, and new requests come after it) and ``recorded`` (False if the step
        launched work, but the trace has none of it). ``period_ns`` is the sum of busy time and both
        gaps.
    phases : DataFrame
        One row per rank and phase, over its like steps: those that are recorded and that requests
        waited for, without the first step of the recording if there are more than two. ``rank``,
        ``phase``, ``steps`` (all), ``like`` (number of like steps), medians of ``period_ns``,
        ``gap_before_ns``, ``scheduling_ns``, ``preparing_ns``, ``gap_inside_ns``, ``requests``,
        ``kernels`` and ``graphs`` (float), ``busy_percent``, ``share_percent`` (of the time of all
        steps), ``output_tokens`` and ``prompt_tokens`` (of all its steps; NA if those of one are
        not known, or are verified and not all accepted), ``output_tokens_per_s`` and
        ``prompt_tokens_per_s`` (of its like steps; NaN if the tokens are NA), and
        ``output_token_ns`` (from one token of a request to its next: the median period of decoding
        and mixed steps, each of which computes one token for each request; else NaN).
    """

    steps: pd.DataFrame
    phases: pd.DataFrame


def server_steps(job: Job, ranks: Iterable[int] | None = None) -> ServerStepTable:
    """List the steps of an inference server, found by the spans that it writes around them.

    Parameters
    ----------
    ranks : iterable of int, optional
        All ranks when not given.

    Returns
    -------
    ServerStepTable
        Without rows if no rank serves.
    """
    chosen = select_ranks(job, ranks)
    return job.remember(_server_steps, tuple(chosen))


def _server_steps(job: Job, ranks: tuple[int, ...]) -> ServerStepTable:
    serving = [rank for rank in ranks if job.kinds[rank].engine]
    found = job.reduce(served_steps, serving) if serving else {}
    steps = [each.assign(rank=rank) for rank, each in found.items() if each is not None]
    if not steps:
        none, phases = (each.copy() for each in _no_steps())
        return ServerStepTable(
            steps=none, phases=phases, finding="", notices=job.notices_for(ranks)
        )
    table = pd.concat(steps, ignore_index=True)[[*STEP_COLUMNS]]
    return ServerStepTable(
        steps=table,
        phases=_phases(table),
        finding=headline(table, job),
        notices=(*job.notices_for(ranks), *server_notices(table), *_stalls_in_words(table)),
    )


@cache
def _no_steps() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Steps and phases without rows: most jobs do not serve, and making them took 5 of 90 ms."""
    types = dict.fromkeys(STEP_COLUMNS, "int64") | dict.fromkeys(SAID, "Int64")
    types |= {**dict.fromkeys(_TEXTS, "object"), "recorded": "bool"}
    steps = pd.DataFrame({name: pd.Series(dtype=of) for name, of in types.items()})
    return steps, _phases(steps)


def server_notices(steps: pd.DataFrame) -> Iterator[str]:
    """Notices on the steps before which a server had no requests, or may have had none."""
    for column, words in _WITHOUT_REQUESTS.items():
        having = steps[steps[column] > 0]
        if len(having):
            numbers = sorted(set(having["step"].tolist()))
            longest = duration(int(having[column].max()))
            yield (
                f"before {named_numbers('step', numbers)}, {words.format(longest)}; "
                f"{'it is' if len(numbers) == 1 else 'they are'} not diagnosed, and not in "
                "tokens per second"
            )


_WITHOUT_REQUESTS: Final = {
    "no_requests_ns": "the server waits up to {} for requests",
    "unrecorded_ns": "nothing is recorded of the server for up to {}: it may have had no requests, "
    "which Python frames would show (with_stack=True)",
}
"""Words for the times of a step in which the server has no requests."""


def _are_served(steps: pd.DataFrame) -> pd.Series[bool]:
    """Which steps show how fast a server is: recorded, and started as soon as it could."""
    return steps["recorded"] & (steps[[*_WITHOUT_REQUESTS]] == 0).all(axis="columns")


def _stalls_in_words(steps: pd.DataFrame) -> Iterator[str]:
    """Notice on the time that prompts take from running requests, on the rank where it is most."""
    found = stalls(steps).values()
    if found:
        most = max(found, key=lambda each: each.per_step_ns)
        yield f"prompts {most.words}: {duration(most.per_step_ns)} per {most.per}"


class Stalls(NamedTuple):
    """Prompts of one rank that running requests wait for."""

    steps: tuple[int, ...]
    """Steps of prompts, or with some prompts, between steps of running requests."""
    taken_ns: Int64Array
    """The time of a step of prompts; of a mixed step, the excess over a decoding one."""
    decode_ns: float
    """Length of the median decoding step."""
    decode_steps: int
    tokens_known: bool
    """Whether a decoding step computes one token for each of its requests."""

    @property
    def per_step_ns(self) -> float:
        """Time that prompts take per decoding step."""
        return int(self.taken_ns.sum()) / self.decode_steps

    @property
    def per(self) -> str:
        """What `per_step_ns` is per, in words."""
        return "output token" if self.tokens_known else "decode step"

    @property
    def words(self) -> str:
        """How often, and for how long; continues a sentence that starts with ``Prompts``."""
        longest_ns = int(self.taken_ns.max())
        often = "once" if self.taken_ns.size == 1 else f"{self.taken_ns.size:,} times"
        times = longest_ns / self.decode_ns
        return (
            f"hold up running requests {often}, up to {duration(longest_ns)}, {times:.0f} times as "
            "long as a decode step"
        )


def stalls(steps: pd.DataFrame) -> dict[int, Stalls]:
    """Prompts that running requests wait for, on each rank where they are long and often enough."""
    ranks = steps["rank"].unique().tolist()
    found = {rank: _stalls(steps[steps["rank"] == rank]) for rank in ranks}
    return {rank: each for rank, each in found.items() if each}


def _stalls(steps: pd.DataFrame) -> Stalls | None:
    """The stalls of one rank; None if they are short or few."""
    recorded = steps[_are_served(steps)].sort_values("step")
    phase, period_ns = recorded["phase"].to_numpy(), recorded["period_ns"].to_numpy()
    decoding = recorded[phase == "decode"]
    decode_ns = float(decoding["period_ns"].median())
    if len(decoding) < STALLED_STEPS or not decode_ns:
        return None
    runs = phase != "prefill"
    is_between = np.logical_or.accumulate(runs) & np.logical_or.accumulate(runs[::-1])[::-1]
    taken_ns = np.where(phase == "mixed", period_ns - decode_ns, period_ns)
    chosen = (phase != "decode") & is_between & (taken_ns > 0)
    taken_ns = taken_ns[chosen].astype(np.int64)
    longest_ns, sum_ns = taken_ns.max(initial=0), int(taken_ns.sum())
    is_long = longest_ns >= STALLED_STEPS * decode_ns
    if not is_long or 100 * sum_ns < STALLED_PERCENT * int(period_ns.sum()):
        return None
    tokens = decoding["generation_tokens"] == decoding["generation_requests"]
    numbers = tuple(recorded["step"].to_numpy()[chosen].tolist())
    return Stalls(
        numbers, taken_ns, decode_ns, len(decoding), bool(tokens.fillna(value=False).all())
    )


def like_steps(steps: pd.DataFrame, first: int) -> pd.DataFrame:
    """Steps of a rank and phase that are alike: served, and not the first one."""
    recorded = steps[_are_served(steps) & (steps["period_ns"] > 0)]
    return recorded[recorded["step"] != first] if len(recorded) > FEW else recorded


def _phases(steps: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for rank, of_rank in steps.groupby("rank"):
        whole_ns = int(of_rank["period_ns"].sum())
        for phase in SERVED_PHASES:
            every = of_rank[of_rank["phase"] == phase]
            if len(every):
                like = like_steps(every, of_rank["step"].iloc[0])
                numbers = _phase(every, like, whole_ns)
                rows.append({"rank": rank, "phase": phase, **numbers})
    columns = ["rank", "phase", *_phase_columns()]
    types = {"rank": "int64", "output_tokens": "Int64", "prompt_tokens": "Int64"}
    return pd.DataFrame(rows, columns=columns).astype(types)


def _phase_columns() -> list[str]:
    counts, rates = ["requests", "kernels", "graphs"], ["busy_percent", "share_percent"]
    tokens = ["output_tokens", "prompt_tokens", "output_tokens_per_s", "prompt_tokens_per_s"]
    return ["steps", "like", *TIMES, *counts, *rates, *tokens, "output_token_ns"]


def _phase(every: pd.DataFrame, like: pd.DataFrame, whole_ns: int) -> dict[str, Any]:
    spent_ns = int(like["period_ns"].sum())
    requests = like["context_requests"] + like["generation_requests"]
    verified = every["generation_tokens"] > every["generation_requests"]
    output = every["generation_tokens"].where(~verified.fillna(value=False))
    computes_one = every["phase"].iloc[0] != "prefill" and not verified.any()
    return {
        "steps": len(every),
        "like": len(like),
        **{name: float(like[name].median()) for name in TIMES},
        "requests": _median(requests),
        "kernels": float(like["kernels"].median()),
        "graphs": float(like["graphs"].median()),
        "busy_percent": 100 * int(like["busy_ns"].sum()) / spent_ns if spent_ns else np.nan,
        "share_percent": 100 * int(every["period_ns"].sum()) / max(whole_ns, 1),
        "output_tokens": _sum(output),
        "prompt_tokens": _sum(every["context_tokens"]),
        "output_tokens_per_s": _rate(output[like.index], spent_ns),
        "prompt_tokens_per_s": _rate(like["context_tokens"], spent_ns),
        "output_token_ns": float(like["period_ns"].median()) if computes_one else np.nan,
    }


def _median(values: pd.Series[Any]) -> float:
    return float(values.astype("Float64").median()) if values.notna().any() else np.nan


def _sum(tokens: pd.Series[Any]) -> int | None:
    return None if tokens.isna().any() else int(tokens.sum())


def _rate(tokens: pd.Series[Any], spent_ns: int) -> float:
    """Tokens per second; NaN if the tokens of a step are not known."""
    if tokens.isna().any() or not spent_ns:
        return np.nan
    return float(int(tokens.sum()) / spent_ns * 1e9)


def steady_state(steps: pd.DataFrame) -> pd.DataFrame:
    """The longest run of decoding steps of a rank with the same number of requests, or no row.

    The first step of the recording is not part of it. Numbers of requests are the same if all are
    within `STEADY_WITHIN` of their median, or within 1.
    """
    later = steps.iloc[1:]
    known = (later["phase"] == "decode") & _are_served(later)
    known &= later["generation_requests"].notna()
    requests = later["generation_requests"].fillna(0).astype("int64").tolist()
    longest, first, run = 0, 0, list[int]()  # the requests of a run, ascending
    for place, is_known in enumerate(known.tolist()):
        if not is_known:
            run.clear()
            continue
        insort(run, requests[place])
        while not _are_same(run):
            run.remove(requests[place + 1 - len(run)])
        if len(run) > longest:
            longest, first = len(run), place + 1 - len(run)
    return later.iloc[first : first + (longest if longest >= STEADY_STEPS else 0)]


def _are_same(ascending: Sequence[int]) -> bool:
    middle = (ascending[len(ascending) // 2] + ascending[(len(ascending) - 1) // 2]) / 2
    within = max(STEADY_WITHIN * middle, 1)
    return ascending[-1] - middle <= within and middle - ascending[0] <= within


def step_source(job: Job) -> str:
    """What marks the steps of a job: one of `StepSource`, or ``none``."""
    found = job.reduce(step_source_of, job.ranks).values()
    order = ("server", "ProfilerStep", "range", "request", "optimizer")
    return next((each for each in order if each in found), "none")


@asked_once
def phases_of(job: Job) -> dict[str, tuple[int, ...]]:
    """Numbers of the steps of each phase of a server that can be diagnosed, most time first.

    If prompts hold up decoding, decoding is first, however much time prompts take: a step of
    prompts does not show that anything waits for it. A step belongs to no phase if ranks are in
    different phases, if its work is missing on a rank, if a server had no requests before it, or if
    its beginning is not recorded. Empty if no rank serves.
    """
    steps = server_steps(job).steps
    if not len(steps):
        return {}
    by_step = steps.assign(served=_are_served(steps)).groupby("step")
    phase = _common_phases(steps)[by_step["served"].all()]
    phase = phase[~phase.index.isin(_cut_firsts(steps))]
    taken = by_step["period_ns"].mean()[phase.index].groupby(phase).sum().sort_values()[::-1]
    order = sorted(taken.index, key="decode".__ne__) if stalls(steps) else taken.index
    return {str(each): tuple(phase.index[phase == each].tolist()) for each in order}


def _cut_firsts(steps: pd.DataFrame) -> set[int]:
    """First steps of recordings if the gap before their work is not recorded.

    It would lower the mean; one that is longer than the others even so is kept.
    """
    found = set[int]()
    for _, of_rank in steps.groupby("rank"):
        first = of_rank.iloc[0]
        alike = of_rank[_are_served(of_rank) & (of_rank["phase"] == first["phase"])]
        if len(alike) > FEW and first["period_ns"] <= alike["period_ns"].median():
            found.add(int(first["step"]))
    return found


def _common_phases(steps: pd.DataFrame) -> pd.Series[str]:
    """The phase of each step that all ranks are in, by its number."""
    ends = steps.groupby("step")["phase"].agg(["min", "max"])
    return ends["min"].where(ends["min"] == ends["max"])


def steps_in_phase(job: Job, phase: str) -> tuple[int, ...]:
    """Numbers of the steps of a server that all ranks have in a phase, or a `ParameterError`."""
    phases = _common_phases(server_steps(job).steps)
    found = tuple(phases.index[phases == phase].tolist())
    if not found:
        known = [each for each in SERVED_PHASES if (phases == each).any()]
        has = f"it has {' and '.join(known)} steps" if known else "no inference server was recorded"
        msg = f"the job has no steps of phase {phase!r}; {has}"
        raise ParameterError(msg)
    return found


def main_phase(job: Job) -> str:
    """The phase with the most time among a server's diagnosable steps; empty if there is none."""
    return next(iter(phases_of(job)), "")


def recording_in_words(job: Job) -> str:
    """What was recorded, for a header, and how fast a server is; empty if not known.

    For a request that runs the same compiled graph again and again, such as diffusion, it also says
    how often and for how long.
    """
    said = server_steps(job).finding or job.kind_in_words
    if said != "request":
        return said
    runs = job.reduce(compiled_graph_runs, job.ranks[:1])[job.ranks[0]]
    if runs is None:
        return said
    return f"{said}, {runs.number} × {duration(runs.median_ns)} of one compiled graph"


class GraphRuns(NamedTuple):
    """Runs of one compiled graph."""

    number: int
    median_ns: float


def compiled_graph_runs(rank: Rank) -> GraphRuns | None:
    """Runs of the compiled graph with the most GPU time, if they are alike; None if they are few.

    Work is matched by time, because the calls that PyTorch records around Python functions may end
    inside a run.
    """
    events, work = rank.trace.events, rank.gpu_work
    spans = events.rows_of(Kind.CPU_OP, Kind.ANNOTATION)
    spans = spans[events.named(spans, _COMPILED_GRAPH)]
    spans = spans[np.argsort(events.start_ns[spans], kind="stable")]
    if spans.size < LEAST_REPEATS:
        return None
    before_ns = np.maximum.accumulate(events.end_ns[spans])[:-1]
    spans = spans[np.append(True, events.start_ns[spans][1:] >= before_ns)]  # the outermost
    launched_ns = events.start_ns[work.launch]
    run = np.searchsorted(events.start_ns[spans], launched_ns, side="right") - 1
    inside = np.flatnonzero(
        (work.launch >= 0) & (run >= 0) & (launched_ns < events.end_ns[spans[run]])
    )
    if not inside.size:
        return None
    of_run = events.name.codes[spans[run[inside]]]
    _, of_work = np.unique(of_run, return_inverse=True)
    spent_ns = np.bincount(of_work, weights=work.duration_ns[inside])
    longest = inside[of_work == int(spent_ns.argmax())]
    times = pd.DataFrame({"start": work.start_ns[longest], "end": work.end_ns[longest]})
    runs = times.groupby(run[longest]).agg({"start": "min", "end": "max"})
    length_ns = runs["end"] - runs["start"]
    if len(runs) < LEAST_REPEATS or length_ns.max() > REPEATS_WITHIN * length_ns.min():
        return None
    return GraphRuns(len(runs), float(length_ns.median()))


def headline(steps: pd.DataFrame, job: Job) -> str:
    """What the first rank that serves has served and how fast, in one line."""
    rank = int(steps["rank"].iloc[0])
    own = steps[steps["rank"] == rank]
    whose = f", rank {rank}" if len(job.ranks) > 1 else ""
    return f"{job.kinds[rank].words}{whose}: {', '.join([_counts(own), *_speed(own)])}"


def _counts(own: pd.DataFrame) -> str:
    counts = own["phase"].value_counts()
    kinds = [f"{counts[phase]:,} {phase}" for phase in SERVED_PHASES if phase in counts]
    if len(kinds) > 1:
        return f"{counted(len(own), 'step')} ({', '.join(kinds)})"
    return f"{kinds[0]} {'step' if len(own) == 1 else 'steps'}"


def _speed(own: pd.DataFrame) -> list[str]:
    """Length, requests and tokens of one step or of a steady state, or why there is neither."""
    if len(own) == 1:
        return _said(own, " of this step")
    steady = steady_state(own)
    if len(steady):
        return _said(steady, "")
    known = own["generation_requests"].dropna()
    known = known[known > 0]
    if not len(known):
        return []
    least, most = int(known.min()), int(known.max())
    many = f"{least:,} to {most:,} requests" if least < most else counted(least, "request")
    return [f"no steady state: {many}"]


def _said(steps: pd.DataFrame, of_this: str) -> list[str]:
    phase = str(steps["phase"].iloc[0])
    median_ns = float(steps["period_ns"].median())
    is_decoding = phase == "decode"
    said = [duration(median_ns) if of_this else f"{phase} {duration(median_ns)}"]
    requests = steps["context_requests"] + steps["generation_requests"]
    if requests.notna().all():
        said.append(counted(int(requests.median()), "request"))
    tokens = steps["generation_tokens"] if is_decoding else steps["context_tokens"]
    whole_ns = int(steps["period_ns"].sum())  # 0 if clocks contradict each other
    if phase == "mixed" and tokens.notna().all():
        said.append(counted(int(tokens.median()), "prompt token"))
    if phase != "mixed" and tokens.notna().all() and whole_ns:
        verified = is_decoding and bool((tokens > steps["generation_requests"]).any())
        noun = "verified tokens" if verified else "tokens" if is_decoding else "prompt tokens"
        per_s = _rate(tokens, whole_ns)
        said.append(f"{round(per_s):,} {noun}/s{of_this}")
    return said
