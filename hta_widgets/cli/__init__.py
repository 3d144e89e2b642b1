"""The command ``hta-widgets``: its subcommands, their options and exit codes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from hta_widgets import __version__
from hta_widgets.cli.cache import clear_cache, describe_cache
from hta_widgets.cli.doctor import report
from hta_widgets.cli.notebook import demo_notebook, notebook_stem, trace_notebook, write_notebook
from hta_widgets.cli.traces import GivenTrace, rank_list, require_cycle, require_second
from hta_widgets.errors import HtaWidgetsError, memory_errors_as_ours
from hta_widgets.lazy_modules import LazyModule
from hta_widgets.recording import add_options
from hta_widgets.sample import write_sample
from hta_widgets.terminal import printable
from hta_widgets.trace.cache.files import cache_folder

if TYPE_CHECKING:
    from hta_widgets.cli import ask, html_report, lab
    from hta_widgets.cli import compare as comparing
    from hta_widgets.cli import diagnose as diagnosing
    from hta_widgets.cli import table as tables
    from hta_widgets.cli.doctor import recordings
else:  # they need pandas, or JupyterLab; so each command names a function of them only when it runs
    ask = LazyModule("hta_widgets.cli.ask")
    comparing = LazyModule("hta_widgets.cli.compare")
    diagnosing = LazyModule("hta_widgets.cli.diagnose")
    html_report = LazyModule("hta_widgets.cli.html_report")
    lab = LazyModule("hta_widgets.cli.lab")
    recordings = LazyModule("hta_widgets.cli.doctor.recordings")
    tables = LazyModule("hta_widgets.cli.table")

USER_ERROR = 2
INTERRUPTED = 130
"""Exit code after Ctrl-C, as in a shell, of the commands that print something about a job."""

_TELL_OF_A_JOB = ("diagnose", "table", "compare", "report", "doctor")
_TRACE_FOLDER = "trace"
_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, or 2 for a user error.

    The arguments default to those of the command line. Commands that print something about a job
    return 130 after Ctrl-C. ``diagnose`` and ``compare``, if asked to fail, return 3 for findings
    or a regression, and 4 if the traces cannot tell.
    """
    parser = _parser()
    if not (sys.argv[1:] if arguments is None else arguments):
        parser.exit(USER_ERROR, parser.format_help())
    options = parser.parse_args(arguments)
    try:
        with memory_errors_as_ours("the command ran"):
            return options.run(options) or 0
    except HtaWidgetsError as error:
        lines = "\n".join(map(printable, error.in_shell(f"hta-widgets {options.command}")))
        sys.stderr.write(f"hta-widgets: {lines}\n")
        return USER_ERROR
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return INTERRUPTED if options.command in _TELL_OF_A_JOB else 0


class _Parser(argparse.ArgumentParser):
    """Accepts no abbreviated options: `diagnose --fail-on` does not mean `--fail-on-findings`."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401
        super().__init__(allow_abbrev=False, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401
        """Report unknown arguments together with the usage of the subcommand."""
        options, unknown = super().parse_known_args(args, namespace)
        return self.error(f"unknown: {' '.join(unknown)}") if unknown else (options, unknown)


def _parser() -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = _Parser(
        prog="hta-widgets", description="Find out why a GPU job is slow, in a notebook."
    )
    parser.add_argument("--version", action="version", version=f"hta-widgets {__version__}")
    commands = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")
    _add_demo(commands)
    _add_open(commands)
    _add_diagnose(commands)
    _add_table(commands)
    _add_comparison(commands)
    _add_baseline(commands)
    _add_report(commands)
    _add_run(commands)
    _add_anonymise(commands)
    _add_mcp(commands)
    skill = commands.add_parser(
        "skill",
        help="print instructions for an assistant, as a skill file",
        description="Print instructions for an assistant, as a skill file: which commands to "
        "run in which order, and what not to conclude.",
    )
    skill.set_defaults(run=_print_skill)
    _add_cache(commands)
    _add_doctor(commands)
    return parser


def _add_demo(commands: _Commands) -> None:
    demo = commands.add_parser(
        "demo",
        help="write a sample job and open its dashboard",
        description="Write the traces of a simulated training job with planted bottlenecks, and "
        "open its dashboard in JupyterLab. Ctrl-C ends it.",
    )
    demo.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path("hta_widgets_demo"),
        metavar="FOLDER",
        help="where to write the traces and the notebook (default: %(default)s)",
    )
    demo.add_argument("--ranks", type=int, default=4, help="number of GPUs (default: 4)")
    demo.add_argument("--steps", type=int, default=5, help="number of training steps (default: 5)")
    demo.add_argument("--events", type=int, help="events per rank (default: about 13000)")
    _add_server_options(demo)
    demo.set_defaults(run=partial(_open_notebook, _prepare_demo))


def _add_open(commands: _Commands) -> None:
    open_ = commands.add_parser(
        "open",
        help="open the dashboard of your traces",
        description="Write a notebook with the dashboard of a job, and open it in JupyterLab. "
        "Ctrl-C ends it.",
    )
    open_.add_argument(
        "traces",
        nargs="+",
        metavar="TRACE",
        help="a folder of traces, or trace files; paths or URLs",
    )
    open_.add_argument(
        "--folder",
        type=Path,
        default=Path(),
        help="where to write the notebook (default: the current folder)",
    )
    _add_cycle(open_)
    _add_captures(open_)
    _add_compare(open_)
    _add_server_options(open_)
    open_.set_defaults(run=partial(_open_notebook, _prepare_open))


def _add_diagnose(commands: _Commands) -> None:
    diagnose = commands.add_parser(
        "diagnose",
        help="print why a job is slow",
        description="Print why a job is slow: causes, affected ranks and steps, cost, what to do.",
    )
    _add_traces(diagnose)
    diagnose.add_argument(
        "--ranks",
        type=rank_list,
        metavar="RANKS",
        help="diagnose only these ranks, such as 0-7,12, still comparing them with all others",
    )
    _add_cycle(diagnose)
    _add_captures(diagnose)
    diagnose.add_argument(
        "--phase",
        metavar="PHASE",
        help="phase of a server: decode, prefill or mixed (default: the one that takes longest)",
    )
    diagnose.add_argument(
        "--last-step",
        action="store_true",
        help="also analyse the last step, which the end of the recording may cut short",
    )
    diagnose.add_argument(
        "--all", action="store_true", help="print all findings in full, and all notices"
    )
    diagnose.add_argument(
        "--json", action="store_true", help="print JSON (docs/diagnosis.schema.json)"
    )
    diagnose.add_argument(
        "--fail-on-findings",
        action="store_true",
        help="exit with 3 if there are findings, with 4 if the traces cannot tell",
    )
    diagnose.add_argument(
        "--baseline",
        metavar="NAME",
        help="also print what changed since this baseline: a name, or an .arrow file",
    )
    _add_baselines(diagnose)
    diagnose.set_defaults(run=lambda options: diagnosing.print_diagnosis(options))  # noqa: PLW0108


def _add_table(commands: _Commands) -> None:
    table = commands.add_parser(
        "table",
        help="print a table of an analysis as CSV",
        description="Print a table of an analysis as CSV; what it says is on the standard error.",
        epilog="example: hta-widgets table operators traces --sort gpu_self_ns --rows 20",
    )
    table.add_argument(
        "analysis", metavar="ANALYSIS", help="such as operators, idle_owners or overlap"
    )
    _add_traces(table)
    table.add_argument("--table", default="", metavar="NAME", help="another of its tables")
    table.add_argument(
        "--sort", default="", metavar="COLUMN", help="sort by a column, the largest value first"
    )
    table.add_argument("--columns", metavar="A,B,…", help="print only these columns")
    table.add_argument("--rows", type=int, metavar="N", help="print only the first rows")
    table.add_argument(
        "--ranks", type=rank_list, metavar="RANKS", help="analyse only these, such as 0-7,12"
    )
    _add_cycle(table)
    _add_captures(table)
    table.set_defaults(run=lambda options: tables.print_table(options))  # noqa: PLW0108


def _add_comparison(commands: _Commands) -> None:
    compare = commands.add_parser(
        "compare",
        help="print what changed between two jobs, and fail if it is worse",
        description="Print what changed from one job to another: whether it is more than noise, "
        "where the time went, and which causes are gone or new. With three jobs or more, a table "
        "compares each with the first.",
        epilog="example: hta-widgets compare before after --fail-on step:2% --fail-on finding",
    )
    compare.add_argument(
        "traces",
        nargs="+",
        metavar="TRACE",
        help="folders or files of two jobs or more, the earliest first; with --baseline, of one; "
        "several recordings of a job as A1,A2,A3",
    )
    compare.add_argument(
        "--baseline", metavar="NAME", help="compare with this baseline: a name, or an .arrow file"
    )
    compare.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="LIMIT",
        help="exit with 3 if the job is worse, with 4 if the traces cannot tell: step:2%%, "
        "kernel:5%%, memory:5%%, finding; may be repeated",
    )
    compare.add_argument(
        "--limits",
        type=Path,
        metavar="FILE",
        help="a file with one such limit per line, and lines such as: allow warm_up",
    )
    compare.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="CAUSE",
        help="a cause that is allowed to be new; may be repeated",
    )
    forms = compare.add_mutually_exclusive_group()
    for form, what in (("json", "JSON"), ("markdown", "Markdown for a pull request")):
        forms.add_argument(
            f"--{form}", action="store_const", const=form, dest="form", help=f"print {what}"
        )
    _add_baselines(compare)
    compare.set_defaults(run=lambda options: comparing.print_change(options), form="text")  # noqa: PLW0108


def _add_baseline(commands: _Commands) -> None:
    baseline = commands.add_parser(
        "baseline",
        help="save baselines that later jobs are compared with",
        description="Save baselines that later jobs are compared with: about 100 kB per job, "
        "without its traces.",
    )
    actions = baseline.add_subparsers(required=True, dest="action", metavar="ACTION")
    for action, names, what in (
        ("save", ("name", "trace"), "write the baseline of a job"),
        ("list", (), "print the names of all baselines"),
        ("show", ("name",), "print what a baseline holds"),
    ):
        parser = actions.add_parser(action, help=what, description=f"{what.capitalize()}.")
        for name in names:
            said = (
                "a name, or an .arrow file"
                if name == "name"
                else "a folder or file of the traces of a job; several recordings of it as A1,A2,A3"
            )
            parser.add_argument(name, metavar=name.upper(), help=said)
        _add_baselines(parser)
        parser.set_defaults(run=lambda options: comparing.keep_baseline(options))  # noqa: PLW0108


def _add_baselines(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--baselines",
        type=Path,
        default=Path("hta_widgets_baselines"),
        metavar="FOLDER",
        help="where baselines are kept by name (default: %(default)s)",
    )


def _add_report(commands: _Commands) -> None:
    report_ = commands.add_parser(
        "report",
        help="write the dashboard to one HTML file",
        description="Write the dashboard to one HTML file that needs no Python and no network.",
        epilog="example: hta-widgets report path/to/traces -o report.html --ranks 0-7",
    )
    _add_traces(report_)
    report_.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="where to write it; an earlier report is replaced (default: %(default)s)",
    )
    report_.add_argument(
        "--ranks",
        type=rank_list,
        metavar="RANKS",
        help="select these ranks, such as 0-7,12 (default: all)",
    )
    _add_cycle(report_)
    _add_captures(report_)
    _add_compare(report_)
    report_.set_defaults(run=lambda options: html_report.write_dashboard(options))  # noqa: PLW0108


def _add_run(commands: _Commands) -> None:
    run = commands.add_parser(
        "run",
        help="run a PyTorch script and record some of its steps",
        description="Run an unmodified PyTorch script and record some of its optimizer steps on "
        "every rank. With torchrun: torchrun ... -m hta_widgets run train.py ...",
        epilog="example: hta-widgets run --wait 20 train.py --lr 1e-3",
    )
    add_options(run, wait=10, warmup=3, active=6)
    run.add_argument(
        "--module", action="store_true", help="SCRIPT is a module name, as with python -m"
    )
    run.add_argument("script", metavar="SCRIPT", help="a Python script")
    run.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    run.set_defaults(run=_record_script)


def _add_mcp(commands: _Commands) -> None:
    mcp = commands.add_parser(
        "mcp",
        help="answer an assistant's questions about traces (Model Context Protocol)",
        description="Answer questions about traces over the Model Context Protocol, on standard "
        "input and output: diagnose, table, window, compare, events. Only the cache is written.",
    )
    mcp.set_defaults(run=lambda _: ask.serve())


def _print_skill(_: argparse.Namespace) -> None:
    sys.stdout.write(Path(__file__).with_name("skill.md").read_text(encoding="utf-8"))


def _add_anonymise(commands: _Commands) -> None:
    anonymise = commands.add_parser(
        "anonymise",
        help="copy traces without private names, to share them",
        description="Copy traces of the PyTorch profiler without private names. Times, shapes and "
        "names that every trace has are kept, so that analyses give the same numbers; all other "
        "names become words, and all other arguments and metadata are left out.",
        epilog="example: hta-widgets anonymise path/to/traces traces_to_share --keep vllm",
    )
    anonymise.add_argument("source", type=Path, metavar="IN", help="a trace, or a folder of them")
    anonymise.add_argument(
        "target", type=Path, metavar="OUT", help="where to write: a file, or a new folder"
    )
    anonymise.add_argument(
        "--key",
        help="secret that the words are made from: with the same key, a name becomes the same "
        "word in every copy (default: a random key for this copy)",
    )
    anonymise.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="NAME",
        help="a package or namespace whose names are public; may be repeated",
    )
    anonymise.add_argument(
        "--keep-kernels", action="store_true", help="keep the names of all kernels"
    )
    anonymise.set_defaults(run=_write_anonymised)


def _add_compare(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--compare",
        metavar="LATER",
        help="compare with a later run (a path or URL), or with a baseline (an .arrow file)",
    )
    command.add_argument(
        "--compare-cycle",
        type=int,
        metavar="N",
        help="compare with this cycle of LATER, or of TRACE if there is no LATER",
    )


def _add_traces(command: argparse.ArgumentParser, number: str = "+") -> None:
    command.add_argument(
        "traces",
        nargs=number,
        metavar="TRACE",
        help="a folder of traces, or trace files of one job; paths or URLs",
    )


def _add_cycle(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--cycle",
        type=int,
        metavar="N",
        help="which of several cycles: 0 is the oldest, -1 the newest (default: the newest)",
    )


def _add_captures(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--captures",
        metavar="PATH",
        help="recordings of the capture of the CUDA graphs that TRACE replays: a file or a folder "
        "(default: those that vLLM and SGLang write next to it)",
    )


def _add_cache(commands: _Commands) -> None:
    what = "show or clear the trace cache"
    cache = commands.add_parser("cache", help=what, description=f"{what.capitalize()}.")
    cache.add_argument("--clear", action="store_true", help="remove all cached traces")
    cache.set_defaults(run=_print_cache)


def _add_doctor(commands: _Commands) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="find out why panels do not show, or whether traces are sound",
        description="Without traces: find out why panels do not show. With traces: print what "
        "each rank's recorder got wrong, and what it did not record.",
    )
    _add_traces(doctor, "*")
    _add_cycle(doctor)
    doctor.set_defaults(run=_print_report)


def _print_report(options: argparse.Namespace) -> None:
    if options.traces:
        recordings.print_recordings(options)
    else:
        sys.stdout.write(report())


def _add_server_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-browser", action="store_true", help="print the address instead of opening a browser"
    )
    parser.add_argument(
        "--port", type=int, help="JupyterLab port (default: 8888 or the next free one)"
    )


def _open_notebook(
    prepare: Callable[[argparse.Namespace], Path], options: argparse.Namespace
) -> None:
    if find_spec("jupyterlab") is None:
        msg = "JupyterLab is not installed: pip install 'hta_widgets[lab]'"
        raise HtaWidgetsError(msg)
    notebook = prepare(options)
    lab.serve(notebook, options.port, in_browser=not options.no_browser)


def _record_script(options: argparse.Namespace) -> None:
    from hta_widgets.recording.script import run_script  # noqa: PLC0415  # needs numpy

    run_script(
        options.script,
        options.arguments,
        lambda said: sys.stderr.write(f"hta-widgets: {printable(said)}\n"),
        is_module=options.module,
        folder=options.folder,
        wait=options.wait,
        warmup=options.warmup,
        active=options.active,
        shapes=options.shapes,
        memory=options.memory,
        stacks=options.stacks,
    )


def _write_anonymised(options: argparse.Namespace) -> None:
    from hta_widgets.export.anonymise.copies import anonymise  # noqa: PLC0415  # needs pandas

    written = anonymise(
        options.source,
        options.target,
        key=options.key,
        keep=options.keep,
        keep_kernels=options.keep_kernels,
    )
    sys.stdout.write("".join(f"wrote {printable(str(path))}\n" for path in written))


def _print_cache(options: argparse.Namespace) -> None:
    folder = cache_folder()
    sys.stdout.write(clear_cache(folder) if options.clear else describe_cache(folder))


def _prepare_demo(options: argparse.Namespace) -> Path:
    write_sample(
        options.folder / _TRACE_FOLDER,
        ranks=options.ranks,
        steps=options.steps,
        events=options.events,
    )
    return write_notebook(options.folder, "first_look", demo_notebook(_TRACE_FOLDER, options.ranks))


def _prepare_open(options: argparse.Namespace) -> Path:
    traces = [GivenTrace.from_argument(given) for given in options.traces]
    later = None if options.compare is None else GivenTrace.from_argument(options.compare)
    require_cycle(traces, options.cycle)
    if later is not None:
        require_second(later, options.compare_cycle)
    elif options.compare_cycle is not None:
        require_cycle(traces, options.compare_cycle)
    captures = None if options.captures is None else GivenTrace.from_argument(options.captures)
    notebook = trace_notebook(
        traces, later, cycle=options.cycle, captures=captures, compare_cycle=options.compare_cycle
    )
    return write_notebook(options.folder, notebook_stem(traces), notebook)
