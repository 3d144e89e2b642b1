"""GPU work as PyTorch issues it on an H100 (names, launch shapes, durations), and CUDA calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STREAMING_MULTIPROCESSORS = 132
GEMM_FLOPS_PER_NS = 600_000
ATTENTION_FLOPS_PER_NS = 300_000
DEVICE_MEMORY_BYTES_PER_NS = 2_500
CACHE_BYTES_PER_NS = 6_000
PCIE_BYTES_PER_NS = 50
SHORTEST_KERNEL_NS = 1_400
BFLOAT16_BYTES = 2

_ANONYMOUS = "void at::native::(anonymous namespace)::"
_BFLOAT16_POINTER = "c10::BFloat16 const*"


@dataclass(frozen=True)
class GpuWork:
    """One kernel, copy or memset, and the CUDA call that issues it.

    ``details`` is the part of Kineto's ``args`` that all launches of a kernel share;
    ``bytes`` is what a copy or memset moves.
    """

    category: str
    name: str
    duration_ns: int
    call: str
    details: str = ""
    bytes: int = 0


def kernel(
    name: str,
    duration_ns: int,
    *,
    call: str = "cudaLaunchKernel",
    blocks: int = 1024,
    threads: int = 256,
    registers: int = 32,
    shared_memory: int = 0,
) -> GpuWork:
    """Describe a kernel and its launch shape the way Kineto does."""
    blocks_per_sm = blocks / STREAMING_MULTIPROCESSORS
    warps_per_sm = blocks_per_sm * threads / 32
    details = (
        f'"registers per thread": {registers},      "shared memory": {shared_memory},      '
        f'"blocks per SM": {blocks_per_sm:.6f},      "warps per SM": {warps_per_sm:.6f},      '
        f'"grid": [{blocks}, 1, 1],      "block": [{threads}, 1, 1],      '
        f'"est. achieved occupancy %": {min(100, round(100 * warps_per_sm / 64))}'
    )
    return GpuWork("kernel", name, SHORTEST_KERNEL_NS + duration_ns, call, details)


def gemm(rows: int, columns: int, inner: int, layout: str) -> GpuWork:
    """Multiply a ``rows x inner`` by an ``inner x columns`` matrix."""
    duration_ns = 2 * rows * columns * inner // GEMM_FLOPS_PER_NS
    if layout == "TNT":
        name = "nvjet_tst_192x192_64x4_2x1_v_bz_coopA_bias_TNT"
        return kernel(name, duration_ns, call="cuLaunchKernelEx", blocks=132, threads=384)
    tile = f"cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_32x3_{layout}_align8"
    return _tensor_core(f"void cutlass::Kernel2<{tile}>({tile}::Params)", duration_ns)


def convolution(flops: int) -> GpuWork:
    """Convolve with cuDNN."""
    name = (
        "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32_"
        "stage4_warpsize2x2x1_g1_tensor16x8x16_kernel_cudnn"
    )
    return _tensor_core(name, flops // GEMM_FLOPS_PER_NS)


def convolution_weight_gradient(flops: int) -> GpuWork:
    """Differentiate a convolution by its weight."""
    tile = "cutlass_tensorop_bf16_s16816wgrad_optimized_bf16_128x128_32x4_nhwc_align8"
    name = f"void cutlass__5x_cudnn::Kernel<{tile}>({tile}::Params)"
    return _tensor_core(name, flops // GEMM_FLOPS_PER_NS)


def elementwise(functor: str, elements: int, tensors: int, *, cached: bool = False) -> GpuWork:
    """Apply a functor to ``tensors`` tensors (inputs and output) of one size."""
    array = f"std::array<char*, {tensors}ul>"
    name = (
        f"void at::native::vectorized_elementwise_kernel<4, {functor}, {array} >"
        f"(int, {functor}, {array})"
    )
    rate = CACHE_BYTES_PER_NS if cached else DEVICE_MEMORY_BYTES_PER_NS
    duration_ns = elements * tensors * BFLOAT16_BYTES // rate
    return kernel(name, duration_ns, blocks=max(1, elements // 1024), threads=128)


def lambda_functor(function: str, arguments: int) -> str:
    """Name the lambda of ``arguments`` numbers inside a PyTorch function."""
    types = ", ".join(["c10::BFloat16"] * arguments)
    call = "::operator()() const::"
    return f"at::native::{function}::{{lambda()#2}}{call}{{lambda()#4}}{call}{{lambda({types})#1}}"


def layer_norm(elements: int) -> GpuWork:
    """Normalise rows."""
    parameters = ", ".join(["int", "float", *[_BFLOAT16_POINTER] * 3, "float*", "float*"])
    name = (
        f"{_ANONYMOUS}vectorized_layer_norm_kernel<c10::BFloat16, float>"
        f"({parameters}, c10::BFloat16*)"
    )
    return kernel(name, _memory_ns(2 * elements), blocks=50_432, threads=128, registers=40)


def layer_norm_backward(elements: int) -> tuple[GpuWork, GpuWork]:
    """Differentiate a layer norm by its input, then by its weight and bias."""
    inputs = f"{_BFLOAT16_POINTER}, {_BFLOAT16_POINTER}, float const*, float const*"
    of_input = (
        f"{_ANONYMOUS}layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float>"
        f"({inputs}, {_BFLOAT16_POINTER}, c10::BFloat16*, int)"
    )
    of_parameters = (
        f"{_ANONYMOUS}GammaBetaBackwardCUDAKernelTemplate<c10::BFloat16, float, 32u, 32u, 256u, "
        f"true, true, true>(long, long, {inputs}, c10::BFloat16*, c10::BFloat16*)"
    )
    return (
        kernel(of_input, _memory_ns(3 * elements), blocks=50_432, threads=128, registers=48),
        kernel(of_parameters, _memory_ns(2 * elements), blocks=24, threads=1024, registers=40),
    )


def column_sum(elements: int) -> GpuWork:
    """Sum over rows, as for the gradient of a bias."""
    operation = (
        "at::native::ReduceOp<c10::BFloat16, at::native::func_wrapper_t<c10::BFloat16, "
        "at::native::sum_functor<c10::BFloat16, float, c10::BFloat16>::operator()"
        "(at::TensorIterator&)::{lambda(float, float)#1}>, unsigned int, c10::BFloat16, 4, 4>"
    )
    name = f"void at::native::reduce_kernel<128, 4, {operation} >({operation})"
    return kernel(name, _memory_ns(elements), blocks=192, threads=512, registers=38)


def flash_attention(flops: int) -> GpuWork:
    """Attend."""
    traits = _flash_traits("Flash_fwd_kernel_traits", "64, 128, 128, 4", "false, false")
    flags = "false, false, false, false, false, true, false, false"
    name = f"void pytorch_flash::flash_fwd_kernel<{traits}, {flags}>"
    return _flash(f"{name}(pytorch_flash::Flash_fwd_params)", flops // ATTENTION_FLOPS_PER_NS)


def flash_attention_backward(flops: int, elements: int) -> tuple[GpuWork, GpuWork, GpuWork]:
    """Differentiate attention: prepare, loop over keys and values, convert."""
    traits = _flash_traits("Flash_bwd_kernel_traits", "64, 128, 128, 8", "4, 4, 4, false, false")
    prefix, parameters = "void pytorch_flash::flash_bwd_", "(pytorch_flash::Flash_bwd_params)"
    flags = "false, false, false, false, false, true, false"
    loop = f"{prefix}dq_dk_dv_loop_seqk_parallel_kernel<{traits}, {flags}>{parameters}"
    return (
        _flash(f"{prefix}dot_do_o_kernel<true, {traits} >{parameters}", _memory_ns(2 * elements)),
        _flash(loop, 5 * flops // (2 * ATTENTION_FLOPS_PER_NS)),
        _flash(f"{prefix}convert_dq_kernel<{traits} >{parameters}", _memory_ns(2 * elements)),
    )


def log_softmax(elements: int) -> GpuWork:
    """Turn scores into log-probabilities."""
    name = (
        "void at::native::(anonymous namespace)::cunn_SoftMaxForwardSmem<8, c10::BFloat16, float, "
        "c10::BFloat16, at::native::(anonymous namespace)::LogSoftMaxForwardEpilogue, long>"
        f"(c10::BFloat16*, {_BFLOAT16_POINTER}, long)"
    )
    return kernel(name, _memory_ns(2 * elements), blocks=256, threads=128)


def log_softmax_backward(elements: int) -> GpuWork:
    """Differentiate log-probabilities."""
    name = (
        "void at::native::(anonymous namespace)::cunn_SoftMaxBackward<8, c10::BFloat16, float, "
        "c10::BFloat16, at::native::(anonymous namespace)::LogSoftMaxBackwardEpilogue>"
        f"(c10::BFloat16*, {_BFLOAT16_POINTER}, {_BFLOAT16_POINTER}, long)"
    )
    return kernel(name, _memory_ns(3 * elements), blocks=256, threads=128)


def nll_loss() -> GpuWork:
    """Average the negative log-likelihood over a batch."""
    name = (
        f"{_ANONYMOUS}nll_loss_forward_reduce_cuda_kernel_2d<c10::BFloat16, float, long>"
        f"(c10::BFloat16*, c10::BFloat16*, {_BFLOAT16_POINTER}, long const*, "
        f"{_BFLOAT16_POINTER}, bool, long, long, long, long)"
    )
    return kernel(name, 2_000, blocks=1, threads=32)


def nll_loss_backward() -> GpuWork:
    """Differentiate the negative log-likelihood."""
    name = (
        f"{_ANONYMOUS}nll_loss_backward_reduce_cuda_kernel_2d<c10::BFloat16, long>"
        f"(c10::BFloat16*, {_BFLOAT16_POINTER}, long const*, {_BFLOAT16_POINTER}, "
        f"{_BFLOAT16_POINTER}, bool, int, int, long, long)"
    )
    return kernel(name, 600, blocks=1, threads=32)


def nccl_kernel(operation: str) -> GpuWork:
    """Communicate; the network decides how long that takes."""
    return kernel(
        f"ncclDevKernel_{operation}(ncclDevKernelArgsStorage<4096ul>)",
        0,
        call="cudaLaunchKernelExC",
        blocks=16,
        threads=544,
        registers=96,
        shared_memory=103_808,
    )


def copy_to_device(number_of_bytes: int) -> GpuWork:
    """Copy from pinned host memory."""
    return _copy("Memcpy HtoD (Pinned -> Device)", number_of_bytes)


def copy_to_host(number_of_bytes: int) -> GpuWork:
    """Copy to pageable host memory, as ``Tensor.item()`` does."""
    return _copy("Memcpy DtoH (Device -> Pageable)", number_of_bytes)


def memset(number_of_bytes: int) -> GpuWork:
    """Fill device memory with zeros."""
    duration_ns = SHORTEST_KERNEL_NS + number_of_bytes // DEVICE_MEMORY_BYTES_PER_NS
    return GpuWork(
        "gpu_memset", "Memset (Device)", duration_ns, "cudaMemsetAsync", bytes=number_of_bytes
    )


def _copy(name: str, number_of_bytes: int) -> GpuWork:
    duration_ns = SHORTEST_KERNEL_NS + number_of_bytes // PCIE_BYTES_PER_NS
    return GpuWork("gpu_memcpy", name, duration_ns, "cudaMemcpyAsync", bytes=number_of_bytes)


def _tensor_core(name: str, duration_ns: int) -> GpuWork:
    return kernel(name, duration_ns, blocks=264, registers=234, shared_memory=73_728)


def _flash(name: str, duration_ns: int) -> GpuWork:
    return kernel(name, duration_ns, blocks=6_144, threads=128, registers=255, shared_memory=81_920)


def _flash_traits(kind: str, tile: str, options: str) -> str:
    shared = f"Flash_kernel_traits<{tile}, cutlass::bfloat16_t>"
    return f"{kind}<{tile}, {options}, cutlass::bfloat16_t, {shared} >"


def _memory_ns(elements: int) -> int:
    return elements * BFLOAT16_BYTES // DEVICE_MEMORY_BYTES_PER_NS


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
