"""What it costs to read the loss in each step, against the same job without."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hta_widgets import diagnose
from tests.simulator.communication import Network
from tests.simulator.decoder import Decoder
from tests.simulator.plan import Plan, PlannedRecording
from tests.simulator.simulation import write_plan

SHORT_STEPS = Plan(
    layout="sharded",
    ranks=8,
    replicas=2,
    steps=6,
    seed=2,
    layers=6,
    tokens=3_072,
    decoder=Decoder(hidden=1_024, vocabulary=8_192, fused_activation=True),
    network=Network(400),
    recording=PlannedRecording(steps=False),
)


def test_steps_of_5_ms_lose_what_is_said(tmp_path):
    """It looked like a false alarm in a job that was said to be healthy: 3.3 % of its time."""
    made = {}
    for is_late in (False, True):
        folder = tmp_path / str(is_late)
        folder.mkdir()
        plan = replace(SHORT_STEPS, read_loss_late=is_late)
        write_plan(plan, {rank: folder / f"rank-{rank}.json.gz" for rank in plan.files})
        made[is_late] = diagnose(folder)
    (finding,) = made[False]
    lost_ms = (made[False].step_ns - made[True].step_ns) / 1e6
    assert finding.cause == "blocking_sync"
    assert finding.recoverable_ms == pytest.approx(lost_ms, rel=0.05)
    assert "blocking_sync" not in [each.cause for each in made[True]]
