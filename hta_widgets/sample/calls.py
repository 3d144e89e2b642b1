"""The CUDA calls of the simulated processes, and how long each takes the CPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class CudaCall:
    """A CUDA call; ``number`` is CUPTI's callback id of the function."""

    name: str
    category: str
    number: int
    duration_ns: int
    issues_work: bool = False


_CALLS = (
    CudaCall("cudaLaunchKernel", "cuda_runtime", 211, 4_700, issues_work=True),
    CudaCall("cudaLaunchKernelExC", "cuda_runtime", 430, 8_500, issues_work=True),
    CudaCall("cuLaunchKernelEx", "cuda_driver", 652, 5_200, issues_work=True),
    CudaCall("cudaGraphLaunch", "cuda_runtime", 311, 21_000, issues_work=True),
    CudaCall("cudaMemcpyAsync", "cuda_runtime", 41, 9_500, issues_work=True),
    CudaCall("cudaMemsetAsync", "cuda_runtime", 51, 5_000, issues_work=True),
    CudaCall("cudaEventRecord", "cuda_runtime", 135, 1_000),
    CudaCall("cudaEventSynchronize", "cuda_runtime", 137, 1_500),
    CudaCall("cudaStreamWaitEvent", "cuda_runtime", 147, 900),
    CudaCall("cudaStreamSynchronize", "cuda_runtime", 131, 1_500),
    CudaCall("cudaDeviceSynchronize", "cuda_runtime", 165, 1_500),
    CudaCall("cudaMalloc", "cuda_runtime", 20, 420_000),
    CudaCall("cudaFree", "cuda_runtime", 22, 240_000),
    CudaCall("cuLibraryLoadData", "cuda_driver", 675, 4_000_000),
)
CALLS: Final = {call.name: call for call in _CALLS}
"""By name."""
