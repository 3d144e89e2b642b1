"""Inference with tensor parallelism: one token after the other, small kernels, no gradients."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from hta_widgets.sample.cluster import Program
from hta_widgets.sample.communication import Communication, all_reduce
from hta_widgets.sample.kernels import GpuWork, copy_to_host, kernel
from hta_widgets.sample.process import COMPUTE_STREAM
from hta_widgets.sample.worker import Worker

TOKENS_PER_STEP = 8
BATCH = 32
SCHEDULER_NS = 60_000
PYTHON_MODULE_NS = 14_000
_WEIGHT_NS = {"qkv": 9_500, "out": 4_200, "gate_up": 15_500, "down": 8_000}


class Decode(Worker):
    """A rank of an inference server that generates tokens for a batch of requests."""

    def parameters(self) -> Sequence[int]:
        """Return nothing: inference updates no parameter."""
        return []

    def train(self, step: int) -> Program:
        """Generate some tokens, by a captured graph or operator by operator."""
        process, plan = self.process, self.plan
        yield from self.interruptions.before_layer(step, 0)
        for number in range(TOKENS_PER_STEP):
            with process.annotation(f"step[DECODE bs={BATCH}]"):
                process.spend(SCHEDULER_NS)
                if number == 1:
                    yield from self.interruptions.before_layer(step, 1)
                if plan.cuda_graph:
                    process.launch_graph(work for _, work in self._layers())
                else:
                    self._run_operators()
                yield None
                with process.op("aten::argmax"):
                    process.issue(_kernel("argmax", 6_000))
                with (
                    process.op("aten::to"),
                    process.op("aten::_to_copy"),
                    process.op("aten::copy_"),
                ):
                    process.issue(copy_to_host(8 * BATCH))
                    yield from process.synchronize("cudaStreamSynchronize", [COMPUTE_STREAM])

    def _run_operators(self) -> None:
        process = self.process
        for name, work in self._layers():
            process.spend(PYTHON_MODULE_NS)
            if isinstance(work, Communication):
                process.wait_on_stream(process.communicate(work, COMPUTE_STREAM))
                continue
            with process.op(name):
                process.issue(work)

    def _layers(self) -> Iterator[tuple[str, GpuWork | Communication]]:
        elements = BATCH * self.plan.decoder.hidden
        summed = ("c10d::allreduce_", all_reduce(self.plan.world, elements))
        for _ in range(self.plan.layers):
            yield "aten::rms_norm", _kernel("rms_norm", 1_800)
            yield "aten::mm", _kernel("qkv", _WEIGHT_NS["qkv"])
            yield "vllm::rotary_embedding", _kernel("rotary_embedding", 1_500)
            yield "vllm::paged_attention", _kernel("paged_attention_v2", 11_000)
            yield "aten::mm", _kernel("out", _WEIGHT_NS["out"])
            yield summed
            yield "vllm::fused_add_rms_norm", _kernel("fused_add_rms_norm", 1_900)
            yield "aten::mm", _kernel("gate_up", _WEIGHT_NS["gate_up"])
            yield "vllm::silu_and_mul", _kernel("silu_and_mul", 1_700)
            yield "aten::mm", _kernel("down", _WEIGHT_NS["down"])
            yield summed
        yield "aten::mm", _kernel("head", 38_000)

    def optimize(self) -> None:
        """Do nothing: inference has no optimizer."""


@cache
def _kernel(name: str, duration_ns: int) -> GpuWork:
    names = {
        "rms_norm": "void vllm::rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, int)",
        "rotary_embedding": "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)",
        "paged_attention_v2": "void vllm::paged_attention_v2_kernel<__nv_bfloat16, 128, 16>(int)",
        "fused_add_rms_norm": "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(int)",
        "silu_and_mul": "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel>(int)",
        "argmax": "void at::native::reduce_kernel<512, 1, at::native::ArgMaxOps<float>>(int)",
    }
    matrix = f"nvjet_tst_64x32_64x16_4x1_v_bz_splitK_TNT_{name}"
    return kernel(names.get(name, matrix), duration_ns, blocks=132, threads=128)
