"""Measure HTA; runs in HTA's environment, where hta_widgets is not installed."""

from __future__ import annotations

import importlib
import json
import logging
import sys
from typing import Any

from benchmarks.stopwatch import Stopwatch, answer, timed


def main() -> None:
    task, arguments = sys.argv[1], json.loads(sys.argv[2])
    watch = Stopwatch()
    analysis_class = importlib.import_module("hta.trace_analysis").TraceAnalysis
    imports = watch.lap()
    logging.disable(logging.CRITICAL)
    if arguments.get("without_steps"):
        vars(importlib.import_module("hta.common.trace"))["add_iteration"] = one_step
    files = {int(rank): path for rank, path in arguments["files"].items()}
    watch.lap()
    analysis = analysis_class(trace_files=files, trace_dir="")
    results: dict[str, Any] = {"imports": imports, "load": watch.lap()}
    results["events"] = sum(len(analysis.t.get_trace(rank)) for rank in files)
    if task == "analyses":
        results["calls"] = [
            {
                method: outcome(analysis, method, parameters)
                for method, parameters in arguments["methods"].items()
            }
            for _ in range(arguments["repeats"])
        ]
    answer(results)


def one_step(events: Any, _: object) -> Any:  # noqa: ANN401
    """Stand in for HTA's marking of steps, which looks at every step for every event."""
    events["iteration"] = 0
    return events


def outcome(analysis: Any, method: str, parameters: dict[str, Any]) -> dict[str, float] | None:  # noqa: ANN401
    """Time a method; None where HTA cannot do it."""
    try:
        return timed(lambda: getattr(analysis, method)(**parameters))
    except Exception as error:  # noqa: BLE001  # whatever HTA raises
        print(f"{method}: {error!r}", file=sys.stderr)
        return None


if __name__ == "__main__":
    main()
