"""Change single expressions of the engine in a copy, and see whether its tests notice, by hand.

    python -m tests.mutants [engine] [diagnosis] [--count 40] [--seed 1]

Each mutant is a comparison, operator, number or condition that is turned into another. It is
killed if a test of its own module fails; those that survive are printed. It takes some 20 s each.
If fewer are killed than the floor of their part says, it fails.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

CHECKOUT = Path(__file__).parents[1]
ANALYSES = "hta_widgets/analyses"
DIAGNOSIS = "hta_widgets/diagnosis"
BUDGET = f"{ANALYSES}/budget"
OF_DIAGNOSIS = "diagnosis/findings"


class Part(NamedTuple):
    """A part of the package.

    Attributes
    ----------
    tests_of : mapping of str to sequence of str
        Tests that notice what changes in a file or folder; the last one that holds a file counts.
    floor_percent : int
        Least part of its mutants that the tests kill.
    """

    tests_of: Mapping[str, Sequence[str]]
    floor_percent: int


FAULTS = [f"faults/test_{name}.py" for name in ("malformed_kineto", "repair", "silent_losses")]
"""Of damaged files; the others take minutes."""

ENGINE = {
    "hta_widgets/intervals.py": ["test_intervals.py"],
    "hta_widgets/grouping.py": ["test_grouping.py"],
    "hta_widgets/trace/loaders/kineto": ["trace/test_kineto.py", "trace/test_open.py", *FAULTS],
    "hta_widgets/trace/loaders/nsys": ["trace/test_nsys.py", "trace/test_nsys_files.py"],
    "hta_widgets/trace/loaders/timestamps.py": ["trace/test_timestamps.py"],
    f"{ANALYSES}/clocks": ["analyses/test_clocks.py"],
    f"{ANALYSES}/collectives": ["analyses/test_collectives.py"],
    f"{ANALYSES}/idle_owners": ["analyses/test_idle_owners.py"],
    f"{ANALYSES}/idle_time": ["analyses/test_idle_time.py"],
    f"{ANALYSES}/kernel_breakdown.py": ["analyses/test_kernel_breakdown.py"],
    f"{ANALYSES}/launch_stats.py": ["analyses/test_launch_stats.py"],
    f"{ANALYSES}/memory_use": ["analyses/test_memory_use.py"],
    f"{ANALYSES}/modules": ["analyses/test_modules.py"],
    f"{ANALYSES}/operators": ["analyses/test_operators.py"],
    f"{ANALYSES}/queue_length.py": ["analyses/test_queue_length.py"],
    f"{ANALYSES}/roofline": ["analyses/test_roofline.py"],
}
OF_SHARED_MODULES = {
    "communication_facts": ["exposed_communication"],
    "compute_facts": [
        *("unfused_elementwise", "no_tensor_cores", "largest_kernels", "layout_transposes")
    ],
    "gpus": ["no_tensor_cores"],
    "hardware": ["slow_gpu", "gpu_throttling", "workload_imbalance"],
    "health": ["health", "foreign_ranks", "missing_rank"],
    "host_facts": ["allocator_retries", "launch_bound", "profiler_overhead", "slow_host_copies"],
    "kernel_facts": ["slow_gpu", "gpu_throttling", "workload_imbalance"],
    "like_kernels": ["slow_gpu", "gpu_throttling", "workload_imbalance"],
    "notices": ["slow_steps"],
    "shape_facts": ["slow_shape"],
    "step_facts": ["device_steps", "input_starvation", "launch_bound"],
    "trials": ["autotuning", "warm_up"],
}
"""Modules of the diagnosis without a file of tests, and the files that test them."""


def tests_of_diagnosis() -> dict[str, list[str]]:
    """Its own file of tests for each module, or those that are known to test it, or all."""
    found = {DIAGNOSIS: [OF_DIAGNOSIS], BUDGET: [OF_DIAGNOSIS]}
    folders = [CHECKOUT / each for each in found]
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        names = OF_SHARED_MODULES.get(path.stem, [path.stem])
        tests = [f"{OF_DIAGNOSIS}/test_{name}.py" for name in names]
        if all((CHECKOUT / "tests" / test).exists() for test in tests):
            found[str(path.relative_to(CHECKOUT))] = tests
    return found


PARTS = {"engine": Part(ENGINE, 60), "diagnosis": Part(tests_of_diagnosis(), 70)}
COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
COMBINED = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


def mutants(tree: ast.Module) -> Iterator[tuple[ast.AST, str, Any]]:
    """Each expression that can be changed: its node, a field, and another value of it."""
    types = {id(node) for each in ast.walk(tree) for node in _of_types(each)}
    for node in ast.walk(tree):
        if id(node) in types:
            continue
        if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
            yield node, "ops", [COMPARED[type(node.ops[0])](), *node.ops[1:]]
        elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in COMBINED:
            yield node, "op", COMBINED[type(node.op)]()
        elif isinstance(node, ast.Constant) and type(node.value) in {int, bool}:
            yield node, "value", not node.value if node.value in {True, False} else node.value + 1
        elif isinstance(node, ast.Constant) and type(node.value) is float:
            yield node, "value", 1.5 * node.value
        elif isinstance(node, ast.If):
            yield node, "test", ast.UnaryOp(ast.Not(), node.test)


def _of_types(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes of the annotations of a node, which do nothing."""
    for field in ("annotation", "returns"):
        if annotation := getattr(node, field, None):
            yield from ast.walk(annotation)


def is_killed(copy: Path, tests: Sequence[str]) -> bool:
    """Whether any of the tests fails."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=fewer"]
    paths = [f"tests/{test}" for test in tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "HTA_WIDGETS_CACHE": "off"}
    command = [sys.executable, "-m", "pytest", *options, *paths]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False)
    return done.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.mutants")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)} (all)")
    parser.add_argument("--count", type=int, default=40, help="mutants of each (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (%(default)s)")
    given = parser.parse_args()
    if unknown := {*given.parts} - {*PARTS}:
        parser.error(f"there is no part {', '.join(unknown)}: choose from {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("hta_widgets", "tests"):
            unneeded = shutil.ignore_patterns("node_modules", "__pycache__")
            shutil.copytree(CHECKOUT / part, copy / part, ignore=unneeded)
        shutil.copy(CHECKOUT / "pyproject.toml", copy)
        names = given.parts or PARTS
        shares = {name: share_killed(copy, name, given.count, given.seed) for name in names}
    low = [name for name, percent in shares.items() if percent < PARTS[name].floor_percent]
    if low:
        sys.exit(f"Too few mutants are killed in {', '.join(low)}: pin what survives by tests.")


def share_killed(copy: Path, part: str, count: int, seed: int) -> float:
    """Make some mutants of a part, and tell how many of them (%) its tests kill."""
    chosen = random.Random(seed).sample(all_mutants(copy, PARTS[part].tests_of), count)  # noqa: S311
    killed = sum(judged(copy, *place) for place in chosen)
    percent, floor = 100 * killed / count, PARTS[part].floor_percent
    print(f"{part}: {killed} of {count} mutants are killed ({percent:.0f} %, floor {floor} %)")  # noqa: T201
    return percent


def all_mutants(
    copy: Path, tests_of: Mapping[str, Sequence[str]]
) -> list[tuple[Path, int, Sequence[str]]]:
    """All mutants: file, number, and tests of the file."""
    tests_of_file = {}
    for target, tests in tests_of.items():
        files = [
            each
            for each in sorted({*(copy / target).rglob("*.py"), copy / target})
            if each.is_file()
        ]
        if not files:
            sys.exit(f"There is no {target}: tests/mutants.py names it.")
        tests_of_file |= dict.fromkeys(files, tests)
    return [
        (file, number, tests)
        for file, tests in tests_of_file.items()
        for number, _ in enumerate(mutants(ast.parse(file.read_text())))
    ]


def judged(copy: Path, file: Path, number: int, tests: Sequence[str]) -> bool:
    """Make one mutant, run its tests, and take it back."""
    source = file.read_text()
    tree = ast.parse(source)
    node, field, value = [*mutants(tree)][number]
    before = ast.unparse(node).splitlines()[0]
    setattr(node, field, value)
    file.write_text(ast.unparse(tree))
    try:
        killed = is_killed(copy, tests)
    finally:
        file.write_text(source)
    if not killed:
        place = f"{file.relative_to(copy)}:{node.lineno}"  # type: ignore[attr-defined]
        print(f"survives: {place} {before} -> {ast.unparse(node).splitlines()[0]}", flush=True)  # noqa: T201
    return killed


if __name__ == "__main__":
    main()
