"""Launches of kernels by brute force: plain Python, one kernel after the other."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import accumulate
from math import ceil, nan, prod

FACTS = (
    *("blocks", "threads", "registers", "shared_bytes"),
    *("occupancy_percent", "blocks_per_sm", "waves"),
)


def blocks_at_a_time(gpu, threads, registers, shared_bytes):
    """Blocks that fit on one multiprocessor, as NVIDIA's occupancy calculator counts them."""
    if registers <= 0 or shared_bytes < 0:  # as on ROCm, where any of them may be the limit
        return 0
    warps = ceil(threads / gpu["warpSize"])
    limits = [32, gpu["maxThreadsPerMultiprocessor"] // (warps * gpu["warpSize"])]
    if "regsPerMultiprocessor" in gpu:
        of_warp = ceil(registers * gpu["warpSize"] / 256) * 256
        limits.append(gpu["regsPerMultiprocessor"] // 4 // of_warp * 4 // warps)
    is_amd = "maxSharedMemoryPerMultiProcessor" in gpu
    taken = shared_bytes + (1024 if gpu["computeMajor"] >= 8 and not is_amd else 0)
    of_all = gpu["maxSharedMemoryPerMultiProcessor" if is_amd else "sharedMemPerMultiprocessor"]
    limits += [of_all // taken] if taken else []
    return min(limits)


def kernels_of(events):
    """The kernels; what the profiler wrote of their launch calls only is theirs."""
    calls = {
        event["args"]["correlation"]: event
        for event in events
        if event.get("cat") in {"cuda_runtime", "cuda_driver"} and "grid" in event["args"]
    }
    kernels = [event for event in events if event.get("cat", "").lower() == "kernel"]
    return [_with_call(each, calls.get(each["args"].get("correlation"))) for each in kernels]


def _with_call(kernel, call):
    if call is None:
        return kernel
    said = {name: call["args"][name] for name in ("grid", "block", "shared memory")}
    args = said | kernel["args"]
    if call["name"] == "hipExtModuleLaunchKernel":  # its grid is in threads
        sizes = zip(args["grid"], args["block"], strict=True)
        args["grid"] = [ceil(threads / block) for threads, block in sizes]
    return kernel | {"args": args}


def facts_of(event, gpu):
    """Numbers of one kernel; `gpu` is empty if it is not described."""
    args = event["args"]
    blocks, threads = (prod(args[name]) if args.get(name) else -1 for name in ("grid", "block"))
    registers, shared = args.get("registers per thread", -1), args.get("shared memory", -1)
    per_sm = occupancy = waves = nan
    if gpu and blocks > 0:
        per_sm = blocks / gpu["numSms"]
    if gpu and blocks > 0 and threads > 0:
        fit = blocks_at_a_time(gpu, threads, registers, shared)
        if fit:
            waves = per_sm / fit
            running = ceil(threads / gpu["warpSize"]) * gpu["warpSize"] * min(per_sm, fit)
            occupancy = 100 * running / gpu["maxThreadsPerMultiprocessor"]
    return dict(zip(FACTS, (blocks, threads, registers, shared, occupancy, per_sm, waves),
                    strict=True))  # fmt: skip


def recorded_or_estimated(event, gpu):
    """The same, with what the profiler says itself; 0 says nothing."""
    facts, args = facts_of(event, gpu), event["args"]
    for name, key in (("occupancy_percent", "est. achieved occupancy %"),
                      ("blocks_per_sm", "blocks per SM")):  # fmt: skip
        if args.get("grid") and args.get(key, 0) > 0:
            facts[name] = args[key]
    return facts


def statistics(values, lengths_ns):
    """What half of the time reaches, least and most of what is known."""
    known = sorted(each for each in zip(values, lengths_ns, strict=True) if each[0] >= 0)
    if not known:
        missing = -1 if all(isinstance(value, int) for value in values) else nan
        return missing, missing, missing
    reached_ns = accumulate(ns for _, ns in known)
    half_ns = (sum(ns for _, ns in known) + 1) // 2
    place = next(at for at, ns in enumerate(reached_ns) if ns >= half_ns)
    return known[place][0], known[0][0], known[-1][0]


def launch_rows(events, gpus, *, by="name"):
    """By device and name (and configuration): count, time, and statistics of each fact."""
    alike = defaultdict(list)
    for event in events:
        args = event["args"]
        key = (args["device"], event["name"])
        if by == "configuration":
            key += tuple("×".join(map(str, args.get(name) or [])) for name in ("grid", "block"))
        alike[key].append(event)
    found = {}
    for key, kernels in alike.items():
        facts = [recorded_or_estimated(each, gpus.get(key[0], {})) for each in kernels]
        lengths_ns = [max(round(1000 * each["dur"]), 1) for each in kernels]
        found[key] = {
            "count": len(kernels),
            **{name: statistics([each[name] for each in facts], lengths_ns) for name in FACTS},
        }
    return found


def sizes_of(events):
    """By device and name: the time of each recorded grid and block."""
    found = defaultdict(Counter)
    for event in events:
        args = event["args"]
        sizes = found[args["device"], event["name"]]
        if args.get("grid"):
            key = tuple("×".join(map(str, args[name])) for name in ("grid", "block"))
            sizes[key] += event["dur"]
    return found


def rows_of(result, *, by="name"):
    """The same of a result."""
    keys = ["device", "name", *(["grid", "block"] if by == "configuration" else [])]
    return {
        tuple(row[key] for key in keys): {
            "count": row["count"],
            **{name: (row[name], row[f"{name}_min"], row[f"{name}_max"]) for name in FACTS},
        }
        for row in result.kernels.to_dict("records")
    }
