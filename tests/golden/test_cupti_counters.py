"""Performance counters on real traces."""

from __future__ import annotations

import pandas as pd
import pytest

from tests.golden.reference import JOBS, analysis_of, hta_result

METHOD = "get_cupti_counter_data_with_operators"
NOT_OURS = {
    *("stream", "correlation", "bytes", "memory_bw_gbps", "wait_on_stream"),
    *("wait_on_cuda_event_record_corr_id", "input_dims", "input_type", "input_strides"),
    *("external_id", "python_id", "python_parent_id", "collective_name", "in_msg_nelems"),
    *("out_msg_nelems", "msg_dtype", "group_size", "process_rank", "in_split_size"),
    *("out_split_size", "index_correlation", "iteration", "end", "depth", "height", "parent"),
    *("num_kernels", "kernel_dur_sum", "kernel_span", "first_kernel_start", "last_kernel_end"),
}
"""Columns of HTA that say nothing about a measured kernel: arguments that it does not have, filled
with defaults, and inner columns of HTA's call graph. There is no other exception."""


@pytest.mark.parametrize("job", JOBS)
def test_equal_to_hta(job):
    theirs = hta_result(job, METHOD)["items"]
    ours = analysis_of(job).get_cupti_counter_data_with_operators()
    assert len(ours) == len(theirs) == (1 if job == "cupti_counters" else 0)
    for table, expected in zip(ours, theirs, strict=True):
        frame = pd.DataFrame(expected["data"], columns=expected["columns"])
        assert set(frame.columns) - set(table.columns) == NOT_OURS
        order = [name for name in frame.columns if name in table.columns and ".sum" not in name]
        assert [name for name in table.columns if ".sum" not in name] == order
        pd.testing.assert_frame_equal(table, frame[table.columns], check_dtype=False)
