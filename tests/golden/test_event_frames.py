"""The frames of `TraceAnalysis.t` against digests of those of HTA 0.6.1.

HTA was run with ``HTA_DISABLE_NS_ROUNDING=1``, which leaves fractional times as they are.
"""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha1
from pathlib import Path

import pytest

from hta_widgets import TraceAnalysis

DIGESTS = json.loads((Path(__file__).parent / "hta_frames.json").read_text())

WITHOUT_STREAM_0 = "HTA leaves work on stream 0, the usual one on AMD, out of steps"
OTHER_STEPS = {
    **dict.fromkeys(("mi210_gpu_only", "mi250_toy", "mi300_bert"), WITHOUT_STREAM_0),
    **dict.fromkeys(("mi300_timesformer", "torch_compile", "vllm_piecewise"), WITHOUT_STREAM_0),
    "h100_qwen": "HTA takes a range on the GPU for the mark of a step",
}

WITHOUT_LAUNCH = {"compare_test/1": 614}
"""Work launched before the recording, which HTA leaves out where there are two steps or more."""


def digest_of(frame):
    def text_of(column):
        texts = "\n".join(map(str, frame[column].tolist()))
        return sha1(texts.encode("utf-8", "surrogatepass")).hexdigest()[:12]  # noqa: S324

    counts = {
        column: dict(Counter(map(str, frame[column].tolist())))
        for column in ("s_cat", "collective_name", "iteration")
    }
    times = {"ts": (frame["ts"] - frame["ts"].min()).sum(), "dur": frame["dur"].sum()}
    whole = (
        *("index", "index_correlation", "bytes", "wait_on_stream", "external_id", "python_id"),
        *("in_msg_nelems", "out_msg_nelems", "group_size", "process_rank", "correlation"),
    )
    return {
        "rows": len(frame),
        "cat": counts["s_cat"],
        "collective_name": counts["collective_name"],
        "iteration": counts["iteration"],
        "names": text_of("s_name"),
        "input_dims": text_of("input_dims"),
        **{name: pytest.approx(value, rel=1e-6, abs=1) for name, value in times.items()},
        **{name: int(frame[name].sum()) for name in whole},
    }


@pytest.mark.parametrize("place", DIGESTS)
def test_equal_to_hta(kineto_jobs, place):
    name, rank = place.split("/")
    frame = TraceAnalysis(trace_dir=kineto_jobs[name], progress=False).t.get_trace(int(rank))
    gpu = frame["s_cat"].isin(["kernel", "gpu_memcpy", "gpu_memset"])
    dropped = gpu & (frame["index_correlation"] == 0) if place in WITHOUT_LAUNCH else gpu & False
    assert dropped.sum() == WITHOUT_LAUNCH.get(place, 0)
    ours, expected = digest_of(frame[~dropped]), dict(DIGESTS[place])
    if name in OTHER_STEPS:
        assert ours.pop("iteration") != expected.pop("iteration"), OTHER_STEPS[name]
    assert expected == ours
