"""No two kernels of one chart, and of one sentence, look alike, whatever they are called."""

from __future__ import annotations

import re
from itertools import chain

from hta_widgets.analyses import compare, kernel_breakdown, kernel_sequences
from hta_widgets.figures import compare as compare_figures
from hta_widgets.figures import kernel_breakdown as kernel_figures
from hta_widgets.figures.kernel_sequences import kernel_sequences as draw_sequences
from hta_widgets.names.readable import distinct_labels
from hta_widgets.panels import TimelinePanel
from hta_widgets.trace_analysis import _kernel_figures
from tests.analyses.generated_jobs import open_job
from tests.diagnosis.findings.test_largest_kernels import said
from tests.kineto_text import call, host, kernel
from tests.panels.test_timeline import ask

ALIKE = [
    f"void ck_tile::flatmm_{'b' * 30}_{tile}_{'b' * 30}fp8_ptp128c::GemmKernel(Params)"
    for tile in ("128x64", "128x128", "64x128")
]
"""They begin and end alike, as those of one library do."""


def launched(names, *, takes=9.0):
    """An operator for each, which launches it between two others, so that all are one pattern."""
    events = []
    for number, name in enumerate(names):
        at = 40 * number
        kernels = ["first", name, "last"]
        events += [host(at, 30, "op")]
        for place, each in enumerate(kernels):
            correlation = 3 * number + place
            events.append(call(at + 3 * place, 1, correlation))
            length = takes + number % 7 if place == 1 else 1
            events.append(kernel(at + 6 * place + 5, length, name=each, correlation=correlation))
    return events


def job_of(folder, *ranks):
    folder.mkdir()
    return open_job(folder, [*ranks])


def labels_of(drawing):
    """Labels on the axes, and of the slices of pies."""
    figure = drawing.figure()
    for axis in (figure.layout.xaxis, figure.layout.yaxis):
        if axis.ticktext is not None:
            yield list(axis.ticktext)
    for trace in figure.data:
        if trace.type == "pie":
            yield list(trace.labels)


def check_charts(folder, names):
    """All charts with a label for each kernel."""
    job = job_of(folder / "one", launched(names), launched(names[::-1]))
    result = kernel_breakdown(job, duration_ratio=1.0, num_kernels=1000)
    drawings = [kernel_figures.top_kernels(result), kernel_figures.top_kernels_of_rank(result, 0)]
    found = kernel_sequences(job, 0, operator_name="op", min_pattern_len=3)
    drawings.append(draw_sequences(found, top_k=1000))
    other = job_of(folder / "other", launched(names, takes=20))
    drawings.append(compare_figures.kernel_changes(compare(job, other), num_kernels=1000))
    counts = []
    for drawing in drawings:
        for labels in labels_of(drawing):
            assert len(set(labels)) == len(labels)
            counts.append(len(labels))
    assert max(counts) >= len(names)
    titles = [title for title, _ in _kernel_figures(result) if title.startswith("Duration of ")]
    assert len(set(titles)) == len(titles)
    check_timeline(job)


def check_timeline(job):
    panel = TimelinePanel(job)
    lanes = [[0, "stream 0 7", 0]]
    end_ns = int(job.rank(0).trace.events.end_ns.max())
    answer, _ = ask(panel, kind="window", id=1, start=0, end=end_ns, pixels=2000, lanes=lanes)
    panel.close()
    names = answer["names"]
    assert len(set(answer["labels"])) == len(names)


def test_labels_of_kernels_that_begin_and_end_alike(tmp_path):
    check_charts(tmp_path, ALIKE)


def test_labels_of_all_real_kernels(tmp_path, real_kernels):
    names = sorted({*chain.from_iterable(real_kernels.values())})
    assert len(names) > 500
    check_charts(tmp_path, names)


def test_a_diagnosis_names_different_kernels(tmp_path):
    """Of those that take most of the time, where only faster kernels help."""
    sentence = said(tmp_path, *ALIKE, *ALIKE[:2], ALIKE[0])
    named = re.findall(
        r"(\S+) \(\d[\d.]* %", sentence.partition("Largest kernels by compute time: ")[2]
    )
    assert len(set(named)) == len(named) == len(ALIKE)


def test_a_comparison_names_different_kernels(tmp_path):
    more, less, _ = ALIKE
    first = job_of(tmp_path / "first", launched([more, less, less]))
    second = job_of(tmp_path / "second", launched([more, more, less]))
    found = re.search(r"increase: (.+?) \(\+.*decrease: (.+?) \(−", compare(first, second).finding)
    assert found[1] != found[2]


TENSILE = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_LBSPP"


def test_a_chart_labels_a_kernel_as_the_table_beside_it_does(tmp_path):
    """Of two drawn GEMMs of Tensile, what told them apart was in the name of a third as well."""
    drawn, other, third = (
        f"{TENSILE}{end}" for end in ("A1024_ULSGRO1", "A512_ULSGRO0", "A1024_ULSGRO0")
    )
    result = kernel_breakdown(
        job_of(tmp_path / "one", launched([drawn, drawn, drawn, other, other, third])),
        duration_ratio=1.0,
        num_kernels=2,
    )
    labels = next(labels_of(kernel_figures.top_kernels(result)))
    assert labels[0] == distinct_labels([drawn, other, third])[0]
    assert labels[0] != distinct_labels([drawn, other])[0]
