"""How well the structure of a replay alone tells the length of a step; see `usual_times`.

`tests.golden.test_replay` asks the same of real traces.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hta_widgets.arrays import Float64Array
from hta_widgets.sample import Recording, write_sample
from hta_widgets.trace.opening.open import open_trace
from tests.diagnosis.replay.replayed import replayed
from tests.diagnosis.replay.usual_times import step_errors, usual_weights
from tests.simulator import write_job

CLOSE = 0.01
STEPS = 4

SIMULATED = (
    ("input_starvation", "data_parallel"),
    ("launch_bound", "data_parallel"),
    ("blocking_sync", "sharded"),
    ("allocator_retries", "sharded"),
    ("slow_host_copies", "sharded"),
    ("exposed_communication", "sharded"),
    ("pipeline_bubble", "pipeline"),
    ("expert_imbalance", "experts"),
)


def errors_of(folder: Path) -> Float64Array:
    job = open_trace(folder, progress=False, include_last_profiler_step=True)
    return step_errors(job, replayed(job))


@pytest.mark.parametrize(("cause", "layout"), SIMULATED)
def test_steps_of_a_simulated_job(cause, layout, tmp_path):
    write_job(tmp_path, cause, layout=layout, steps=STEPS)
    errors = errors_of(tmp_path)
    assert errors.size == STEPS
    assert errors.max() <= CLOSE


def test_steps_of_the_sample_job(tmp_path):
    write_sample(tmp_path, ranks=3, steps=STEPS, recording=Recording(), progress=False)
    errors = errors_of(tmp_path)
    assert errors.size == STEPS
    assert errors.max() <= CLOSE


@pytest.mark.parametrize(
    ("left_out", "cause"),
    [
        ("delay", "exposed_communication"),
        ("transfer", "exposed_communication"),
        ("returning", "slow_host_copies"),
    ],
)
def test_the_error_tells_what_is_missing(left_out, cause, tmp_path):
    """Without dependencies, waiting calls or meetings, steps are not what was recorded."""
    write_job(tmp_path, cause, layout="sharded", steps=STEPS)
    job = open_trace(tmp_path, progress=False, include_last_profiler_step=True)
    replay = replayed(job)
    usual, recorded = usual_weights(job, replay), replay.lengths_ns(replay.job.weights)
    nothing = np.full(getattr(usual, left_out).size, -np.inf)
    lengths = replay.lengths_ns(usual.changed(**{left_out: nothing}))
    errors = np.abs(lengths - recorded) / recorded
    assert errors.max() > 3 * step_errors(job, replay).max()
