"""Nothing but events leaves an Nsight Systems export: not to text, cache, log or notebook."""

from __future__ import annotations

import logging

import nbformat
import pytest
from nbclient import NotebookClient

from hta_widgets.panels import Dashboard
from hta_widgets.trace.opening.open import open_trace
from tests import nsys_export
from tests.nsys_export import KERNEL, NVTX, RUNTIME, SESSION, STRINGS

PRIVATE = "hf_51c2_of_the_environment"
HOST = "bastion-51c2.example"

PLANTED = {
    "META_DATA_CAPTURE": [{"name": "PROCESS_0:ENVIRONMENT_VARIABLE", "value": PRIVATE}],
    "TARGET_INFO_SYSTEM_ENV": [{"name": "Hostname", "nameEnum": 1, "value": HOST}],
    "ProcessStreams": [{"globalPid": 1, "filenameId": 4, "contentId": 5}],
    "PROCESSES": [{"globalPid": nsys_export.owner(), "pid": 100, "name": f"train {PRIVATE}"}],
    "ThreadNames": [{"nameId": 5, "priority": 0, "globalTid": 1}],
    "COMPOSITE_EVENTS": [{"id": 1, "start": 9, "globalTid": nsys_export.owner(tid=101)}],
    "SAMPLING_CALLCHAINS": [{"id": 1, "symbol": 3, "module": 4, "stackDepth": 0, "unresolved": 0}],
    "ANALYSIS_FILE": [{"id": 1, "filename": f"/home/{HOST}/secrets", "contentId": 5}],
}
TEXTS = ("gemm", "cudaLaunchKernel_v7000", "step", f"/home/{HOST}/stdout", f"printed {PRIVATE}")


@pytest.fixture(params=["sqlite", "parquetdir"])
def export(request, tmp_path):
    tables = {
        KERNEL: [nsys_export.kernel(at, at + 9, correlation=at) for at in range(10, 2000, 20)],
        RUNTIME: [nsys_export.call(at - 9, at - 1, correlation=at) for at in range(10, 2000, 20)],
        NVTX: [nsys_export.nvtx(0, 3000, textId=3, jsonText=PRIVATE, binaryData=PRIVATE)],
        STRINGS: nsys_export.strings(*TEXTS),
        SESSION: [{"utcEpochNs": 10**18, "utcTime": PRIVATE, "localTime": HOST}],
        **PLANTED,
    }
    if request.param == "sqlite":
        return nsys_export.write_sqlite(tmp_path / "report.sqlite", tables)
    return nsys_export.write_parquetdir(tmp_path / "report_pqtdir", tables)


def test_the_planted_export_holds_them(export):
    files = [export] if export.is_file() else list(export.iterdir())
    content = b"".join(file.read_bytes() for file in files)
    assert PRIVATE.encode() in content
    assert HOST.encode() in content


def test_not_in_the_cache_a_log_or_a_panel(export, cached, caplog):
    with caplog.at_level(logging.DEBUG):
        job = open_trace(export, progress=False)
        dashboard = Dashboard(job)
        assert all(panel.result is not None for panel in dashboard.panels.values())
    texts = [repr(job.rank(0).trace), *job.notices, caplog.text]
    texts += [str(panel.get_state()) for panel in (dashboard, *dashboard.panels.values())]
    texts += [str(dashboard._repr_mimebundle_())]
    kept = b"".join(file.read_bytes() for file in cached.iterdir())
    for said in (PRIVATE, HOST):
        assert not [text for text in texts if said in text]
        assert said.encode() not in kept
    assert b"gemm" in kept


@pytest.mark.parametrize("export", ["sqlite"], indirect=True)  # starting a kernel takes long
def test_not_in_a_saved_notebook(export, tmp_path):
    cells = [
        f"from hta_widgets import Dashboard, open_trace\njob = open_trace({str(export)!r})",
        "Dashboard(job)",
        "job.rank(0).trace.events.to_frame()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    saved = nbformat.writes(notebook)
    assert "gemm" in saved
    assert PRIVATE not in saved
    assert HOST not in saved
