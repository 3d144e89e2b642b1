"""Each number in a sentence of a dashboard is that of its table, and equal names are equal numbers.

One screen once gave one step 33.8 and 46.9 ms, and one wait two prices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from hta_widgets import Dashboard, open_trace
from hta_widgets.analyses import (
    idle_owners,
    memory_bandwidth,
    overlap,
    rank_overlap,
    step_table,
)
from hta_widgets.cli.diagnose.document import document
from hta_widgets.diagnosis.report import report
from hta_widgets.panels.bands.bands import verdict
from hta_widgets.panels.bands.own_panels import OF_DIAGNOSIS as OF_DIAGNOSIS_ALONE
from hta_widgets.panels.every import PANELS
from hta_widgets.quantities import duration, percent
from hta_widgets.sample import write_sample
from tests.analyses.test_timeline import assert_adds_up_to_the_budget
from tests.conftest import KINETO_FOLDERS, REAL_TRACES
from tests.diagnosis.findings.scripts import Host
from tests.diagnosis.replay.test_critical_path import check_recorded
from tests.explained.findings import OF_DIAGNOSIS, explain_verdict
from tests.explained.forms import checked
from tests.explained.panels import explain
from tests.explained.two_jobs import FORMS as FORMS_OF_TWO
from tests.kineto_text import write
from tests.simulator import write_job
from tests.test_all_diagnoses import check_diagnosis

SAMPLE = "sample job"
PLANTED = ("blocking_sync", "workload_imbalance", "host_pause")
SLOW_START = "slow first step"
REAL = {
    path.name: path for each in KINETO_FOLDERS for path in sorted(REAL_TRACES.glob(f"{each}/*"))
}

UNLIKE = (
    *("compare_control", "dlrm_8rank", "h100_qwen", "mi300_bert", "mi300_timesformer"),
    *("sglang_decode_graph", "triton", "vllm_piecewise"),
)
IN_SELECTED_TIME = [
    *(SAMPLE, SLOW_START, "host_pause"),
    *(name for name in REAL if name in UNLIKE),
]
"""Of those that are alike, one: in each, all panels compute three times more."""

OF_SOME_JOBS = ("temporal_breakdown", "collectives", "overlap", "modules", "gpu_annotations")
LEFT_OUT = {
    name: panel
    for name, panel in {**PANELS, **OF_DIAGNOSIS_ALONE}.items()
    if panel.needs_gpu_work or name in OF_SOME_JOBS
}
"""Panels that a dashboard has where there is something to compare or to divide, or GPU work."""

BOUNDS = {"measured": "", "about": "≈", "at most": "≤", "at least": "≥"}
PRICE = re.compile(
    r": (?:at least |about |up to |\S+ \S+ to )?(?P<price>\S+ \S+) of (?:each|the) "
    r"(?P<period>\S+ \S+) "
    r"(?:\w+ )?(?P<noun>step|GPU span) \((?:up to )?(?P<percent>(?:under )?\S+ %)\)"
    r"(?:, if other ranks keep up)?\.$"
)
NS_PER_MS = 1e6


def write_slow_start(folder):
    """A first step that waits for data far longer than the others, which wait for some, too."""
    host = Host()
    for number in range(7):
        with host.step(number):
            host.does("train_dataloader_next", 1000 if number else 9000)
            for _ in range(10):
                host.launch(200)
            host.synchronise()
    return write(folder / "rank-0.json", host.events)


@pytest.fixture(scope="module", params=[SAMPLE, SLOW_START, *PLANTED, *REAL])
def board(request, tmp_path_factory, planted) -> Iterator[Dashboard]:
    name = request.param
    if name in PLANTED:
        folder = planted(name)
    else:
        folder = REAL.get(name) or tmp_path_factory.mktemp("generated")
    if name == SAMPLE:
        write_sample(folder, ranks=2, steps=4, progress=False)
    elif name == SLOW_START:
        write_slow_start(folder)
    with closing(Dashboard(open_trace(folder, progress=False))) as board, ExitStack() as left_out:
        for name, panel in LEFT_OUT.items():  # of one rank or step, or that does not communicate
            if name not in board.panels and board.job.holds(*panel.needs):
                board.panels[name] = left_out.enter_context(closing(panel(board.job)))
        board.compute_all()
        for panel in board.panels.values():
            panel.compute_all()
        yield board


@pytest.fixture(autouse=True)
def everything_is_selected(request):
    """Whatever a test selects: others share its board."""
    yield
    if "board" in request.fixturenames:
        request.getfixturevalue("board").selection.set()


def test_each_sentence_is_explained_by_its_tables(board):
    check_sentences(board)


def test_each_finding_is_explained_by_its_evidence(board):
    found = board.findings
    assert board.panels["diagnosis"].result.finding == found.finding
    assert not explain_verdict(found)
    check_diagnosis(found)


@pytest.mark.parametrize("board", IN_SELECTED_TIME, indirect=True)
def test_in_selected_time(board):
    """Of the sentences, the budget and equal names: panels compute once for all three."""
    if step_table(board.job).steps.empty:
        return
    followers = [name for name, each in board.panels.items() if "window_ns" in each.follows]
    for _ in selected_times(board):
        check_sentences(board, followers)
        check_equal(same_name(board))
        if has_work(board):
            check_budget(board)


def selected_times(board) -> Iterator[None]:
    """Select the last step, then the second third of the time."""
    table = step_table(board.job).steps
    third_ns = int(table["end_ns"].max()) // 3
    steps = [(number,) for number in sorted({*table["step"]} - {-1})[-1:]]
    for number, window_ns in (*((each, None) for each in steps), ((), (third_ns, 2 * third_ns))):
        with board.selection.hold():
            board.selection.steps, board.selection.window_ns = number, window_ns
        yield
    with board.selection.hold():
        board.selection.steps, board.selection.window_ns = (), None
    board.compute_all()  # its bands are those of all of the time for the tests that follow


def check_sentences(board, names=None):
    wrong = []
    for name, panel in board.panels.items():
        if name in OF_DIAGNOSIS or (names is not None and name not in names):
            continue
        assert panel.result is not None
        wrong.append(explain(panel, name, panel.result.finding))
    assert not [*filter(None, wrong)], "\n".join(filter(None, wrong))


def has_work(board):
    return bool(len(board.findings.steps))


def test_a_step_has_one_length(board):
    """That of the job is what prices are of; of its ranks, as in the budget, it is the mean."""
    found = board.findings
    if not has_work(board):
        return
    length, bands = duration(found.step_ns), board._bands
    of_ranks = duration(found.period_ns)
    has_steps = bool((found.steps["step"] >= 0).any())
    assert not found.unrecorded or bands["facts"][-2].endswith(found.unrecorded)
    per_step = f"{length} per step{found.varied}"
    assert bands["facts"][-1] == (per_step if has_steps else f"GPU span of {length}")
    whole = f"{of_ranks} per step" if has_steps else f"{of_ranks} GPU span"
    whose = "a rank's " if found.step_ns > 1.01 * found.period_ns else "the " * (not has_steps)
    whole = f"{whose}{whole}"
    assert verdict(found).endswith(f" of {whole}")
    if not found.shares:
        assert found.status == "cannot_tell"
        return
    lost = f"; {verdict(found)}" if found else ""
    (_, most), (second, share), *_ = found.shares.items()
    known = second != "waiting that nothing recorded explains"
    also = (
        f" of the critical path, {second} {percent(share)})"
        if most < 60 and share and known
        else ""
    )
    pace = found.bound_by.replace(" of the critical path)", also) if also else found.bound_by
    beyond = "".join(f"\n{each}" for each in found.unexplained)
    fine = f"\nfine: {found.fine}" if found.fine else ""
    assert bands["verdict"] == f"{pace}{lost}{beyond}{fine}"
    assert {*found.unexplained} <= {*found.notices}
    marks = (
        "with its next work launched already",
        "launch is not recorded",
        "the host launches late",
        " to gain",
    )
    lost_time = {each for each in found.notices for mark in marks if mark in each}
    assert not found or lost_time <= {*found.unexplained}
    whose = f"; total {of_ranks}"
    if found.step_ns > 1.01 * found.period_ns:
        whose += f" of the {length} from the first rank's start to the last one's end"
    assert bands["budget"]["whose"].endswith(whose)
    for finding in found:
        price = PRICE.search(finding.sentence)
        assert price is None or price["period"] == length
        assert price is None or price["noun"] == ("step" if has_steps else "GPU span")
    for name in ("ranks", "steps"):
        mean_ns = board.panels[name].table["period_ms"].mean() * NS_PER_MS
        assert duration(mean_ns) == of_ranks, name
    text = " ".join(report(found).split())
    assert (f" of {length} " if has_steps else f"a GPU span of {length} ") in f"{text} "
    written = document(found)
    assert written["step_ms"] == pytest.approx(found.step_ns / NS_PER_MS, abs=5e-5)
    assert written["period_ms"] == pytest.approx(found.period_ns / NS_PER_MS, abs=5e-5)


def test_what_is_fine_is_what_the_overlap_says(board):
    found = board.findings
    if "hidden" not in found.fine:
        return
    ranks = overlap(found.job, found.ranks, steps=sorted({*found.steps["step"]})).ranks
    hidden = 1 - ranks["exposed_communication_ns"].sum() / ranks["communication_time_ns"].sum()
    assert found.fine.startswith(f"{percent(100 * hidden)} of the communication is hidden")


def test_the_step_of_the_job_is_that_of_its_ranks_unless_they_begin_apart(board):
    """It lasts from the first start of a rank to the last end."""
    found = board.findings
    if not has_work(board):
        return
    is_one = found.steps["rank"].nunique() == 1
    assert found.step_ns == pytest.approx(found.period_ns) or (
        not is_one and found.step_ns > found.period_ns
    )


def test_the_steps_of_all_analyses_are_the_same(board):
    """The diagnosis counts those that all ranks have; of several GPUs, the busiest one."""
    if not has_work(board):
        return
    keys = ["rank", "step"]
    mine = board.findings.steps.set_index(keys)["period_ns"]
    table = step_table(board.job).steps
    table = table[~table.duplicated(["rank", "step"], keep=False)].set_index(keys)["period_ns"]
    drawn = board.panels["timeline"].result
    lanes = drawn.steps.set_index(keys)
    lanes = lanes["end_ns"] - lanes["start_ns"]
    for other in (table, lanes):
        both = mine.index.intersection(other.index)
        assert len(both)
        assert (mine[both] == other[both]).all()
    covered = drawn.coverage.set_index("rank")["period_ns"]
    assert (covered == lanes.groupby("rank").sum()).all()


def test_the_lanes_of_the_timeline_add_up_to_the_budget(board):
    if has_work(board):
        assert assert_adds_up_to_the_budget(board.job) > 0


def test_the_critical_path_adds_up(board):
    if board.job.has_gpu_work():
        check_recorded(board.job)


def test_a_finding_has_one_price(board):
    found = board.findings
    rows = [*board._bands["findings"]]
    if not found:
        return
    listed = board.panels["diagnosis"]._view["findings"]
    written = document(found)["findings"]
    text = " ".join(report(found).split())
    for each, row, in_panel, in_json in zip(found, rows, listed, written, strict=True):
        assert row["sentence"] == in_panel["sentence"] == in_json["sentence"] == each.sentence
        price = PRICE.search(each.sentence)
        cost = duration(each.recoverable_ms * NS_PER_MS) if each.recoverable_ms > 0 else ""
        assert row["price"] == in_panel["price"] == cost
        assert row["percent"] == (percent(each.percent) if cost else "")
        is_range = price is not None and " to " in price[0]
        assert row["bound"] == (BOUNDS["at most" if is_range else each.bound] if cost else "")
        assert row["cause"].startswith(each.words.cause)
        assert not PRICE.search(row["cause"])
        assert (price["price"] if price else "") == cost
        assert in_json["recoverable_ms"] == pytest.approx(each.recoverable_ms, abs=5e-5)
        assert in_json["lower_ms"] == pytest.approx(each.lower_ms, abs=5e-5)
        assert in_json["bound"] == each.bound
        assert in_json["percent"] == pytest.approx(each.percent, abs=5e-3)
        if price is None:
            continue
        assert price["percent"] == percent(each.percent)
        assert f"{cost} ({percent(each.percent)}): {each.cause}" in text
        share = 100 * each.recoverable_ms * NS_PER_MS / found.step_ns
        assert percent(share) == percent(each.percent)
        assert {*in_json} >= {"cause", "ranks", "steps"}


def test_the_budget_is_the_mean_of_the_tables(board):
    found, band = board.findings, board._bands["budget"]
    if not has_work(board):
        return
    ranks, steps = (board.panels[name].table for name in ("ranks", "steps"))
    parts = {f"{each['name']}_ms": each for each in band["parts"]}
    for table in (ranks, steps):
        classes = [name for name in table if name in parts]
        assert {*classes} == {name for name, each in parts.items() if each["share"]}
        assert table[classes].sum(axis=1).to_numpy() == pytest.approx(table["period_ms"].to_numpy())
        for name in classes:
            ns = table[name].mean() * NS_PER_MS
            whole = table["period_ms"].mean() * NS_PER_MS
            label = parts[name]["label"]
            assert parts[name]["said"] == f"{label}: {duration(ns)}, {percent(100 * ns / whole)}"
    assert sum(each["share"] for each in band["parts"]) == pytest.approx(1)
    no_computation = found.period_ns * (1 - parts.get("compute_ms", {"share": 0})["share"])
    said = f"GPU not computing for {duration(no_computation)} of " if no_computation >= 1 else ""
    assert verdict(found).startswith(said)


def check_budget(board):
    """Of a window, the steps add up to what the ranks have in the mean."""
    board.compute_all()
    band, chosen = board._bands["budget"], board.selection.steps
    ranks, steps = (board.panels[name].table for name in ("ranks", "steps"))
    if ranks.empty:
        assert band["whose"].startswith("no analysed time in ")
        assert not any(part["share"] for part in band["parts"])
        return
    in_step = steps[steps["step"].isin(chosen)] if chosen else steps
    whole_ms = ranks["period_ms"].mean()
    assert in_step["period_ms"].sum() == pytest.approx(whole_ms)
    assert f"; total {duration(whole_ms * NS_PER_MS)}" in band["whose"]
    for part in band["parts"]:
        column = f"{part['name']}_ms"
        ms = ranks[column].mean() if column in ranks else 0.0
        assert ms == pytest.approx(in_step[column].sum() if column in in_step else 0.0)
        text = f"{duration(ms * NS_PER_MS)}, {percent(100 * ms / whole_ms)}"
        assert part["said"] == f"{part['label']}: {text}"


def same_name(board) -> dict[str, list[int]]:
    """What several panels that follow the selected time say of one quantity."""
    found = {name: each.result for name, each in board.panels.items()}
    temporal, overlap = found["temporal_breakdown"].ranks, found["overlap"].ranks
    every, kinds = found["kernel_breakdown"].every_kernel, found["kernel_breakdown"].types
    tree, owners = found["modules"], found["idle_owners"]
    operators, annotations = found["operators"].ranks, found["gpu_annotations"].ranks

    def of_modules(column: str) -> int:
        own = "gpu_self_ns" if column == "gpu_ns" else column
        return tree.modules[own].sum() + tree.outside[column].sum()

    is_first = operators["rank"] == board.job.ranks[0]
    first = operators[is_first]["gpu_ns"].sum()
    return {
        "busy time": [
            (temporal["kernel_time_ns"] - temporal["idle_time_ns"]).sum(),
            kinds["sum_ns"].sum(),
        ],
        "time with computation": [
            temporal["compute_time_ns"].sum(),
            overlap["computation_time_ns"].sum(),
        ],
        "GPU time": [
            operators["gpu_ns"].sum(),
            annotations["gpu_ns"].sum(),
            of_modules("gpu_ns"),
            every["sum_ns"].sum(),
        ],
        "GPU time of the first rank": [first, found["flame"].total_ns]
        if board.panels["flame"].weight == "gpu"
        else [],
        "pieces of GPU work": [temporal["operations"].sum(), every["count"].sum()],
        "exposed communication": [
            overlap["exposed_communication_ns"].sum(),
            of_modules("exposed_communication_ns"),
        ],
        "idle time of owners": [
            owners.devices["idle_ns"].sum(),
            owners.causes["idle_ns"].sum(),
            owners.owners["idle_ns"].sum(),
        ],
        "all idle time": [operators["idle_ns"].sum(), of_modules("idle_ns")],
    }


def same_name_in_all(board) -> dict[str, list[int]]:
    """What panels of all of the time say of one quantity."""
    found = {name: each.result for name, each in board.panels.items()}
    temporal, split = found["temporal_breakdown"].ranks, found["idle_time"].device_split
    every, every_gap = found["kernel_breakdown"].every_kernel, idle_owners(board.job).devices
    launched, kernels = found["launch_stats"].ranks, found["launch_overlap"].ranks
    roofline, owners = found["roofline"].devices, found["idle_owners"].devices
    collectives, lanes = found["collectives"].kernels, rank_overlap(board.job).lanes
    tails = found["duration_tails"].categories
    tails = tails[(tails["rank"] == "all") & (tails["side"] == "device")].set_index("category")
    copies = tails[tails.index.isin(["memcpy", "memset"])]
    work = tails[tails.index == "kernel"]
    of_type = every.groupby("kernel_type")["sum_ns"].sum()
    both_ns = lanes["overlap_ns"].sum()
    quantities = {
        "idle time": [temporal["idle_time_ns"].sum(), split["idle_time_ns"].sum()],
        "GPU span": [
            temporal["kernel_time_ns"].sum(),
            split.drop_duplicates(["rank", "device"])["span_ns"].sum(),
        ],
        "GPU time": [every["sum_ns"].sum(), tails["total_ns"].sum()],
        "pieces of GPU work": [
            every["count"].sum(),
            tails["count"].sum(),
            (launched["operations"] + launched["without_launch"]).sum(),
        ],
        "kernels": [work["count"].sum(), roofline["kernels"].sum(), kernels["kernels"].sum()],
        "kernel time": [work["total_ns"].sum(), roofline["kernel_ns"].sum()],
        "copies and memsets": [
            copies["count"].sum(),
            memory_bandwidth(board.job).transfers["operations"].sum(),
        ],
        "communication kernels": [
            collectives["duration_ns"].sum(),
            of_type.get("COMMUNICATION", 0),
        ],
        "exposed communication": [
            collectives["exposed_ns"].sum(),
            found["overlap"].ranks["exposed_communication_ns"].sum(),
        ],
        "analysed time": [every_gap["window_ns"].sum(), roofline["window_ns"].sum()],
        "all idle time": [every_gap["idle_ns"].sum(), found["operators"].ranks["idle_ns"].sum()],
    }
    if len(temporal) == len(lanes):
        quantities["time with computation"] = [
            lanes["compute_ns"].sum() + both_ns,
            temporal["compute_time_ns"].sum(),
        ]
    if temporal["steps_ns"].all():
        quantities["analysed time"].append(temporal["steps_ns"].sum())
    if has_work(board):
        mine = board.findings.steps
        table = step_table(board.job, board.findings.ranks).steps
        table = table[table["step"].isin(mine["step"])]
        quantities["kernels launched"] = [mine["kernels"].sum(), table["kernels"].sum()]
        quantities["idle time of owners"] = [owners["idle_ns"].sum(), mine["idle_ns"].sum()]
    return quantities


def check_equal(quantities: dict[str, list[int]]) -> None:
    differ = {name: [*map(int, each)] for name, each in quantities.items() if len({*each}) > 1}
    assert not differ


def test_one_name_is_one_number(board):
    check_equal(same_name(board))
    check_equal(same_name_in_all(board))


def pairs(tmp_path):
    """The sample job and one with a slow GPU, and two real ones."""
    yield (
        write_sample(tmp_path / "sample", ranks=4, steps=6, progress=False),
        write_job(tmp_path / "slow", "slow_gpu", ranks=4, steps=6),
    )
    if REAL:
        yield REAL["compare_control"], REAL["compare_test"]


def test_each_sentence_on_two_jobs_is_explained(tmp_path):
    for first, second in pairs(tmp_path):
        one, other = (open_trace(each, progress=False) for each in (first, second))
        for before, after in ((one, other), (other, one), (one, one)):
            with closing(Dashboard(before, compare=after)) as board:
                for name, forms in FORMS_OF_TWO.items():
                    panel = board.panels[name]
                    found = panel.result
                    assert not checked(forms, name, found.finding, found, panel)
