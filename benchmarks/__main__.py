"""Measure hta_widgets against HTA: ``python -m benchmarks`` in the checkout.

HTA is installed into a separate environment. Each measurement is a separate process, runs of ours
and of HTA alternate, and each figure is a median. On a shared machine, ratios are more reliable
than seconds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.children import CHECKOUT, Child
from benchmarks.environments import (
    DIRTY,
    HTA,
    RESULTS,
    hta_python,
    machine,
    revision,
    today,
    versions,
)
from benchmarks.suites import SUITES
from benchmarks.table import closest, markdown
from benchmarks.traces import SHARED, Traces

_HEADING = """# Benchmark results

Of the parameters of an analysis or panel, the one that comes closest to its target, or misses it
most; `python -m benchmarks` prints all.
"""


def main() -> None:
    options = _options()
    measured = revision()
    if options.save and measured.endswith(DIRTY):
        sys.exit(f"{measured} has uncommitted changes: commit them, then save results.")
    work = options.work.resolve()
    python = hta_python(work, options.hta)
    traces = Traces(work, options.traces.resolve(), options.scale_tool.resolve())
    bench = Bench(
        ours=Child(Path(sys.executable), "ours"),
        theirs=Child(python, "theirs"),
        traces=traces,
        repeats=options.repeats or (1 if options.quick else 3),
        large=200_000 if options.quick else 2_000_000,
        medium=20_000 if options.quick else 200_000,
        kernels=100_000 if options.quick else 1_000_000,
        sequences_s=0 if options.quick else options.sequences_s,
    )
    print(_HEADING, flush=True)
    for name in options.only or SUITES:
        title, measure = SUITES[name]
        began = _circumstances(bench, measured, quick=options.quick)
        rows = [*measure(bench)]
        print(markdown(title, began, rows, judged=not options.quick), flush=True)
        if options.save:
            if revision() != measured:
                sys.exit(f"{measured} changed while it was measured: results are not saved.")
            _save(title, markdown(title, began, closest(rows)))


def _save(title: str, section: str) -> None:
    """Put a section in its place among those of other runs."""
    path = CHECKOUT / RESULTS
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found = {part.split("\n")[0]: f"## {part}" for part in text.split("\n## ")[1:]}
    found[title] = section
    titles = [each for each, _ in SUITES.values() if each in found]
    sections = [found[each].rstrip("\n") + "\n" for each in titles]
    partial = path.with_suffix(".part")
    partial.write_text("\n".join([_HEADING, *sections]), encoding="utf-8")
    partial.replace(path)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, once")
    parser.add_argument("--only", action="append", choices=SUITES, help="measure only this")
    parser.add_argument("--repeats", type=int, help="runs of each process (3)")
    parser.add_argument(
        "--save", action="store_true", help=f"write {RESULTS}; of a clean commit only"
    )
    parser.add_argument(
        "--hta", default=HTA, help="what pip installs to compare with (%(default)s)"
    )
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(tempfile.gettempdir()) / "hta_widgets_benchmarks",
        help="folder for HTA's environment and for traces, kept (%(default)s)",
    )
    parser.add_argument(
        "--traces", type=Path, default=SHARED / "traces", help="folder of real traces (%(default)s)"
    )
    parser.add_argument(
        "--scale-tool",
        type=Path,
        default=SHARED / "tools" / "make_scale.py",
        help="script that makes traces longer (%(default)s)",
    )
    parser.add_argument(
        "--sequences-s",
        type=float,
        default=1800,
        help="time that HTA has to find kernel sequences; 0 leaves it out (%(default)s)",
    )
    return parser.parse_args()


def _circumstances(bench: Bench, measured: str, *, quick: bool) -> str:
    sizes = " A quick run at a tenth of the sizes; targets do not apply." if quick else ""
    traces = (
        "real traces, repeated to the given size" if bench.traces.are_real else "the sample job"
    )
    return (
        f"{today()}, {machine()}. Medians of {bench.repeats} alternating runs; {traces}.{sizes}\n"
        f"Ours: {measured}, {versions(bench.ours.python)}; HTA: {versions(bench.theirs.python)}.\n"
    )


if __name__ == "__main__":
    main()
