"""Count what there is to read: ``python -m benchmarks.house [REVISION ...]``.

Of each revision and of the working tree: files, lines, imports, modules that only one other module
imports, private functions that are called once, and how the modules of the largest packages depend
on each other. With ``--walk TRACE``, also the modules that one rank is handed through when the
trace is diagnosed. These are findings, not bars: what a reader looks for separately stays apart.
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from benchmarks.children import CHECKOUT

PACKAGE = "hta_widgets"
PARTS = ("diagnosis", "analyses", "analyses.diagnosis", "panels.base")
"""Packages whose inner dependencies are counted, those of earlier layouts included."""

WALK = """
import sys
from hta_widgets import diagnose, open_trace
from hta_widgets.trace.ranks.rank import Rank
job = open_trace(sys.argv[1], progress=False)
seen = set()
def note(frame, event, _):
    names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    if event == "call" and any(isinstance(frame.f_locals.get(name), Rank) for name in names):
        module = frame.f_globals["__name__"]
        if module.startswith(("hta_widgets.analyses", "hta_widgets.diagnosis")):
            seen.add((module, frame.f_code.co_qualname if hasattr(frame.f_code, "co_qualname")
                      else frame.f_code.co_name))
sys.setprofile(note)
diagnose(job)
sys.setprofile(None)
print(len({module for module, _ in seen}), len(seen))
"""
"""Modules and functions above the traces that are called with a rank, of a diagnosis."""


class Tree:
    """The modules of the package below a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.texts = {
            self._name(path): path.read_text(encoding="utf-8")
            for path in sorted((folder / PACKAGE).rglob("*.py"))
        }
        self.trees = {name: ast.parse(text) for name, text in self.texts.items()}

    def _name(self, path: Path) -> str:
        parts = path.relative_to(self.folder).with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__")

    @cached_property
    def imports(self) -> Mapping[str, set[str]]:
        """Modules of the package that each module imports, at any place."""
        return {name: {*self._imports_of(tree)} - {name} for name, tree in self.trees.items()}

    def _imports_of(self, tree: ast.Module) -> Iterator[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
                for each in node.names:
                    inner = f"{node.module}.{each.name}"
                    yield inner if inner in self.texts else str(node.module)
            elif isinstance(node, ast.Import):
                yield from (each.name for each in node.names if each.name in self.texts)
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "LazyModule":
                name = getattr(node.args[0], "value", "")
                yield from [name] if name in self.texts else []

    def numbers(self) -> Iterator[tuple[str, str]]:
        """What is counted, in words, and how much of it there is."""
        lines = sum(text.count("\n") for text in self.texts.values())
        imports = sum(map(_import_lines, self.trees.values()))
        users = Counter(used for modules in self.imports.values() for used in modules)
        yield "files", f"{len(self.texts):,}"
        yield "lines", f"{lines:,}"
        yield "import lines", f"{imports:,} ({100 * imports / lines:.1f} %)"
        yield "modules with one importer", f"{sum(users[name] == 1 for name in self.texts):,}"
        private = Counter(once for tree in self.trees.values() for once in _private_functions(tree))
        yield "private functions called once", f"{private[True]:,} of {private.total():,}"
        for part in PARTS:
            if f"{PACKAGE}.{part}" in self.texts:
                yield (
                    f"{part}: modules and folders, levels, imports between them",
                    self._inner(part),
                )

    def inner(self, part: str) -> Mapping[str, set[str]]:
        """What each module and folder of a part imports of the others."""
        prefix = f"{PACKAGE}.{part}."
        inner: dict[str, set[str]] = defaultdict(set)
        for name, used in self.imports.items():
            if name.startswith(prefix):
                own = name.removeprefix(prefix).split(".")[0]
                others = {
                    each.removeprefix(prefix).split(".")[0]
                    for each in used
                    if each.startswith(prefix)
                }
                inner[own] |= others - {own}
        return inner

    def _inner(self, part: str) -> str:
        inner = self.inner(part)
        edges = sum(map(len, inner.values()))
        try:
            order = [*TopologicalSorter(inner).static_order()]
        except CycleError as error:
            return f"{len(inner)}, a circle ({' → '.join(error.args[1])}), {edges}"
        level: dict[str, int] = {}
        for name in order:
            level[name] = 1 + max((level[each] for each in inner.get(name, ())), default=0)
        return f"{len(inner)}, {max(level.values(), default=0)}, {edges}"


def _import_lines(tree: ast.Module) -> int:
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in found)


def _private_functions(tree: ast.Module) -> Iterator[bool]:
    """Whether each private function of a module is named once in it, beside its definition."""
    names = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    names += Counter(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    for node in ast.walk(tree):
        is_private = isinstance(node, ast.FunctionDef) and node.name.startswith("_")
        if is_private and not node.name.endswith("__"):
            yield names[node.name] == 1


class Walk(NamedTuple):
    """What one rank is handed through in a diagnosis."""

    modules: int
    functions: int

    def __str__(self) -> str:
        return f"{self.modules} modules, {self.functions} functions"


def walk(folder: Path, trace: Path) -> Walk:
    """Diagnose a trace with the package in a folder, and follow a rank."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "HTA_WIDGETS_CACHE": "off"}
    command = [sys.executable, "-c", WALK, str(trace.resolve())]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment, cwd=folder
    )
    return Walk(*map(int, done.stdout.split()))


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks.house", description=__doc__)
    parser.add_argument("revisions", nargs="*", help="what to compare the working tree with")
    parser.add_argument("--walk", type=Path, metavar="TRACE", help="diagnose it, and follow a rank")
    options = parser.parse_args()
    columns = []
    with tempfile.TemporaryDirectory() as scratch:
        folders = [CHECKOUT]
        for revision in reversed(options.revisions):
            command = ["git", "archive", revision, PACKAGE]
            packed = subprocess.run(command, check=True, capture_output=True, cwd=CHECKOUT).stdout
            folders.insert(0, Path(scratch) / revision)
            with tarfile.open(fileobj=BytesIO(packed)) as archive:
                archive.extractall(folders[0], filter="data")
        for folder in folders:
            found = dict(Tree(folder).numbers())
            if options.walk:
                found["a rank is handed through"] = str(walk(folder, options.walk))
            columns.append(found)
    for what in dict.fromkeys(name for found in columns for name in found):
        print(f"| {what} | {' | '.join(found.get(what, '') for found in columns)} |")


if __name__ == "__main__":
    main()
