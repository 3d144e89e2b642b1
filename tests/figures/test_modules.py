from __future__ import annotations

from hta_widgets.analyses.modules import module_totals, modules, time_by_phase
from hta_widgets.figures import modules as figures
from tests.analyses.generated_jobs import open_job
from tests.analyses.test_attribution import frame
from tests.analyses.test_modules import NET
from tests.kineto_text import call, kernel


def drawn(folder, events, weight="gpu", **options):
    result = modules(open_job(folder, [events]))
    totals = module_totals(result.modules)
    times = time_by_phase(result.modules, totals, weight)
    whole_ns = int(result.modules["gpu_self_ns"].sum() + result.outside["gpu_ns"].sum())
    return figures.modules(totals, times, whole_ns, weight=weight, **options).figure()


def labels(figure):
    return list(figure.layout.yaxis.ticktext)


def test_outer_modules_stand_above_inner_ones(tmp_path):
    figure = drawn(tmp_path, NET)
    assert labels(figure) == ["Net_0", "› Linear_0", "› Linear_1"]
    assert [bar.name for bar in figure.data] == ["Forward", "Backward"]
    assert [list(bar.x) for bar in figure.data] == [[30, 10, 20], [30, 30, 0]]
    assert [row[0] for row in figure.data[0].customdata] == [
        "Net_0",
        "Net_0 › Linear_0",
        "Net_0 › Linear_1",
    ]
    assert "60 µs, 84.5 % of the total" in figure.data[0].hovertext[0]
    assert figure.data[0].meta == {"select": "modules"}


def test_a_selected_module_shows_what_is_inside(tmp_path):
    figure = drawn(tmp_path, NET, levels=1)
    assert labels(figure) == ["Net_0 ▸"]
    assert "2 modules inside: click to open" in figure.data[0].hovertext[0]
    figure = drawn(tmp_path, NET, levels=1, selected=["Net_0"])
    assert labels(figure) == ["Net_0", "› Linear_0", "› Linear_1"]
    assert figure.data[0].selectedpoints == (0,)


def test_small_modules_share_a_row(tmp_path):
    net = [frame(0, 1000, "nn.Module: Net_0")]
    for number in range(50):
        at = 10 * number
        net += [frame(at, 9, f"nn.Module: Layer_{number}"), call(at + 1, 1, number)]
        length = 0.01 if number % 2 else 100 + number
        net.append(kernel(2000 + 200 * number, length, correlation=number))
    figure = drawn(tmp_path, net)
    rows = labels(figure)
    assert rows[0] == "Net_0"
    assert rows[1] == "› Layer_48"
    assert rows[-1] == "› (25 smaller)"
    assert len(rows) == 1 + 25 + 1
    (bars,) = figure.data
    assert abs(sum(bars.x[1:]) - bars.x[0]) < 1e-9
    assert bars.customdata[-1][0] is None


def test_no_more_rows_than_can_be_read(tmp_path):
    net = [frame(0, 5000, "nn.Module: Net_0")]
    for number in range(100):
        at = 20 * number
        net += [frame(at, 9, f"nn.Module: Layer_{number}"), call(at + 1, 1, number)]
        net.append(kernel(9000 + 10 * number, 5, correlation=number))
    figure = drawn(tmp_path, net)
    assert len(labels(figure)) == figures.MOST_ROWS + 1
    assert labels(figure)[-1] == "› (61 smaller)"


def test_idle_time_counts_what_is_inside(tmp_path):
    figure = drawn(tmp_path, NET, "idle")
    by_label = dict(zip(labels(figure), figure.data[0].x, strict=True))
    inner = [time for label, time in by_label.items() if label.startswith("›")]
    assert by_label["Net_0"] >= sum(inner) > 0
