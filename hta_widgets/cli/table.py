"""``hta-widgets table``: a table of an analysis as CSV, for a spreadsheet or another program."""

from __future__ import annotations

import inspect
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pandas as pd

from hta_widgets import analyses
from hta_widgets.analyses.plain_text import tables_of, with_notices
from hta_widgets.cli.traces import open_given
from hta_widgets.errors import ParameterError
from hta_widgets.terminal import printable, say
from hta_widgets.trace.job import Job

_PLAIN: Final = ("ranks", "steps", "window_ns")


class AskedTable(NamedTuple):
    """A table of an analysis, and what the analysis says."""

    finding: str
    notices: tuple[str, ...]
    name: str
    """Name of the table."""
    table: pd.DataFrame
    others: tuple[str, ...]
    """Names of the other tables of the analysis."""


def names_of_analyses() -> list[str]:
    """Analyses that need nothing but a job."""
    found = {name: getattr(analyses, name) for name in dir(analyses) if name.islower()}
    return [name for name, function in found.items() if _needs_a_job_alone(function)]


def _needs_a_job_alone(function: Callable[..., Any]) -> bool:
    parameters = [*inspect.signature(function).parameters.values()]
    needed = [each.name for each in parameters if each.default is each.empty]
    return needed == ["job"]


def analysis_called(name: str) -> Callable[..., Any]:
    """The analysis of a name; `ParameterError` if there is none."""
    known = names_of_analyses()
    if name not in known:
        msg = f"no analysis is called {name!r}; the analyses are {', '.join(known)}"
        raise ParameterError(msg)
    found: Callable[..., Any] = getattr(analyses, name)
    return found


def ask_table(
    job: Job,
    analysis: str,
    table: str = "",
    *,
    sort: str = "",
    columns: Sequence[str] | None = None,
    options: Mapping[str, Any],
) -> AskedTable:
    """Analyse a job, and choose a table of the result: the first one without a name.

    Its rows are sorted by a column, the largest first, and it has only some columns if these are
    given. `ParameterError` says what there is if anything is called differently.
    """
    function = analysis_called(analysis)
    given = {name: value for name, value in options.items() if value}
    known = inspect.signature(function).parameters
    for name in given:
        if name not in known:
            takes = ", ".join(each for each in _PLAIN if each in known) or "only the whole job"
            msg = f"{analysis} takes no {name}; it takes {takes}"
            raise ParameterError(msg)
    made = function(job, **given)
    tables = tables_of(made)
    name = table or next(iter(tables), "")
    if name not in tables:
        msg = f"{analysis} has no table {table!r}; it has {', '.join(tables) or 'none'}"
        raise ParameterError(msg)
    chosen = _chosen(name, tables[name], sort, columns)
    others = tuple(each for each in tables if each != name)
    return AskedTable(made.finding, tuple(made.notices), name, chosen, others)


def _chosen(
    name: str, table: pd.DataFrame, sort: str, columns: Sequence[str] | None
) -> pd.DataFrame:
    wanted = [*(columns or ()), *([sort] if sort else [])]
    missing = [each for each in wanted if each not in table]
    if missing:
        msg = f"table {name} has no column {missing[0]!r}; it has {', '.join(map(str, table))}"
        raise ParameterError(msg)
    if sort:
        table = table.sort_values(sort, ascending=False, kind="stable")
    return table[[*columns]] if columns else table


def print_table(options: Namespace) -> None:
    """Print a table on the standard output, and what the analysis says on the standard error."""
    analysis_called(options.analysis)  # before the traces are read
    if options.rows is not None and options.rows < 1:
        msg = f"--rows must be at least 1, got {options.rows}; without it, all rows are printed"
        raise ParameterError(msg)
    job = open_given(options.traces, cycle=options.cycle, captures=options.captures)
    asked = ask_table(
        job,
        options.analysis,
        options.table,
        sort=options.sort,
        columns=options.columns.split(",") if options.columns else None,
        options={"ranks": options.ranks},
    )
    shown = asked.table.head(options.rows).copy()
    for name in shown:
        if not pd.api.types.is_numeric_dtype(shown[name]):  # names may hold anything
            texts = shown[name].astype(object)
            shown[name] = texts.map(lambda each: printable(str(each)), na_action="ignore")
    said = with_notices(asked.finding, asked.notices)
    said.append(f"{asked.name}: {len(shown):,} of {len(asked.table):,} rows")
    said += [f"Other tables: {', '.join(asked.others)}"] if asked.others else []
    sys.stderr.write("".join(f"{printable(each)}\n" for each in said))
    say(shown.to_csv(index=False, lineterminator="\n"))
