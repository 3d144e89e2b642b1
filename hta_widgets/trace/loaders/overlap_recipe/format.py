"""The format of output folders of the Nsight Systems overlap recipe: how one is recognised."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from hta_widgets.errors import TraceFormatError
from hta_widgets.progress import OnRead
from hta_widgets.trace.loaders.overlap_recipe.load import (
    FILES,
    is_recipe_folder,
    load_nsys_recipe,
    recipe_files,
    recipe_name,
)
from hta_widgets.trace.model.events import Trace
from hta_widgets.trace.model.formats import Format, FoundRank, Recorded

_PARQUET = b"PAR1"
_PREFIX = "type_"
_SUFFIX = ".parquet"
_DESCRIPTION = ".nsys-analysis"


def _matches(path: Path) -> bool:
    if path.is_dir():
        return is_recipe_folder(path)
    with path.open("rb") as file:
        return file.read(len(_PARQUET)) == _PARQUET


def _load(path: Path, rank: int, _process: int | None, on_read: OnRead | None) -> Trace:
    return load_nsys_recipe(path, rank, on_read)


def _find_ranks(path: Path, notices: list[str]) -> list[FoundRank]:
    if not path.is_dir():
        return [_found(path)]
    files, missing = recipe_files(path)
    notices += [f"{name} is listed in files.parquet but missing" for name in missing]
    return [_found(file) for file in files]


def _found(file: Path) -> FoundRank:
    return FoundRank(file, file.stem.removeprefix(_PREFIX))


def _refuse(path: Path) -> None:
    recipe = recipe_name(path) if path.is_dir() else None
    if recipe is not None:
        msg = (
            f"{path} is the output of the Nsight Systems recipe {recipe!r}, which has results but "
            "no events; give the export it was made from (nsys export --type sqlite), or the "
            "output folder of the overlap recipe (files.parquet and type_*.parquet)"
        )
        raise TraceFormatError(msg)


def _is_part(name: str) -> bool:
    is_rank = name.startswith(_PREFIX) and name.endswith(_SUFFIX)
    return is_rank or name == FILES or name.endswith(_DESCRIPTION)


OVERLAP_RECIPE: Final = Format(
    name="NSYS_RECIPE",
    noun="an output folder of the Nsight Systems overlap recipe",
    example="a folder of the overlap recipe",
    matches=_matches,
    load=_load,
    find_ranks=_find_ranks,
    refuse=_refuse,
    lacks=frozenset(Recorded),
    is_part=_is_part,
)
