"""Simulated jobs with one of the causes planted in them, and healthy ones: no part of the wheel.

`write_job` writes the traces of one; ``python -m tests.simulator --help`` does so by hand. The
machinery is that of the sample job (`hta_widgets.sample`); here is what more it takes:

- `plan`: what a job does, and what the machines that run it are like; the defaults are healthy;
- `causes`: what each cause changes in a plan;
- `decoder`, `layouts`, `worker`: the network, how its work is laid out over the ranks, and the
  training loop with all that can come between its operators;
- `communication`, `process`: gathers, exchanges, sends; graphs, blocking copies, noise;
- `simulation`: from a plan to traces.
"""

from __future__ import annotations

from tests.simulator.causes import CAUSES
from tests.simulator.plan import LAYOUTS
from tests.simulator.simulation import write_job

__all__ = ["CAUSES", "LAYOUTS", "write_job"]
