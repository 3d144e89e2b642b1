"""ProfilerSteps and the step filter."""

from __future__ import annotations

import pytest

from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, host, kernel, step, write


def analysed_names(tmp_path, events, **options):
    job = open_trace(write(tmp_path / "rank-0.json", events), progress=False, **options)
    table = job.rank(0).trace.events
    kept = [row for row in range(len(table)) if job.rank(0).analysed[row]]
    return job, {table.name.values[table.name.codes[row]] for row in kept}


THREE_STEPS = [step(4, 0, 100), step(5, 100, 100), step(6, 200, 100)]


def test_last_step_is_left_out(tmp_path):
    events = [
        *THREE_STEPS,
        host(150, 1, "in the middle"),
        host(200, 1, "at its start"),
        host(250, 1, "in the last"),
    ]
    job, names = analysed_names(tmp_path, events)
    assert names == {"ProfilerStep#4", "ProfilerStep#5", "in the middle"}
    assert (
        "the last ProfilerStep, 6, is left out (3 events); steps 4-5 are analysed "
        "(open_trace(…, include_last_profiler_step=True) keeps all)" in job.notices[1]
    )


def test_one_step_is_written_as_one(tmp_path):
    job, _ = analysed_names(tmp_path, THREE_STEPS[1:])
    assert any("is left out (1 events); step 5 is analysed (" in each for each in job.notices)


def test_gpu_work_follows_its_launch(tmp_path):
    events = [
        *THREE_STEPS,
        *(call(199, 1, 1), kernel(290, 5, name="late but launched early", correlation=1)),
        *(call(201, 1, 2), kernel(202, 5, name="launched in the last", correlation=2)),
    ]
    _, names = analysed_names(tmp_path, events)
    assert "late but launched early" in names
    assert "launched in the last" not in names


def test_work_without_launch_stays_when_it_starts_before_the_last_step(tmp_path):
    events = [*THREE_STEPS, kernel(199.999, 9, name="before"), kernel(200, 9, name="after")]
    _, names = analysed_names(tmp_path, events)
    assert "before" in names
    assert "after" not in names


def test_include_last_profiler_step(tmp_path):
    events = [*THREE_STEPS, host(250, 1, "in the last"), host(301, 1, "after the last")]
    _, names = analysed_names(tmp_path, events, include_last_profiler_step=True)
    assert "in the last" in names
    assert "after the last" not in names


@pytest.mark.parametrize("steps", [[], THREE_STEPS[:1]])
def test_fewer_than_two_steps_keep_everything(tmp_path, steps):
    events = [*steps, host(500, 1, "anywhere"), kernel(900, 1, name="any time")]
    _, names = analysed_names(tmp_path, events)
    assert names >= {"anywhere", "any time"}


def test_gpu_annotations_and_look_alikes_are_no_steps(tmp_path):
    events = [
        step(1, 0, 10),
        host(50, 10, "ProfilerStep#2", cat="gpu_user_annotation"),
        host(60, 10, "ProfilerStep*", cat="user_annotation"),
        host(90, 1, "anywhere"),
    ]
    job, names = analysed_names(tmp_path, events)
    assert job.rank(0).steps.number.tolist() == [1]
    assert "anywhere" in names


@pytest.mark.parametrize("number", ["9223372036854775808", "1" + 18 * "0", 5000 * "1"])
def test_a_number_that_no_step_has(tmp_path, number):
    job, names = analysed_names(tmp_path, [step(1, 0, 100), host(100, 9, f"ProfilerStep#{number}")])
    assert job.rank(0).steps.distinct == (1,)
    assert len(names) == 2


def test_steps_table(tmp_path):
    job, _ = analysed_names(tmp_path, THREE_STEPS)
    assert job.rank(0).steps.to_frame().to_dict("list") == {
        "step": [4, 5, 6],
        "start_ns": [0, 100_000, 200_000],
        "end_ns": [100_000, 200_000, 300_000],
    }
