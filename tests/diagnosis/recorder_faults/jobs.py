"""The jobs that are broken: public traces with GPU work, and simulated jobs of several ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from hta_widgets.sample import write_sample
from hta_widgets.trace.opening.open import open_trace
from tests.conftest import REAL_TRACES
from tests.simulator import write_job

SIMULATED: Final[dict[str, Callable[[Path], object]]] = {
    "sample": lambda folder: write_sample(folder, ranks=4, steps=4, progress=False),
    "simulated/slow_gpu": lambda folder: write_job(folder, "slow_gpu", steps=3),
    "simulated/input_starvation": lambda folder: write_job(folder, "input_starvation", steps=3),
}

REAL: Final = (
    *(
        f"kineto/{name}"
        for name in (
            "alexnet",
            "b200_eager",
            "compare_control",
            "compare_test",
            "ddp_rank1of2",
            "event_sync_multi_stream",
            "h100_bert",
            "h100_qwen",
            "mi210_gpu_only",
            "mi250_toy",
            "mi300_bert",
            "mi300_timesformer",
            "ns_resolution",
            "sglang_capture",
            "sglang_decode_graph",
            "simple_add",
            "torch_compile",
            "triton",
            "vllm_piecewise",
            "vllm_piecewise_capture",
        )
    ),
    "more/dlrm_8rank",
)

JOBS: Final = (*REAL, *SIMULATED)


def files_of(name: str, scratch: Path) -> dict[int, Path]:
    """File of each rank; simulated jobs are written first."""
    folder = REAL_TRACES / name
    if name in SIMULATED:
        folder = scratch / name
        SIMULATED[name](folder)
    job = open_trace(folder, progress=False)
    return {rank: job.sources[rank].path for rank in job.ranks}
