"""Collectives, launches, copies, memory, and what single calls do."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import pandas as pd

from hta_widgets.diagnosis.budget_table import BUDGET
from hta_widgets.names.shorten import short_name
from hta_widgets.panels.base.panel import Panel
from hta_widgets.quantities import counted, data_size, duration, number, number_ranges, percent
from tests.explained.forms import (
    NAME_WIDTH,
    NS_PER_S,
    Texts,
    largest,
    share,
    summed,
)


def waiting(result: Any, _: Panel[Any]) -> Texts | None:
    split = result.kernels[result.kernels["wait_ns"].notna()]
    total, split_ns = (int(each["duration_ns"].sum()) for each in (result.kernels, split))
    if not split_ns:
        return None
    transfer = int(split["transfer_ns"].sum())
    return {
        "waiting": share(split_ns - transfer, split_ns),
        "split": duration(split_ns),
        "transfer": percent(100 - 100 * (split_ns - transfer) / split_ns),
        "undivided": share(total - split_ns, total) if split_ns != total else None,
        "total": duration(total) if split_ns != total else None,
    }


def unsplit(result: Any, _: Panel[Any]) -> Texts | None:
    if result.kernels.empty or result.kernels["wait_ns"].notna().any():
        return None
    return {"total": duration(*summed(result.kernels, "duration_ns"))}


def roofline(result: Any, _: Panel[Any]) -> Texts | None:
    devices, rest = result.devices, result.uncounted
    kernel, flop, flop_ns, uncounted = (
        *summed(devices, "kernel_ns", "flop", "flop_ns"),
        *summed(rest, "gpu_ns"),
    )
    if not (flop_ns or devices["bytes_ns"].any()):
        return None
    assert flop == int(result.operators["flop"].sum())
    texts: Texts = {}
    if flop_ns:
        texts = {"rate": number(flop / flop_ns / 1000), "part": share(flop_ns, kernel)}
    is_said = uncounted and 100 * uncounted >= 3 * kernel
    if is_said:
        reason, most = largest(rest, "reason", "gpu_ns")
        texts |= {
            "uncounted": share(uncounted, kernel),
            "most": share(most, kernel),
            "reason": reason,
        }
        mine = rest[(rest["reason"] == reason) & (rest["operator"] != "")]
        if len(mine):
            by_operator = mine.groupby("operator")["gpu_ns"].sum()
            texts["operator"] = short_name(str(by_operator.idxmax()), NAME_WIDTH)
    counted = devices["flop_ns"].sum() >= 0.01 * devices["kernel_ns"].sum()
    if devices["mfu_percent"].notna().all() and counted:
        weighted = (devices["mfu_percent"] * devices["window_ns"]).sum()
        names = sorted(set(devices["name"]))
        texts["mfu"] = ("at least " if is_said else "") + percent(
            weighted / devices["window_ns"].sum()
        )
        texts["peak"] = f"the peak of {names[0]}" if len(names) == 1 else "the peaks of the devices"
    return texts


def launches(result: Any, _: Panel[Any]) -> Texts | None:
    ranks = result.ranks
    calls, operations, short, long, late, free = summed(
        ranks,
        *("calls", "operations", "short_kernels", "runtime_outliers"),
        *("launch_delay_outliers", "free_stream_outliers"),
    )
    if not operations:
        return None
    run, delay = (duration(ns) for ns in (result.runtime_cutoff_ns, result.launch_delay_cutoff_ns))
    part = f" ({share(short, calls - long)})" if short else ""
    if long == calls:
        of_calls = f"{'It' if calls == 1 else 'All of them'} took more than {run}."
    elif long:
        others = f"{short:,} of the others" if short else "none of the others"
        of_calls = (
            f"{counted(long, 'call')} took more than {run}; {others}{part} took longer than the "
            "work launched."
        )
    else:
        of_calls = (
            f"{f'{short:,}' if short else 'None'}{part} took longer than the work launched, and "
            f"none took more than {run}."
        )
    of_delays = f"No work started more than {delay} after its call."
    if late:
        why = f", {free:,} of them although the stream was free, the others behind earlier work."
        why = ", although its stream was free." if free == late else why
        why = ", behind earlier work of its stream." if not free else why
        of_delays = (
            f"The work of {counted(late, 'call')} ({share(late, calls)}) started more than {delay} "
            f"after the call{why}"
        )
    where = f"rank {ranks['rank'].iloc[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks"
    return {
        "where": where,
        "calls": counted(calls, "call"),
        "operations": counted(operations, "operation"),
        "said": f"{of_calls} {of_delays}",
    }


def tails(result: Any, panel: Panel[Any]) -> Texts | None:
    sides = {"device": "device", "host": "host"}
    table = result.categories[result.categories["rank"] == "all"].set_index("category")
    side = getattr(panel, "side", "all")
    shown = [name for name in table.index if side not in sides or table["side"][name] == side]
    rows = result.tails[
        (result.tails["rank"] == "all")
        & (result.tails["percent"] == result.percent)
        & result.tails["category"].isin(shown)
    ].dropna(subset=["share_percent"])
    if rows.empty:
        return None
    most = rows.loc[rows["share_percent"].astype(float).idxmax()]
    of = table.loc[most["category"]]
    nouns = {
        "kernel": "kernels",
        "memcpy": "copies",
        "memset": "memsets",
        "graph": "CUDA graphs",
        "runtime": "runtime API calls",
        "driver": "driver API calls",
    }
    return {
        "share": percent(result.percent),
        "category": nouns[most["category"]],
        "k": f"{most['k']:,}",
        "count": f"{of['count']:,}",
        "part": percent(float(most["share_percent"])),
        "mean": duration(most["mean_ns"]),
        "longest": duration(of["max_ns"]),
    }


def hidden_launches(result: Any, _: Panel[Any]) -> Texts | None:
    ranks = result.ranks
    count, over, call, exposed, copying = summed(
        ranks, "launches", "overlapping", "call_time_ns", "exposed_ns", "beside_copies_ns"
    )
    if not count:
        return None
    (unknown,) = summed(ranks, "unknown_ns")
    is_told = unknown < 0.05 * call or not call
    has_share = call and (exposed or is_told)
    least, most = (duration(ns) for ns in (ranks["exposed_ns"].min(), ranks["exposed_ns"].max()))
    return {
        "where": f"rank {ranks['rank'].iloc[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks",
        "over": share(over, count),
        "count": counted(count, "launch", "launches"),
        "exposed": share(exposed, call) if has_share else None,
        "exposed_time": duration(exposed) if has_share else None,
        "call": duration(call) if has_share else None,
        "unknown": None if is_told else share(unknown, call),
        "unknown_time": None if is_told else duration(unknown),
        "copying": share(copying, exposed) if exposed and copying >= 0.05 * exposed else None,
        "least": least if least != most else None,
        "most": most if least != most else None,
    }


def queues(result: Any, _: Panel[Any]) -> Texts | None:
    streams = result.streams
    if streams.empty:
        return None
    waited = (streams["mean_over_time"].fillna(0) * streams["observed_ns"]).to_numpy()
    row = streams.iloc[int(waited.argmax())]
    full, observed = int(row["full_ns"]), int(row["observed_ns"])
    return {
        "stream": str(int(row["stream"])),
        "rank": str(int(row["rank"])),
        "mean": counted(row["mean_over_time"], "operation"),
        "most": f"{row['max']:,.0f}",
        "empty": share(row["empty_ns"], observed) if observed else "0 %",
        "full": share(full, observed) if full else None,
        "full_time": duration(full) if full else None,
        "calls": counted(row["blocked_calls"], "launch call") if full else None,
        "blocked": duration(row["blocked_ns"]) if full else None,
    }


def transfers(result: Any, _: Panel[Any]) -> Texts | None:
    table = result.transfers
    (moved,) = summed(table, "bytes")
    if not moved:
        return None
    sums = table.groupby("name")[["busy_ns", "bytes"]].sum().sort_values(["busy_ns", "bytes"])
    name, busy, size = sums.index[-1], int(sums["busy_ns"].iloc[-1]), int(sums["bytes"].iloc[-1])
    alone = len(sums) == 1
    return {
        "count": counted(*summed(table, "operations"), "copy or memset", "copies and memsets"),
        "only": str(name) if alone else None,
        "moved": data_size(moved),
        "only_time": duration(busy) if alone else None,
        "name": None if alone else str(name),
        "time": None if alone else duration(busy),
        "share": None if alone or not size else share(size, moved),
    }


def unsized(result: Any, _: Panel[Any]) -> Texts | None:
    count, moved = summed(result.transfers, "operations", "bytes")
    if not count or moved:
        return None
    return {"count": counted(count, "copy or memset", "copies and memsets")}


MEMORY_NOUNS: Final = {
    "temporary": "is freed by the operator that allocated it",
    "activation": "are activations",
    "gradient": "are gradients",
    "optimizer state": "is optimizer state",
}


def memory(result: Any, _: Panel[Any]) -> Texts | None:
    peak = result.peak
    if peak.empty:
        return None
    table = peak[peak["device_type"] != "CPU"] if (peak["device_type"] != "CPU").any() else peak
    top = table.loc[table["bytes"].idxmax()]
    alive = of_device(result.alive_at_peak, top)
    assert int(alive["bytes"].sum()) == int(top["bytes"])
    sums = alive.groupby("category")["bytes"].sum()
    named = sums[[name for name in MEMORY_NOUNS if name in sums.index]]
    owners = alive[alive["caller"] != ""].groupby("caller")["bytes"].sum()
    texts: Texts = {
        "device": device_in_words(top, peak),
        "peak": data_size(int(top["bytes"])),
        "reserved": data_size(int(top["reserved_bytes"])) if top["reserved_bytes"] > 0 else None,
    }
    if len(named) and named.max() >= 0.1 * top["bytes"]:
        texts["category"] = share(named.max(), top["bytes"])
        texts["noun"] = MEMORY_NOUNS[str(named.idxmax())]
    if len(owners) and owners.max() >= 0.1 * top["bytes"]:
        texts["owned"] = data_size(int(owners.max()))
        texts["owner"] = short_name(str(owners.idxmax()), NAME_WIDTH)
    return texts | growing(result)


def growing(result: Any) -> Texts:
    """What grows in every step by more than a thousandth, and a megabyte."""
    worst: tuple[int, pd.DataFrame] | None = None
    for _, steps in result.steps.groupby(["rank", "device_type", "device"], sort=False):
        ends = steps["allocated_at_end_bytes"].tolist()
        grows = [now - was > max(1_000_000, 0.001 * was) for was, now in pairwise(ends)]
        if len(ends) >= 4 and all(grows) and (worst is None or ends[-1] - ends[0] > worst[0]):
            worst = ends[-1] - ends[0], steps
    if worst is None:
        return {}
    grown, steps = worst
    texts: Texts = {
        "leaking": device_in_words(steps.iloc[0], result.peak),
        "steps": counted(len(steps), "step"),
        "growth": data_size(grown / (len(steps) - 1)),
    }
    staying = of_device(result.survivors, steps.iloc[0])
    if len(staying) and staying["caller"].iloc[0]:
        first = staying.iloc[0]
        module = f" in {short_name(first['module'], NAME_WIDTH)}" if first["module"] else ""
        texts["keeper"] = short_name(first["caller"], NAME_WIDTH) + module
        texts["kept"] = data_size(first["bytes"])
    return texts


def of_device(table: pd.DataFrame, row: Any) -> pd.DataFrame:
    keys = ["rank", "device_type", "device"]
    return table[(table[keys] == [row[key] for key in keys]).all(axis=1)]


def device_in_words(row: Any, peak: pd.DataFrame) -> str:
    of_rank = f" of rank {row['rank']}" if len({*peak["rank"]}) > 1 else ""
    if row["device_type"] == "CPU":
        return f"the CPU{of_rank}"
    kind = f"{row['device_type']} device" if row["device_type"].startswith("type") else "GPU"
    return f"{kind} {row['device']}{of_rank}"


def sequences(result: Any, _: Panel[Any]) -> Texts | None:
    patterns = result.patterns
    if patterns.empty:
        return None
    top = patterns.iloc[0]
    of_top = result.occurrences[result.occurrences["pattern"] == 0]
    assert len(of_top) == top["count"]
    several, count = len(patterns) > 1, len(result.every.pattern)
    often = "once" if top["count"] == 1 else f"{top['count']:,} times"
    return {
        "count": f"{count:,} occurrences" if count > 1 else None,
        "name": result.operator_name,
        "rank": str(result.rank),
        "different": f"{len(patterns):,}" if several else None,
        "often": often if count > 1 else None,
        "gpu": duration(of_top["gpu_time_ns"].sum()),
        "cpu": duration(of_top["cpu_time_ns"].sum()),
    }


def counters(result: Any, panel: Panel[Any]) -> Texts | None:
    table = result.ranges
    top = table["top_level_op"].dropna()
    if top.nunique() < 2:
        return None
    by_operator = top.value_counts()
    ranks = panel.job.select_ranks(panel.ranks or None)
    return {
        "counters": counted(len(result.counters), "counter"),
        "kernels": counted(len(table), "kernel"),
        "ranks": f"rank{'s' * (len(ranks) > 1)} {number_ranges(ranks)}",
        "operators": f"{len(by_operator):,}",
        "matched": f"{len(top):,}",
        "top": str(by_operator.index[0]),
        "most": f"{by_operator.iloc[0]:,}",
    }


def coverage(result: Any, _: Panel[Any]) -> Texts | None:
    table = result.coverage
    (whole,) = summed(table, "period_ns")
    if not whole:
        return None
    labels = {f"{each.name}_ns": each.label.partition(":")[0] for each in BUDGET}
    sums = {name: int(table[name].sum()) for name in labels}
    assert sum(sums.values()) == whole
    compute = sums.pop("compute_ns")
    most = max(sums, key=lambda name: sums[name])
    has_steps = bool((result.steps["step"] >= 0).any())
    texts: Texts = {
        "compute": share(compute, whole),
        "whole": "the steps" if has_steps else "the GPU span",
        "ranks": counted(len(table), "rank"),
    }
    if sums[most]:
        texts |= {
            "label": labels[most],
            "rest": share(sums[most], whole),
            "mean": duration(sums[most] / len(table)),
        }
    return texts


def served(result: Any, _: Panel[Any]) -> Texts | None:
    """Of the one step that each recording of a server here has."""
    if len(result.steps) != 1:
        return None
    (step,) = result.steps.to_dict("records")
    column = {"decode": "generation_tokens", "prefill": "context_tokens"}.get(step["phase"])
    return {
        "engine": step["engine"],
        "phase": step["phase"],
        "length": duration(step["period_ns"]),
        "requests": counted(step["context_requests"] + step["generation_requests"], "request"),
        "prompt": counted(step["context_tokens"], "prompt token") * (step["phase"] == "mixed")
        or None,
        "tokens": column and f"{round(step[column] / step['period_ns'] * NS_PER_S):,}",
    }
