"""GPU work of a decoder, with as many blocks as its input asks for."""

from __future__ import annotations

from dataclasses import replace

from hta_widgets.sample.kernels import GEMM_FLOPS_PER_NS, GpuWork, elementwise, kernel

FP32_FLOPS_PER_NS = 45_000


def gemm(rows: int, columns: int, inner: int, layout: str, *, fp32: bool = False) -> GpuWork:
    """Multiply matrices, with a block for each tile of the result."""
    flops = 2 * rows * columns * inner
    if fp32:
        name = f"cutlass_80_simt_sgemm_128x256_8x4_{layout}_align1"
        blocks, rate = tiles(rows, 128) * tiles(columns, 256), FP32_FLOPS_PER_NS
        return kernel(
            f"void cutlass::Kernel2<{name}>({name}::Params)",
            flops // rate,
            blocks=blocks,
            registers=218,
            shared_memory=49_152,
        )
    name = f"sm90_xmma_gemm_bf16bf16_bf16f32_f32_{layout}_n_tilesize128x256x64_warpgroupsize2x1x1"
    return kernel(
        f"{name}_execute_segment_k_off_kernel__5x_cublas",
        flops // GEMM_FLOPS_PER_NS,
        call="cuLaunchKernelEx",
        blocks=tiles(rows, 128) * tiles(columns, 256),
        threads=384,
        registers=168,
        shared_memory=213_552,
    )


def is_memory_bound(work: GpuWork) -> bool:
    """Whether a kernel waits for memory rather than for the clock of the multiprocessors."""
    names = ("elementwise", "layer_norm", "GammaBeta", "reduce_kernel", "multi_tensor", "SoftMax")
    return any(name in work.name for name in names)


def memory_kernel(name: str, elements: int) -> GpuWork:
    """Read and write this many bfloat16 elements."""
    moved = elementwise("", elements, 1)
    return replace(moved, name=name)


def with_blocks(work: GpuWork, blocks: int) -> GpuWork:
    """Launch as many blocks as the input asks for."""
    before, _, rest = work.details.partition('"grid": [')
    _, _, after = rest.partition(",")
    return replace(work, details=f'{before}"grid": [{blocks},{after}')


def tiles(size: int, tile: int) -> int:
    """Return how many tiles cover a size."""
    return -(-size // tile)
