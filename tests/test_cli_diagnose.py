"""``hta-widgets diagnose``: what it prints, and how it ends."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema
import numpy as np
import pandas as pd
import pytest

from hta_widgets import cli, diagnose, open_trace
from hta_widgets.analyses.communication.partition import PARTS
from hta_widgets.cli.diagnose.document import _mean_step_by_rank as mean_step_by_rank
from hta_widgets.cli.diagnose.document import json_text
from hta_widgets.diagnosis import CAUSES, Diagnosis, Finding, NotRecorded
from hta_widgets.diagnosis.finding import Advice
from hta_widgets.diagnosis.report import report
from hta_widgets.sample import write_sample
from hta_widgets.terminal import say
from hta_widgets.trace.job import Job
from tests.kineto_text import call, host, kernel, step, write
from tests.server_loops import OF_INFERENCE
from tests.simulator import write_job

SCHEMA = json.loads(
    (Path(__file__).parents[1] / "docs" / "diagnosis.schema.json").read_text(encoding="utf-8")
)
HOSTILE = "</pre><script>`*[x](y)\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\n# head @all #1"


@pytest.fixture(scope="module")
def starved(planted: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(planted("input_starvation"), tmp_path_factory.mktemp("jobs") / "starved")


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs") / "healthy"
    write_job(folder, "input_starvation", healthy=True)
    return folder


def said(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    assert cli.main(["diagnose", *map(str, arguments)]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return out


def unwrapped(text: str) -> str:
    return " ".join(text.split())


def eight_ranks() -> Diagnosis:
    """Ten findings in eight ranks, with names and notices of any length."""
    gaps = (f"gap_{letter}" for letter in "abcdefgh")
    columns = ("own", "period", "host", *PARTS, *gaps)
    steps = [
        {"rank": rank, "step": number, **{f"{name}_ns": 123_456_789 for name in columns}}
        for rank in range(8)
        for number in range(100, 110)
    ]
    evidence = {
        **{f"number_{n}_ms": 1234.56789 for n in range(6)},
        "kernels": pd.DataFrame({"kernel": ["k" * 500] * 50, "mean_ms": [float("nan")] * 50}),
        "name": HOSTILE * 20,
        "count": np.int64(7),
    }
    findings = tuple(
        Finding(
            cause=cause,
            ranks=tuple(range(8)),
            steps=tuple(range(100, 110)),
            sentence=("rank 3 " * 40)[:240],
            recoverable_ms=1234.56789,
            lower_ms=1234.56789,
            percent=99.12345,
            advice=(Advice("Do something about it, " * 6, "do(something=True)\n" * 3),) * 3,
            evidence=evidence,
        )
        for cause in CAUSES[:10]
    )
    lack = NotRecorded("Operators are", "something " * 8, "record " * 12)
    return Diagnosis(
        findings=findings,
        steps=pd.DataFrame(steps),
        job=hostile_job(),
        ranks=tuple(range(8)),
        period_ns=123_456_789.0,
        step_ns=123_456_789.0,
        bound_by="bound by the host (100 % of the critical path)",
        shares={"the host": 100.0, "the GPU": 0.0, "communication": 0.0, "data loading": 0.0},
        joint_ms=2345.6789,
        explained_percent=99.5,
        unmatched_percent=0.0,
        not_recorded=(lack,) * 4,
        finding=findings[0].sentence,
        notices=(lack.sentence, *("notice " * 100,) * 30),
        left_out_steps=(),
        status="findings",
    )


@cache
def hostile_job() -> Job:
    """Eight ranks with names of any length and content."""
    with TemporaryDirectory() as folder:
        for rank in range(8):
            work = kernel(10, 5, correlation=1, name=HOSTILE * 20)
            events = [host(0, 9, HOSTILE * 20), call(1, 5, 1), work, kernel(90, 5)]
            write(Path(folder) / f"rank-{rank}.json", events)
        job = open_trace(folder, progress=False).load(progress=False)
    job.name = HOSTILE * 20
    return job


def test_findings_as_text(starved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, starved)
    found = diagnose(starved)[0]
    assert text.startswith(
        "1 finding\n\n    starved (training): ranks 0-3, steps 10-13 of 40.8 ms\n"
    )
    assert "1. ≤ 14.1 ms (34.6 %): input_starvation, all ranks, every step\n" in text
    assert f"{found.sentence} What to do: {found.action}" in unwrapped(text)
    assert "the last ProfilerStep, 14, is left out" in unwrapped(text.partition("Notices:")[2])
    assert max(map(len, text.splitlines())) <= 80


def test_a_finding_without_a_price_names_none() -> None:
    diagnosis = eight_ranks()
    unpriced = replace(diagnosis[0], recoverable_ms=0.0, percent=0.0)
    text = report(replace(diagnosis, findings=(unpriced,)))
    assert f"    1. {unpriced.cause}, all ranks, " in text
    assert "(0 %)" not in text


def test_a_healthy_job_is_told_in_one_sentence(
    healthy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(capsys, healthy)
    assert text.startswith("No finding\n")
    verdict, _, to_try = text.partition("What to try: the GPU is the bottleneck")
    assert "GPU-bound: computing takes " in verdict
    assert "Otherwise, nothing stands out: none of " in " ".join(verdict.split())
    assert "What to do" not in verdict
    assert "is the largest kernel" in " ".join(to_try.split())


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_findings_fail_only_where_asked(
    starved: Path, healthy: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    gate = [*options, "--fail-on-findings"]
    assert said(capsys, starved, *gate, code=3) == said(capsys, starved, *options)
    said(capsys, healthy, *gate)


def test_some_ranks(starved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "starved (training): ranks 0, 2-3, steps" in said(capsys, starved, "--ranks", "0,2-3")
    found = json.loads(said(capsys, starved, "--ranks", "2", "--json"))
    assert found["ranks"] == [2]
    assert [row[0] for row in found["mean_step_by_rank"]["rows"]] == [2]


def test_several_files_are_one_job(starved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [starved / f"rank-{rank}.json.gz" for rank in (0, 1)]
    assert "ranks 0-1, steps" in said(capsys, *files)


@pytest.mark.parametrize("ranks", ["", "3-1", "a", "1,,2", "0-99999999", "-1", "\u0661"])
def test_ranks_that_are_none(starved: Path, ranks: str) -> None:
    with pytest.raises(SystemExit) as exit_info:
        cli.main(["diagnose", str(starved), f"--ranks={ranks}"])
    assert exit_info.value.code == 2


def test_errors_are_one_line_and_code_2(
    starved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, words in (
        ([starved, "--ranks", "9"], "rank 9 is not in this job; its ranks are 0-3"),
        ([tmp_path / "no\x1b[31m\n"], "/no?[31m? does not exist"),
        ([tmp_path], "has no trace"),
    ):
        assert cli.main(["diagnose", *map(str, arguments)]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert words in err
        assert err.count("\n") == 1


def test_an_interrupt_is_no_healthy_job(
    starved: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hta_widgets.cli.diagnose.diagnose", interrupted)
    assert cli.main(["diagnose", str(starved), "--fail-on-findings"]) == 130
    assert capsys.readouterr() == ("", "\n")


def test_json_follows_its_schema(
    starved: Path, healthy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for folder in (starved, healthy):
        document = json.loads(said(capsys, folder, "--json"))
        jsonschema.validate(document, SCHEMA)
        assert [*document] == SCHEMA["required"]
    assert SCHEMA["required"] == [*SCHEMA["properties"]]
    assert SCHEMA["$defs"]["finding"]["properties"]["cause"]["enum"] == [*CAUSES]


def test_json_holds_the_findings_and_the_mean_step_of_each_rank(
    starved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(said(capsys, starved, "--json"))
    diagnosis = diagnose(starved)
    assert document["verdict"] == diagnosis.finding
    assert document["steps"] == [10, 11, 12, 13]
    (found,) = document["findings"]
    first = diagnosis.proof(diagnosis[0]).windows.iloc[0]
    seen = found.pop("seen")
    assert seen.pop("percent") == pytest.approx(first["percent"], abs=0.01)
    assert seen == {**first[["start_ns", "end_ns"]], "ranks": [*first["ranks"]]}
    assert {**found, "evidence": {}} == {**diagnosis[0].to_dict(), "evidence": {}}
    assert found["evidence"].keys() == diagnosis[0].evidence.keys()
    for name, value in diagnosis[0].evidence.items():
        shown = found["evidence"][name]
        if isinstance(value, pd.DataFrame):
            assert (shown["columns"], shown["row_count"]) == ([*value], len(value))
        else:
            assert shown == (value if isinstance(value, str) else pytest.approx(value, rel=1e-5))
    table = document["mean_step_by_rank"]
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert [row["rank"] for row in rows] == [0, 1, 2, 3]
    for row in rows:
        assert sum(row[f"{part}_ms"] for part in PARTS) == pytest.approx(row["period_ms"], abs=1e-3)
        gaps = sum(value for name, value in row.items() if name.startswith("gap_"))
        assert gaps == pytest.approx(row["idle_ms"], abs=1e-3)
        of_rank = diagnosis.steps[diagnosis.steps["rank"] == row["rank"]]
        assert row["own_ms"] == pytest.approx(of_rank["own_ns"].mean() / 1e6, abs=1e-4)


def test_json_of_a_server_says_its_lead_in_and_what_captures_have(
    real_traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kineto = real_traces / "kineto"
    options = ("--captures", kineto / "sglang_capture", "--json")
    document = json.loads(said(capsys, kineto / "sglang_decode_graph", *options))
    jsonschema.validate(document, SCHEMA)
    assert document["lead_in_ms"] == pytest.approx(463.38, abs=0.01)
    assert document["captures"] == {"replays": 1, "joined": 1}


def test_json_of_a_phase_says_it_in_each_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "rank-0.json", OF_INFERENCE["prefill_stall"](healthy=False))
    document = json.loads(said(capsys, tmp_path, "--json"))
    jsonschema.validate(document, SCHEMA)
    assert document["phase"] == "decode"
    assert [(each["cause"], each["phase"]) for each in document["findings"]] == [
        ("prefill_stall", "decode")
    ]


def test_json_of_eight_ranks_is_short_and_ascii() -> None:
    text = json_text(eight_ranks())
    document = json.loads(text)
    jsonschema.validate(document, SCHEMA)
    assert len(text.encode()) <= 20_000
    assert text.isascii()
    assert "\x1b" not in text
    assert all(char == "\n" or char.isprintable() for char in text)
    first, fourth = document["findings"][0], document["findings"][3]
    assert first["evidence"]["kernels"]["row_count"] == 50
    assert first["evidence"]["kernels"]["rows"][0][1] is None
    assert first["evidence"]["count"] == 7
    assert "kernels" not in fourth["evidence"]


def test_json_of_many_ranks_has_those_that_need_most() -> None:
    diagnosis = eight_ranks()
    steps = diagnosis.steps.head(1).loc[[0] * 100].assign(rank=range(100), own_ns=range(100))
    table = mean_step_by_rank(replace(diagnosis, steps=steps))
    assert [row[0] for row in table["rows"]] == [*range(84, 100)]
    assert table["row_count"] == 100


def test_names_of_a_trace_reach_neither_terminal_nor_markdown() -> None:
    diagnosis = eight_ranks()
    hostile = replace(diagnosis[0], sentence=HOSTILE, advice=(Advice(HOSTILE, HOSTILE),))
    text = report(
        replace(diagnosis, findings=(hostile, *diagnosis[1:]), notices=(HOSTILE, HOSTILE * 90))
    )
    assert all(char == "\n" or char.isprintable() for char in text)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[:2] == ["10 findings", ""]
    assert all(not line or line.startswith("    ") for line in lines[2:])


def test_the_first_three_findings_are_told_and_the_others_named() -> None:
    text = report(eight_ranks())
    assert text.count("What to do:") == 3
    assert "And, at lower cost:" in text
    assert f"    10. 1.23 s (99.1 %): {CAUSES[9]}, all ranks, every step" in text
    assert "- and 20 more: job.notices has them" in text


def test_the_command_names_the_option_that_has_all() -> None:
    text = report(eight_ranks(), in_shell=True)
    assert "    And, at lower cost (--all shows them in full):\n" in text
    assert "- and 20 more: --all has them" in text
    text = report(eight_ranks(), in_full=True, in_shell=True)
    assert text.count("What to do:") == 10
    assert text.count("- notice ") == 30
    assert "--all" not in text


def test_the_sign_of_a_price_stands_before_it() -> None:
    first, *others = eight_ranks()
    for bound, sign in (("measured", ""), ("at most", "≤ "), ("at least", "≥ "), ("about", "≈ ")):
        text = report(replace(eight_ranks(), findings=(replace(first, bound=bound), *others)))
        assert f"    1. {sign}1.23 s (99.1 %): " in text
    open_ended = replace(first, lower_ms=0.9 * first.recoverable_ms)
    text = report(replace(eight_ranks(), findings=(open_ended, *others)))
    assert "    1. ≤ 1.23 s (99.1 %): " in text


def test_the_last_step_is_kept_by_an_option_that_the_notice_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_sample(tmp_path, ranks=1, steps=4, progress=False)
    text = unwrapped(said(capsys, tmp_path))
    assert "is left out" in text
    assert "(--last-step keeps all)" in text
    text = unwrapped(said(capsys, tmp_path, "--last-step", "--all"))
    assert "is left out" not in text
    steps = json.loads(said(capsys, tmp_path, "--json"))["steps"]
    all_steps = json.loads(said(capsys, tmp_path, "--json", "--last-step"))["steps"]
    assert all_steps == [*steps, steps[-1] + 1]


def test_no_line_begins_with_a_unit() -> None:
    diagnosis = eight_ranks()
    for length in range(40):
        sentence = (
            f"{'x' * length} takes 12.3 ms of 4 GB at 5.67 GB/s, 99.9 %, of each 1 s step " * 2
        )
        finding = replace(diagnosis[0], sentence=sentence)
        lines = [
            line.split() for line in report(replace(diagnosis, findings=(finding,))).splitlines()
        ]
        assert not {line[0] for line in lines if line} & {"ms", "GB", "GB/s,", "%,", "%", "s"}
        assert unwrapped(sentence) in " ".join(word for line in lines for word in line)


def test_an_inconclusive_finding_and_one_of_changing_ranks() -> None:
    diagnosis = eight_ranks()
    findings = tuple(
        replace(each, ranks=(), steps=(), confidence="inconclusive") for each in diagnosis[:1]
    )
    text = report(replace(diagnosis, findings=findings))
    assert f"{CAUSES[0]}, a different rank in each step, inconclusive\n" in text


def test_what_is_not_recorded_is_said_with_how_to_record_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nccl = kernel(20, 10, name="ncclDevKernel_AllReduce", correlation=2)
    events = [call(0, 1, 1), kernel(5, 10, correlation=1), call(2, 1, 2), nccl]
    trace = write(tmp_path / "rank-0.json", events)
    text = unwrapped(said(capsys, trace))
    assert "a GPU span of 25 µs" in text or "a GPU span of 30 µs" in text
    for words in ("Step marks", "Operators are", "Process groups", "Ranks other than 0"):
        assert f"- {words}" in text
    document = json.loads(said(capsys, trace, "--json"))
    jsonschema.validate(document, SCHEMA)
    assert document["steps"] == []
    assert len(document["not_recorded"]) == 4
    assert not {each.sentence for each in diagnose(trace).not_recorded} & {*document["notices"]}


@pytest.mark.parametrize("events", [[], [host(0, 5, "aten::mm")], [step(1, 0, 9), step(2, 9, 9)]])
def test_a_trace_without_gpu_work(
    tmp_path: Path, events: list[dict[str, object]], capsys: pytest.CaptureFixture[str]
) -> None:
    trace = write(tmp_path / "rank-0.json", events)
    text = unwrapped(said(capsys, trace, "--fail-on-findings", code=4))
    assert text.startswith("No GPU work ")
    assert "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] records both" in text
    of_operators = "Of 5 µs of CPU time in operators: - 5 µs (100 %): aten::mm, 1 call"
    assert (of_operators in text) == any(event["cat"] == "cpu_op" for event in events)
    assert ("No operators or ranges were recorded, either." in text) == (of_operators not in text)
    document = json.loads(said(capsys, trace, "--json"))
    jsonschema.validate(document, SCHEMA)
    assert (document["status"], document["kind"]) == ("no_gpu_work", "CPU only")
    assert document["host_ns"] is None
    assert document["mean_step_by_rank"]["rows"] == []
    assert document["cpu_work"]["operators_ms"] == pytest.approx(0.005 * (of_operators in text))


def test_no_jupyter_is_imported(starved: Path) -> None:
    code = (
        "import sys; from hta_widgets.cli import main;"
        f"main(['diagnose', {str(starved)!r}]);"
        "print(sorted({'plotly', 'ipywidgets', 'anywidget', 'IPython', 'traitlets', 'jsonschema'}"
        " & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert done.stderr == ""


def test_characters_that_the_output_lacks_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    say("5 µs\n")
    sys.stdout.flush()
    assert written.getvalue() == b"5 \\xb5s\n"


def test_times_hold_for_a_job_that_is_open(starved: Path) -> None:
    assert diagnose(open_trace(starved, progress=False)).period_ns == pytest.approx(
        40.8e6, rel=0.01
    )


def test_hostile_names_in_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the job, of kernels, operators and data loaders; and the data loader is slow."""
    name, events = HOSTILE.replace("/", "|"), []
    for number in range(4):
        begin, correlation = 20_000 * number, number + 1
        loader = host(begin + 100, 9_000, f"DataLoader{HOSTILE}.__next__", cat="user_annotation")
        operator = host(begin + 9_200, 500, HOSTILE)
        launch = call(begin + 9_300, 10, correlation, name=f"cudaLaunchKernel{HOSTILE}")
        work = kernel(begin + 9_400, 10_000, name=f"gemm{HOSTILE}", correlation=correlation)
        events += [step(number, begin, 20_000), loader, operator, launch, work]
    folder = tmp_path / name
    folder.mkdir()
    write(folder / "rank-0.json", events)
    text = said(capsys, folder, "--fail-on-findings", code=3)
    assert "input_starvation, every step" in text
    assert all(char == "\n" or char.isprintable() for char in text)
    assert max(map(len, text.splitlines())) <= 80
    assert all(not line or line.startswith("    ") for line in text.splitlines()[2:])
    document = json.loads(said(capsys, folder, "--json"))
    jsonschema.validate(document, SCHEMA)
    assert document["job"] == name


def slow_at_first(folder: Path) -> Path:
    """Steps of 10 ms that load data for 4 ms, but the first: it takes 100 ms, nobody knows why."""
    events, clock = [], 0
    for number, length in enumerate((100_000, 10_000, 10_000, 10_000, 10_000)):
        events += [step(number, clock, length), host(clock, 4_000, "enumerate(DataLoader)#next")]
        events += [call(clock + length - 5_900, 5, number)]
        events += [kernel(clock + length - 5_800, 5_700, correlation=number, name="gemm")]
        clock += length
    return write(folder / "rank-0.json", events)


def test_a_slow_first_step_is_named_and_percents_are_of_the_mean_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(said(capsys, slow_at_first(tmp_path), "--json"))
    jsonschema.validate(document, SCHEMA)
    assert document["left_out_steps"] == [0]
    assert document["steps"] == [0, 1, 2, 3]
    assert document["period_ms"] == pytest.approx(130 / 4, rel=0.02)
    named = [each for each in document["notices"] if each.startswith("step 0 took ")]
    assert len(named) == 1 or any(each["steps"] == [0] for each in document["findings"])
    loading = [each for each in document["findings"] if each["cause"] == "input_starvation"]
    assert [each["recoverable_ms"] for each in loading] == [pytest.approx(4, rel=0.1)]
    check_percents(document)


def check_percents(document: dict[str, Any]) -> None:
    for each in document["findings"]:
        share = 100 * each["recoverable_ms"] / document["step_ms"]
        assert each["percent"] == pytest.approx(share, abs=0.02)
        assert len(each["sentence"]) <= 260


def check_document(job: Job) -> None:
    document = json.loads(json_text(diagnose(job)))
    jsonschema.validate(document, SCHEMA)
    check_percents(document)
    assert (document["status"] == "findings") == bool(document["findings"])
    if document["status"] in ("findings", "healthy"):
        assert document["kernels"]["rows"]
        assert document["host_ns"] >= 0


def test_status_and_exit_code(
    tmp_path: Path, starved: Path, healthy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unseen = [host(0, 100_000, "aten::mm"), call(1, 5, 1), kernel(10, 20_000, correlation=1)]
    unseen += [call(40, 5, 2), kernel(90_000, 10_000, correlation=2)]
    cases = {
        "findings": (starved, 3),
        "healthy": (healthy, 0),
        "cannot_tell": (write(tmp_path / "rank-0.json", unseen), 4),
    }
    for status, (trace, code) in cases.items():
        document = json.loads(said(capsys, trace, "--json", "--fail-on-findings", code=code))
        assert document["status"] == status


def test_help_has_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["diagnose", "--help"])
    said_of_option = unwrapped(capsys.readouterr().out)
    assert "exit with 3 if there are findings, with 4 if the traces cannot tell" in said_of_option
