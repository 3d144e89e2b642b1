"""Change single expressions of the engine in a copy, and see whether its tests notice, by hand.

    python -m tests.mutants [--count 40] [--seed 1]

Each mutant is a comparison, operator, constant or condition that is turned into another. It is
killed if a test of its own module fails; those that survive are printed. It takes some 20 s each.
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[1]
ANALYSES = "hta_widgets/analyses"
TESTS_OF = {
    "hta_widgets/intervals.py": ["test_intervals.py"],
    "hta_widgets/grouping.py": ["test_grouping.py"],
    "hta_widgets/trace/loaders/kineto": ["trace/test_kineto.py", "trace/test_open.py", "faults"],
    "hta_widgets/trace/loaders/nsys": ["trace/test_nsys.py", "trace/test_nsys_files.py"],
    "hta_widgets/trace/loaders/timestamps.py": ["trace/test_timestamps.py"],
    f"{ANALYSES}/clocks": ["analyses/test_clocks.py"],
    f"{ANALYSES}/collectives": ["analyses/test_collectives.py"],
    f"{ANALYSES}/idle_owners": ["analyses/test_idle_owners.py"],
    f"{ANALYSES}/idle_time": ["analyses/test_idle_time.py"],
    f"{ANALYSES}/kernel_breakdown": ["analyses/test_kernel_breakdown.py"],
    f"{ANALYSES}/launch_stats": ["analyses/test_launch_stats.py"],
    f"{ANALYSES}/memory_use": ["analyses/test_memory_use.py"],
    f"{ANALYSES}/modules": ["analyses/test_modules.py"],
    f"{ANALYSES}/operators": ["analyses/test_operators.py"],
    f"{ANALYSES}/queue_length": ["analyses/test_queue_length.py"],
    f"{ANALYSES}/roofline": ["analyses/test_roofline.py"],
}
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
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
            yield node, "ops", [COMPARED[type(node.ops[0])](), *node.ops[1:]]
        elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in COMBINED:
            yield node, "op", COMBINED[type(node.op)]()
        elif isinstance(node, ast.Constant) and type(node.value) in {int, bool}:
            yield node, "value", not node.value if node.value in {True, False} else node.value + 1
        elif isinstance(node, ast.If):
            yield node, "test", ast.UnaryOp(ast.Not(), node.test)


def is_killed(copy: Path, tests: list[str]) -> bool:
    """Whether any of the tests fails."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=fewer"]
    paths = [f"tests/{test}" for test in tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "HTA_WIDGETS_CACHE": "off"}
    command = [sys.executable, "-m", "pytest", *options, *paths]
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False)
    return done.returncode != 0


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.mutants")
    parser.add_argument("--count", type=int, default=40, help="mutants (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (%(default)s)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("hta_widgets", "tests"):
            unneeded = shutil.ignore_patterns("node_modules", "__pycache__")
            shutil.copytree(CHECKOUT / part, copy / part, ignore=unneeded)
        shutil.copy(CHECKOUT / "pyproject.toml", copy)
        places = [
            (file, number, tests)
            for target, tests in TESTS_OF.items()
            for file in sorted({*(copy / target).rglob("*.py"), copy / target})
            if file.is_file()
            for number, _ in enumerate(mutants(ast.parse(file.read_text())))
        ]
        chosen = random.Random(given.seed).sample(places, given.count)  # noqa: S311
        killed = sum(judged(copy, *place) for place in chosen)
    print(f"{killed} of {given.count} mutants are killed")  # noqa: T201


def judged(copy: Path, file: Path, number: int, tests: list[str]) -> bool:
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
