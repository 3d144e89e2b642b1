"""What docs/architecture.md says of adding things, done: each in as few lines as it takes."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import pytest
from traitlets import Float

from hta_widgets.analyses.result import Result
from hta_widgets.figures.base.drawing import Drawing, trace
from hta_widgets.panels import Panel
from hta_widgets.panels.base.controls import Slider
from hta_widgets.panels.base.declarations import parameter
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.model import kernels
from hta_widgets.trace.model.kernels import KernelRules, KernelType
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import kernel, write


@dataclass(frozen=True, kw_only=True, eq=False)
class LongKernels(Result):
    """How many kernels of each rank last longer than a cutoff: ``rank``, ``long``."""

    ranks: pd.DataFrame


def long_kernels(job, ranks=None, *, cutoff=10):
    """Count the kernels that last longer than a cutoff (µs)."""
    chosen = job.select_ranks(ranks)
    counts = job.reduce(count_long, chosen, round(cutoff * 1_000))
    table = pd.DataFrame({"rank": list(counts), "long": list(counts.values())})
    finding = f"{table['long'].sum()} kernels last longer than {cutoff:g} µs."
    return LongKernels(ranks=table, finding=finding, notices=job.notices_for(chosen))


def count_long(rank, cutoff_ns):
    return int((rank.gpu_work.duration_ns > cutoff_ns).sum())


def draw_long_kernels(result):
    bars = trace("bar", x=result.ranks["rank"].to_numpy(), y=result.ranks["long"].to_numpy())
    return Drawing([bars], {})


class LongKernelsPanel(Panel[LongKernels]):
    title = "Long kernels"
    any_number_of_ranks = True

    cutoff: float = parameter(Float(10, min=0), Slider("Longer than", unit="µs", max=500))
    """Shortest kernels that count (µs)."""

    def analyse(self, ranks):
        return long_kernels(self.job, ranks, cutoff=self.cutoff)

    def draw(self, result):
        return {"Long kernels": draw_long_kernels(result)}

    def tabulate(self, result):
        return result.ranks


@pytest.fixture
def job(tmp_path):
    for rank in range(2):
        events = [kernel(20 * i, 5 * (i + 1), name="my_ring_7") for i in range(3 + rank)]
        write(tmp_path / f"rank{rank}.json", events)
    return open_trace(tmp_path, progress=False)


def test_an_analysis_and_its_panel(job):
    panel = LongKernelsPanel(job, ranks=[1])
    assert panel.result.ranks.to_dict("list") == {"rank": [1], "long": [2]}
    panel.selection.ranks = []
    assert panel.table["long"].tolist() == [1, 2]
    assert panel.figures["Long kernels"].data[0].y.tolist() == [1, 2]
    assert panel.result.finding == "3 kernels last longer than 10 µs."


def test_a_control_stands_with_its_trait(job):
    panel = LongKernelsPanel(job)
    _, slider = panel._spec["controls"]
    assert (slider["kind"], slider["name"], slider["label"]) == ("slider", "cutoff", "Longer than")
    assert (slider["min"], slider["max"], slider["unit"]) == (0, 500, "µs")
    panel.set_state({"cutoff": 4, "_req": 1})
    assert panel._view["rev"] == 1
    assert panel._view["finding"] == "7 kernels last longer than 4 µs."
    with pytest.raises(TypeError, match="no parameter cutof; it has"):
        LongKernelsPanel(job, cutof=3)


def test_a_kernel_rule_is_one_pattern(tmp_path, monkeypatch):
    """Own rules are given where a job is opened; built-in ones are a line of `kernels`."""
    table = load_kineto(write(tmp_path / "rank0.json", [kernel(0, 1, name="my_ring_7")]), 0).events
    rows = table.rows_of(*range(4))

    def types(rules=None):
        return KernelRules.from_user(rules).types(table, rows).tolist()

    assert types() == [KernelType.COMPUTATION]
    assert types({"COMMUNICATION": "my_ring"}) == [KernelType.COMMUNICATION]
    names = (*kernels.COMMUNICATION_NAMES, "my_ring")
    monkeypatch.setattr(kernels, "_BUILT_IN", kernels.built_in_rules(names, kernels.MEMORY_NAMES))
    assert types() == [KernelType.COMMUNICATION]
