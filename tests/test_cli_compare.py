"""The commands ``compare`` and ``baseline``: what they print, and their exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from hta_widgets import __version__, open_trace
from hta_widgets.cli import compare as module
from hta_widgets.cli import main
from hta_widgets.cli.compare.markdown import markdown, plain
from hta_widgets.cli.compare.report import changed_ms, report
from hta_widgets.diagnosis.change.baseline import write_baseline
from hta_widgets.diagnosis.change.explain_change import explain_change
from hta_widgets.diagnosis.change.gate import assert_no_regression
from hta_widgets.diagnosis.change.summary import summary
from hta_widgets.diagnosis.change.waterfall import LEVELS
from tests.diagnosis.change.made import finding, job_of
from tests.simulator import write_job
from tests.test_cli_report import findings


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A healthy job, and one that waits for data, with baselines of both, which are read sooner."""
    path = tmp_path_factory.mktemp("jobs")
    for name, healthy, seed in (("before", True, 0), ("after", False, 12)):
        write_job(path / name, "input_starvation", healthy=healthy, ranks=2, steps=7, seed=seed)
        write_baseline(summary(open_trace(path / name, progress=False)), path / f"{name}.arrow")
    return path


@pytest.fixture(scope="module")
def asked(folder):
    """Compare the baselines."""
    return ["compare", str(folder / "before.arrow"), str(folder / "after.arrow")]


def test_a_regression_is_explained_and_fails(folder, asked, capsys):
    limits = ["--fail-on", "step:2%", "--fail-on", "finding"]
    assert main(["compare", str(folder / "before"), str(folder / "after")]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Regression\n")
    assert "data loading" in text
    assert "Cause by replay: input_starvation: new" in " ".join(text.split())
    assert "Limits" not in text
    assert main([*asked, *limits]) == 3
    text = capsys.readouterr().out
    assert "Broken limits:\n    - step: " in text
    assert "- finding: input_starvation: new" in text
    assert main([*asked[:1], *asked[:0:-1], *limits]) == 0
    assert "All limits are kept." in capsys.readouterr().out
    assert main([*asked, "--fail-on", "finding", "--allow", "input_starvation"]) == 0
    assert main([*asked, "--fail-on", "memory"]) == 4


def test_limits_are_kept_in_a_file(asked, capsys, tmp_path):
    file = tmp_path / "limits"
    asked = [*asked, "--limits", str(file)]
    file.write_text("finding\nallow input_starvation\n")
    assert main(asked) == 0
    assert main([*asked, "--fail-on", "step:2%"]) == 3
    file.write_text("step:2%\n")
    assert main(asked) == 3
    assert "Broken limits" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("second_ns", "written"),
    [(2_000_501, "+0.001"), (2_000_499, "+0.000"), (1_999_501, "+0.000"), (1_999_499, "−0.001")],
)
def test_a_change_of_nothing_has_no_minus(second_ns, written):
    assert changed_ms(2_000_000, second_ns) == written


def test_help_says_what_a_baseline_is_made_of(capsys):
    with pytest.raises(SystemExit):
        main(["baseline", "save", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "a folder or file of the traces of a job; several recordings of it as A1,A2,A3" in said


def test_several_jobs_are_a_table_against_the_first(folder, asked, capsys):
    asked = [*asked, ",".join([str(folder / "before")] * 2)]
    assert main(asked) == 0
    text = capsys.readouterr().out
    assert text.lstrip().startswith("Of 3 jobs, before has the shortest mean step: ")
    rows = [line.split() for line in text.splitlines()]
    assert [row[-1] for row in rows if row[:1] in (["2"], ["3"])] == ["regression", "noise"]
    assert main([*asked, "--markdown"]) == 0
    assert capsys.readouterr().out.count("| regression |") == 1
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["verdict"] for each in found["changes"]] == ["regression", "noise"]


def test_json_has_every_level_of_the_difference(asked, capsys):
    assert main([*asked, "--json", "--fail-on", "step"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["schema_version"], found["hta_widgets_version"]) == (2, __version__)
    assert found["verdict"] == "regression"
    assert found["limits"]["outcome"] == "regression"
    assert found["delta_ns"] == found["second"]["mean_ns"] - found["first"]["mean_ns"]
    for name in LEVELS:
        level = found["waterfall"][name]
        rows = sum(row["delta_ns"] for row in level["rows"])
        assert rows + level["others"]["delta_ns"] == found["delta_ns"]


def test_a_baseline_stands_for_its_job(folder, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["baseline", "list"]) == 0
    assert "no baselines in hta_widgets_baselines" in capsys.readouterr().out
    assert main(["baseline", "save", "nightly", str(folder / "before")]) == 0
    assert "wrote hta_widgets_baselines" in capsys.readouterr().out
    assert main(["baseline", "list"]) == 0
    assert capsys.readouterr().out == "nightly\n"
    assert main(["baseline", "show", "nightly"]) == 0
    assert "2 ranks (0-1), 6 steps" in capsys.readouterr().out
    against = ["compare", "--baseline", "nightly", "--fail-on", "step", "--markdown"]
    assert main([*against, str(folder / "before")]) == 0
    assert main([*against, str(folder / "after")]) == 3
    assert capsys.readouterr().out.count("### hta-widgets: regression") == 1
    assert main(["baseline", "show", "other"]) == 2
    assert "those in hta_widgets_baselines are: nightly" in capsys.readouterr().err


def test_a_job_is_opened_and_reported_with_a_baseline(folder, capsys, monkeypatch, tmp_path):
    """A baseline was read as a trace by ``open``: none was ever opened with one."""
    monkeypatch.chdir(tmp_path)
    served = []
    monkeypatch.setattr("hta_widgets.cli.find_spec", lambda _: True)
    serving = SimpleNamespace(serve=lambda notebook, *_, **__: served.append(notebook))
    monkeypatch.setattr("hta_widgets.cli.lab", serving)
    after, kept = str(folder / "after"), "hta_widgets_baselines/nightly.arrow"
    assert main(["baseline", "save", "nightly", str(folder / "before")]) == 0
    assert main(["open", after, "--compare", kept]) == 0
    cells = json.loads(served[0].read_text())["cells"]
    opened: dict[str, object] = {}
    monkeypatch.chdir(folder)  # the notebook may be opened from anywhere
    exec("".join(cells[1]["source"]), opened)  # noqa: S102
    assert opened["dash"].compare.name == "before"
    assert opened["dash"].panels["change"].result.verdict == "regression"
    monkeypatch.chdir(tmp_path)
    assert main(["report", after, "--compare", kept, "--output", "report.html"]) == 0
    assert "Wrote report.html" in capsys.readouterr().out
    assert any(each.startswith("Regression") for each in findings(Path("report.html")))
    for command in ("open", "report"):
        capsys.readouterr()
        assert main([command, after, "--compare", kept, "--compare-cycle", "0"]) == 2
        assert "a baseline has no cycles" in capsys.readouterr().err
        Path("broken.arrow").write_text("no baseline")
        assert main([command, after, "--compare", "broken.arrow"]) == 2
        assert "broken.arrow" in capsys.readouterr().err


def test_a_diagnosis_says_what_changed_since_a_baseline(folder, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["baseline", "save", "nightly", str(folder / "before")]) == 0
    assert main(["diagnose", str(folder / "after"), "--baseline", "nightly"]) == 0
    text = capsys.readouterr().out
    assert "Since the baseline: Regression\n\n    before → after\n" in text
    assert main(["diagnose", str(folder / "after"), "--baseline", "nightly", "--json"]) == 2
    assert "--baseline compares all ranks" in capsys.readouterr().err


def test_a_test_fails_where_a_job_is_worse_than_its_baseline(folder, tmp_path):
    assert (
        main(["baseline", "save", "nightly", str(folder / "before"), f"--baselines={tmp_path}"])
        == 0
    )
    change = assert_no_regression(folder / "before", "nightly", folder=tmp_path)
    assert change.verdict == "noise"
    with pytest.raises(AssertionError, match=r"step: .*\nfinding: input_starvation: new.*\nRegr"):
        assert_no_regression(folder / "after", "nightly", folder=tmp_path)
    job = open_trace(folder / "before", progress=False)
    with pytest.raises(AssertionError, match="cannot be checked: memory"):
        assert_no_regression(job, "nightly", limits=["memory"], folder=tmp_path)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["a"], "one path was given: give two"),
        (["a", "b", "--baseline", "x"], "there is no baseline"),
        (["a", "b", "c", "--fail-on", "step"], "limits work for two jobs"),
        (["a", "b", "--limits", "none"], "the limits none cannot be read"),
        (["a", "b", "--fail-on", "all"], "'all' is not a limit"),
        (["a", "b", "--allow", "all"], "no cause is called 'all'"),
        (["a", "b"], "does not exist"),
    ],
)
def test_what_cannot_be_asked_is_said(asked, said, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *asked]) == 2
    assert said in capsys.readouterr().err


def test_an_interrupt_has_its_own_exit_code(monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_opened", interrupted)
    assert main(["compare", "a", "b"]) == 130


def test_names_of_a_trace_are_text_in_every_form():
    name = "<img src=x>\x1b[31m|`@all`\nhttp://x"
    rows = [("compute", name, name, name, 10_000_000)]
    more = [("compute", name, name, name, 20_000_000)]
    change = explain_change(job_of(rows), replace(job_of(more), findings=(finding("slow_gpu", 9),)))
    for text in (report(change), markdown(change)):
        assert "\x1b" not in text
    shown = markdown(change)
    assert shown.count("<img") == shown.count(r"\<img") > 0
    assert "http://" not in shown
    assert "\n|`" not in shown
    assert plain("a|b<c") == r"a\|b\<c"


def test_markdown_fits_a_comment():
    rows = [("compute", f"m{i}" * 40, f"o{i}" * 40, f"k{i}" * 40, 10**6) for i in range(300)]
    findings = tuple(finding(f"cause{i}", 1.0) for i in range(30))
    change = explain_change(job_of(rows), job_of(rows * 2, findings=findings))
    assert len(markdown(change)) < 10_000
    assert "- and 20 more" in markdown(change)
