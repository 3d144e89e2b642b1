"""What modules compute and allocate, of traces that are written by hand; with its limits."""

from __future__ import annotations

import pytest

from hta_widgets.analyses.memory_use import memory_use
from hta_widgets.analyses.modules import module_totals, modules
from hta_widgets.analyses.roofline import roofline
from hta_widgets.panels import ModulesPanel
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_attribution import frame
from tests.analyses.test_memory_use import with_totals
from tests.analyses.test_roofline import launch, operator
from tests.kineto_text import host, step

COSTS = ["flop", "bytes_allocated", "bytes_alive_at_peak"]
MM = 2 * 2 * 3 * 5
FRAMES = [frame(0, 100, "nn.Module: Net_0"), frame(10, 40, "nn.Module: Linear_0")]


def product(ts, **numbers):
    """A matrix product of 2 × 3 and 3 × 5."""
    event = operator(ts, 8, "aten::mm", [[2, 3], [3, 5]])
    return event | {"args": event["args"] | numbers}


SEQUENCE, THREAD = "Sequence number", "Fwd thread id"

NET = [
    *FRAMES,
    *(product(12, **{SEQUENCE: 7}), *launch(13, 10, 1), *launch(15, 10, 2)),
    *(product(60), *launch(61, 10, 3)),
    host(200, 50, "autograd::engine::evaluate_function: MmBackward0", tid=5),
    host(205, 40, "MmBackward0", tid=5) | {"args": {SEQUENCE: 7, THREAD: 1}},
    *(product(210) | {"tid": 5}, launch(211, 10, 4)[0] | {"tid": 5}, launch(211, 10, 4)[1]),
    *(product(300), *launch(301, 10, 5)),
    product(320),
    *with_totals(
        [(5, 7, 1), (13, 100, 2), (62, 30, 3), (302, 400, 4), (303, -400, 4), (350, 1, 5)],
        start=1000,
    ),
    *with_totals([(14, 10**6, 9)], device=(0, -1)),
]


def rows(table, *columns):
    """Rows with any of the costs."""
    return table.loc[table[COSTS].any(axis=1), [*columns, *COSTS]].to_numpy().tolist()


def check_costs(job, result):
    """Tree and outside are all that the roofline and the memory say."""
    whole = {name: result.modules[name].sum() + result.outside[name].sum() for name in COSTS}
    peak = memory_use(job).peak
    of_gpus = peak[peak["device_type"] != "CPU"]
    assert whole == {
        "flop": roofline(job).operators["flop"].sum(),
        "bytes_allocated": of_gpus["allocated_in_all_bytes"].sum(),
        "bytes_alive_at_peak": of_gpus["bytes"].sum(),
    }


def test_a_network(tmp_path):
    """The second launch of a product, and one without GPU work, count nothing more."""
    job = open_job(tmp_path, [NET])
    result = modules(job)
    assert rows(result.modules, "path", "phase") == [
        ["Net_0", "forward", MM, 37, 37],
        ["Net_0 › Linear_0", "forward", MM, 100, 100],
        ["Net_0 › Linear_0", "backward", MM, 0, 0],
    ]
    assert rows(result.outside, "phase") == [
        ["other", MM, 400, 400],
        ["unknown", 0, 1, 1000],
    ]
    check_costs(job, result)
    assert rows(module_totals(result.modules), "name") == [
        ["Net_0", 3 * MM, 137, 137],
        ["Linear_0", 2 * MM, 100, 100],
    ]


def test_windows_add_up_and_have_peaks_of_their_own(tmp_path):
    job = open_job(tmp_path, [NET])
    early, late = (modules(job, window_ns=cut) for cut in [(0, 60_000), (60_000, 10**7)])
    assert rows(early.modules, "path", "phase") == [
        ["Net_0", "forward", 0, 7, 7],
        ["Net_0 › Linear_0", "forward", MM, 100, 100],
    ]
    assert rows(late.modules, "path", "phase") == [
        ["Net_0", "forward", MM, 30, 37],
        ["Net_0 › Linear_0", "forward", 0, 0, 100],
        ["Net_0 › Linear_0", "backward", MM, 0, 0],
    ]


def test_steps_count_by_their_marks(tmp_path):
    marks = [step(1, 0, 55), step(2, 55, 300), step(3, 360, 10)]
    job = open_job(tmp_path, [[*marks, *NET]])
    parts = [modules(job, steps=[number]) for number in (1, 2)]
    summed = [
        sum(int(part.modules[name].sum() + part.outside[name].sum()) for part in parts)
        for name in COSTS[:2]
    ]
    assert summed == [4 * MM, 538]


NO_SHAPES = "FLOP by module: no shapes were recorded (record_shapes=True records them)"
NO_MEMORY = (
    "memory by module: no GPU memory events were recorded (profile_memory=True records them)"
)

NEITHER = (
    "FLOP and memory by module: no shapes and GPU memory events were recorded "
    "(record_shapes=True and profile_memory=True record them)"
)


@pytest.mark.parametrize(
    ("left_out", "notice"),
    [
        ("Input Dims", NO_SHAPES),
        ("Bytes", NO_MEMORY),
        ("", NEITHER),
    ],
)
def test_what_is_missing_is_said(tmp_path, left_out, notice):
    fields = {left_out} if left_out else {"Input Dims", "Bytes"}
    events = [each for each in NET if not ("Bytes" in fields and each["name"] == "[memory]")]
    if "Input Dims" in fields:
        events = [
            each | {"args": {k: v for k, v in each.get("args", {}).items() if "Input" not in k}}
            for each in events
        ]
    job = open_job(tmp_path, [events])
    panel = ModulesPanel(job)
    assert [each for each in panel.result.notices if "by module" in each] == [notice]
    missing = [name for name in COSTS if name not in panel.table]
    assert missing == (COSTS[:1] if "Input Dims" in fields else []) + (
        COSTS[1:] if "Bytes" in fields else []
    )


def test_absurd_shapes_count_nothing(tmp_path):
    events = [*FRAMES, operator(12, 8, "aten::mm", [[2**40, 3], [3, 2**40]]), *launch(13, 10, 1)]
    job = open_job(tmp_path, [events])
    assert modules(job).modules["flop"].sum() == 0
    assert roofline(job).uncounted["reason"].tolist() == ["shapes or types not understood"]


def test_the_table_of_the_panel(tmp_path):
    panel = ModulesPanel(open_job(tmp_path, [NET]))
    columns = {each["name"]: each for each in panel._view["table"]["columns"]}
    headings = [f"{columns[name]['label']} ({columns[name]['unit']})" for name in COSTS]
    assert headings == ["computed (FLOP)", "allocated (B)", "alive at peak (B)"]
    assert columns["path"]["select"] == "modules"
