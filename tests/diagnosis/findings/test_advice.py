"""Advice that can be followed: none contradicts what was recorded, and there always is some."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from itertools import chain, combinations

import pytest

from hta_widgets import diagnose, open_trace
from hta_widgets.diagnosis.causes import ALL_CAUSES
from hta_widgets.diagnosis.facts.conditions import (
    OWNER_PATTERNS,
    RECORDING_PATTERNS,
    Condition,
    conditions_in,
    conditions_of,
)
from hta_widgets.diagnosis.finding import MOST_GIVEN, Advice, choose_advice, deciding_conditions
from tests import nsys_export
from tests.cause_pages import CPP, SHELL
from tests.diagnosis.findings.scripts import Host, diagnosed, found
from tests.kineto_text import write

C = Condition
FEW = 3

NEVER = {
    r"num_workers=8|worker processes": ({C.LOADER_WORKERS}, set()),
    r"DataLoader": (set(), {C.LOADER}),
    r"sched_getaffinity|prefetch_factor": ({C.LOADER_ALONE}, {C.LOADER_WORKERS}),
    r"torch\.compile\(model\)|[Cc]ompile the model": ({C.COMPILED, C.EMBEDDINGS}, set()),
    r"(?:replay|capture) (?:CUDA|HIP) graphs|reduce-overhead": ({C.GRAPHS, C.CAPTURING}, set()),
    r", with_stack=True\)": ({C.STACKS}, set()),
    r"\.\.\., with_stack=True\)": ({C.NO_OPERATORS}, set()),
    r"[Rr]ecord (?:again )?without (?:with_stack|stacks)": (set(), {C.STACKS}),
    r"profile_memory=False": (set(), {C.MEMORY}),
    r"\bgc\.": (set(), {C.COLLECTS_GARBAGE}),
    r"larger batch": ({C.SERVER}, set()),
    r"requests": ({C.TRAINING}, {C.SERVER}),
    r"no_sync|GradScaler|checkpoint\(": (set(), {C.TRAINING}),
    r"fused=True": ({C.FUSED}, {C.ADAM, C.ADAMW, C.SGD}),
    r"foreach=True": ({C.FUSED, C.FOREACH}, {C.OF_OPTIMIZER}),
    r"set_to_none": (set(), {C.ZEROES_GRADIENTS}),
    r"autocast\(": ({C.AUTOCAST, C.HALF}, set()),
    r"float32_matmul": ({C.HALF}, {C.TF32}),
    r"bfloat16": (set(), {C.BF16}),
    r"broadcast_buffers": (set(), {C.BROADCASTS_BUFFERS}),
    r"bucket_cap_mb|comm_hook": (set(), {C.DDP}),
    r"FSDP|forward_prefetch": (set(), {C.FSDP1, C.FSDP2}),
    r"vLLM|vllm": (set(), {C.VLLM}),
    r"SGLang|sglang": (set(), {C.SGLANG}),
    r"nvidia-smi|NVLink|CUDA graph|expandable_segments": ({C.AMD}, set()),
    r"amd-smi|HIP graph|MIOpen": (set(), {C.AMD}),
    r"empty_cache": (set(), {C.EMPTY_CACHE}),
    r"cudnn": ({C.COMPILED}, set()),
    r"pin_memory|pinned memory": ({C.PINNED}, {C.PAGEABLE, C.TO_HOST}),
    r"torch|DataLoader|python train|non_blocking|\bmodel\b": ({C.NO_PYTORCH}, set()),
    r"cuda(?:Malloc|Event|Stream)|cublas|\./program": (set(), {C.NO_PYTORCH}),
    r"instead of torch\.cuda\.synchronize": ({C.ENDS_STEP}, {C.SYNCHRONISES}),
}
"""Words of advice, the conditions that forbid it, and those of which it needs one."""

IMPLIED = {
    C.LOADER_ALONE: C.LOADER,
    C.LOADER_WORKERS: C.LOADER,
    C.UNEVEN: C.HALF,
    C.TF32: C.BF16,
    C.REFUSED_FUSION: C.ATTENTION,
}
"""What holds where another condition does."""

EXCLUSIVE = ({C.TRAINING, C.SERVER}, {C.PAGEABLE, C.PINNED}, {C.TO_HOST, C.TO_DEVICE})
"""What does not hold together."""


def contradictions(advice: Advice, conditions) -> list[str]:
    """Words of some advice that what is known forbids."""
    text, known = f"{advice.do}\n{advice.code}\n", {*conditions}
    return [
        words
        for words, (without, one_of) in NEVER.items()
        if re.search(words, text) and (without & known or (one_of and not one_of & known))
    ]


def possible_conditions(advice):
    """Sets of the conditions that a choice depends on, with what they imply: few, or nearly all, or
    what a piece of advice needs.

    A piece of advice depends on few; all sets of fifteen conditions took a minute.
    """
    matter = sorted({each for one in advice for each in (*one.needs, *one.unless)}, key=str)
    sizes = range(len(matter) + 1)
    few = (each for each in sizes if each <= FEW or each >= len(matter) - FEW)
    every = (held for size in few for held in combinations(matter, size))
    for held in chain((each.needs for each in advice), every):
        known = {*held}
        if not any(known >= pair for pair in EXCLUSIVE):
            yield known | {IMPLIED[each] for each in held if each in IMPLIED}


@pytest.mark.parametrize("cause", ALL_CAUSES, ids=lambda each: each.name)
def test_whatever_is_recorded_there_is_advice_that_does_not_contradict_it(cause):
    all_given = set()
    for known in possible_conditions(cause.advice):
        given = choose_advice(cause.advice, known)
        assert 1 <= len(given) <= MOST_GIVEN, known
        wrong = [(each.do, contradictions(each, known)) for each in given]
        assert not [pair for pair in wrong if pair[1]], (known, wrong)
        all_given |= {each.code + each.do for each in given}
    assert all_given >= {each.code + each.do for each in cause.advice}


@pytest.mark.parametrize("cause", ALL_CAUSES, ids=lambda each: each.name)
def test_advice_is_a_sentence_and_its_code_can_be_run(cause):
    for each in cause.advice:
        assert re.fullmatch(r"[A-Z].{10,160}\.", each.do), each.do
        assert all(len(line) <= 72 for line in each.code.splitlines())
        if not SHELL.match(f"{each.code} ") and not CPP.match(each.code):
            ast.parse(each.code)


@pytest.mark.parametrize("slowed", [False, True])
def test_to_record_again_without_stacks_hides_no_other_advice(slowed):
    needs = (C.STACKS, *(C.SLOWED_BY_STACKS,) * slowed)
    again = Advice("Record again.", needs=needs)
    said = choose_advice((again, Advice("Compile.", "compile()"), Advice("Wait.")), needs)
    told = [("Record again. Compile.", "compile()"), ("Wait.", "")]
    apart = [("Record again.", ""), ("Compile.", "compile()"), ("Wait.", "")]
    assert [(each.do, each.code) for each in said] == (told if slowed else apart)


FIRST = {
    "launch_bound": [
        ((), "Compile the model, and let it"),
        ((C.AMD,), "Compile the model, and let it replay HIP graphs."),
        ((C.EMBEDDINGS, C.TRAINING), "Compile what follows the embeddings"),
        ((C.EMBEDDINGS, C.TRAINING, C.FEW_ROWS), "Use a larger batch"),
        ((C.ENDS_AHEAD,), "Record several iterations,"),
        ((C.COMPILED,), "Let the compiled code replay CUDA graphs."),
        ((C.COMPILED, C.IN_OPERATOR), "Find out what still runs"),
        ((C.NO_PYTORCH,), "Capture the launches that repeat"),
        ((C.NO_PYTORCH, C.GRAPHS), "Launch larger kernels: process more at once, for"),
        ((C.COMPILED, C.GRAPHS, C.TRAINING), "Find out what still runs"),
        ((C.GRAPHS, C.TRAINING), "Launch larger kernels: use a larger batch."),
        ((C.GRAPHS, C.VLLM, C.SERVER), "Launch larger kernels: serve more concurrent requests."),
        ((C.VLLM, C.SERVER), "Let vLLM capture CUDA graphs: start"),
        ((C.VLLM, C.SERVER, C.MANY_TOKENS), "Let vLLM capture CUDA graphs for this many tokens,"),
        ((C.SGLANG, C.SERVER), "Let SGLang capture CUDA graphs"),
        ((C.CAPTURING,), "Record what comes later:"),
        ((C.OF_OPTIMIZER, C.ADAMW, C.ONE_BY_ONE), "Use the fused optimizer: one kernel updates"),
        ((C.OF_OPTIMIZER,), "Update many parameters with one kernel, where"),
        ((C.OTHERS_IN_TIME, C.TRAINING), "Find out what slows some of the hosts"),
        ((C.OF_OPTIMIZER, C.ADAMW, C.FUSED), "Compile the model, and let it"),
        ((C.ZEROES_GRADIENTS,), "Set gradients to None instead"),
        ((C.STACKS,), "Compile the model, and let it"),
        ((C.STACKS, C.SLOWED_BY_STACKS), "First record again without with_stack=True:"),
        ((C.LATE_BY_WAITS, C.READS_A_NUMBER, C.TRAINING), "Read values only after the step"),
        ((C.LATE_BY_WAITS,), "Let PyTorch warn about each operation"),
        ((C.LATE_BY_WAITS, C.NO_PYTORCH), "Wait once, where the host reads the results"),
        ((C.LATE_BY_WAITS, C.NO_PYTORCH, C.READS_FLAGS), "Let the GPU decide whether to go on"),
        ((C.NO_PYTORCH, C.WAITS_EACH_TIME), "Wait only where the host reads a result"),
        ((C.NO_PYTORCH, C.WAITS_EACH_TIME, C.READS_FLAGS), "Launch larger kernels: process more"),
        ((C.NO_PYTORCH, C.OUTSIDE_CALLS), "Sample the CPU"),
        ((C.NO_PYTORCH, C.OUTSIDE_CALLS, C.SAMPLED), "Look at this time in the Bottom-Up"),
    ],
    "input_starvation": [
        ((C.LOADER, C.LOADER_ALONE), "Load batches in worker processes"),
        ((C.LOADER, C.LOADER_WORKERS), "Give the DataLoader more workers"),
        ((C.LOADER, C.LOADER_WORKERS, C.SHORT_WAITS), "Use larger batches, or keep a small"),
        ((C.LOADER,), "Load batches ahead of the step, in enough DataLoader"),
        ((), "Prepare the next batch in another thread"),
    ],
    "preprocessing": [
        ((), "Prepare the input on the GPU"),
        ((C.IMAGE_PROCESSOR,), "Prepare images on the GPU: use a processor that works on tensors"),
        ((C.DRAWS_NUMBERS,), "Generate random input on the GPU."),
    ],
    "host_pause": [
        ((), "Record Python frames: they"),
        ((C.NO_OPERATORS,), "Record operators and Python frames"),
        ((C.NO_PYTORCH,), "Look at the stacks that Nsight"),
        ((C.NO_PYTORCH, C.SAMPLED), "Run this code while kernels run, or on the GPU."),
        ((C.OTHER_RECORDER,), "Sample Python stacks as well: Nsight"),
        ((C.STACKS,), "Find the lines that run there in"),
        ((C.LAUNCHES_GRAPH,), "Record several launches of this graph"),
        ((C.STACKS, C.NOT_RECORDED), "Sample the process from outside while"),
        ((C.COLLECTS_GARBAGE,), "After the first step, exclude"),
        ((C.BROADCASTS_BUFFERS,), "Do not broadcast buffers in"),
        ((C.CHECKS_SIZES,), "Turn off Inductor's checks"),
        ((C.SCRIPTED, C.NOT_RECORDED), "Call the scripted function three times"),
        ((C.WALKS_MODULES,), "Walk over the modules once"),
        ((C.COMPUTES_ON_CPU, C.OF_OPTIMIZER), "Run the optimizer on the GPU: give it parameters"),
        ((C.COMPUTES_ON_CPU,), "Run these operators on the GPU: keep"),
        ((C.LOSES_ITS_CORE,), "Leave a core for the"),
        ((C.NO_PYTORCH, C.READS_FILES), "Read ahead on another thread"),
        ((C.NO_PYTORCH, C.WRITES_FILES), "Write in larger pieces"),
        ((C.NO_PYTORCH, C.SLEEPS), "Block until the result arrives instead"),
        ((C.NO_PYTORCH, C.WAITS_FOR_OTHERS), "Look at what the threads and processes"),
    ],
    "blocking_sync": [
        ((), "Let PyTorch warn about each operation"),
        ((C.NO_PYTORCH,), "Wait once, where the host"),
        ((C.NO_PYTORCH, C.ONE_STREAM), "Remove the waits between kernels"),
        ((C.NO_PYTORCH, C.READS_FLAGS), "Let the GPU decide whether to go on"),
        ((C.READS_A_NUMBER, C.TRAINING), "Keep values on the GPU, and read them only"),
        ((C.READS_A_NUMBER,), "Keep values on the GPU, and read them all"),
        ((C.COPIES,), "Copy with non_blocking=True."),
        ((C.COPIES, C.TO_DEVICE, C.PAGEABLE), "Copy from pinned memory"),
        ((C.COPIES, C.TO_DEVICE, C.PINNED), "Copy with non_blocking=True."),
        ((C.COPIES, C.TO_HOST, C.PAGEABLE), "Copy into pinned memory"),
        ((C.COPIES, C.TO_HOST, C.PINNED), "Start the copy without"),
        ((C.READS_A_NUMBER, C.TO_HOST, C.PAGEABLE), "Keep values on the GPU, and read them all"),
        ((C.SELECTS,), "Select with operations whose"),
        ((C.SYNCHRONISES,), "Remove the explicit synchronisation,"),
        (
            (C.SYNCHRONISES, C.ENDS_STEP),
            "Remove the synchronisation if it only ends a step for timing: events",
        ),
    ],
    "slow_host_copies": [
        ((C.PAGEABLE, C.LOADER), "Copy from pinned memory without"),
        ((C.PAGEABLE,), "Copy from pinned memory without"),
        ((C.PAGEABLE, C.NO_PYTORCH), "Allocate pinned host memory, and copy without"),
        ((C.PAGEABLE, C.NO_PYTORCH, C.THERE_AND_BACK), "Keep data on the GPU instead of"),
        ((), "Copy on a separate stream, ahead of"),
        ((C.FSDP2,), "Keep the parameters on the GPU"),
        ((C.TO_HOST,), "Copy into pinned memory"),
        ((C.TO_HOST, C.PINNED), "Copy to the host on a separate"),
        ((C.PINNED,), "Copy on a separate stream, ahead of"),
    ],
    "exposed_communication": [
        ((C.OTHER_RANKS,), "Record all ranks at the same time"),
        ((C.NOT_OPENED,), "Open all ranks"),
        ((C.NO_KERNELS, C.NO_PYTORCH), "Diagnose the Nsight Systems export that"),
        ((C.NO_COLLECTIVES,), "Record which collective each kernel belongs to,"),
        ((C.DDP, C.BROADCASTS_BUFFERS), "Do not broadcast buffers in"),
        ((C.GATHERS, C.GATHERS_ONE), "Keep sharded what the longest all-gather collects, as"),
        ((C.DDP,), "Try other DDP bucket sizes: nothing"),
        ((C.DDP, C.OPTIMIZER_WAITS), "Make DDP's buckets smaller"),
        ((C.OPTIMIZER_WAITS,), "Reduce gradients in smaller pieces"),
        ((C.DDP, C.LATENCY), "Send fewer, larger messages: DDP's buckets"),
        ((C.LATENCY,), "Send fewer, larger messages: these are"),
        ((C.LATENCY, C.SERVER, C.VLLM), "Split the model over fewer GPUs"),
        ((C.EXPERTS, C.SERVER, C.VLLM), "Split the batch in two"),
        ((C.EXPERTS, C.LATENCY), "Send fewer, larger messages: these are"),
        ((C.EXPERTS, C.SERVER, C.SGLANG), "Split the batch in two"),
        ((C.EXPERTS,), "Split the batch in two"),
        ((C.SAME_STREAM, C.SERVER, C.SGLANG), "Split the model over fewer GPUs"),
        ((C.SAME_STREAM, C.SERVER), "Serve more concurrent requests"),
        ((C.SAME_STREAM,), "Communicate on a separate stream: nothing on"),
        ((C.NOT_LAUNCHED,), "Launch the next work before"),
        ((C.FSDP1, C.GATHERS), "Let FSDP gather the next"),
        ((C.FSDP2, C.GATHERS), "Let FSDP gather the next"),
        ((), "Start the communication before other"),
    ],
    "no_tensor_cores": [
        ((C.TF32, C.BF16), "Let float32 matrix products use TF32."),
        ((C.TF32, C.BF16, C.NO_PYTORCH), "Let cuBLAS compute float32"),
        ((C.BF16,), "Compute these products in 16 bits."),
        ((C.TRAINING,), "Compute these products in 16 bits, and scale the loss."),
        ((), "Compute these products in 16 bits: tensor cores"),
        ((C.AUTOCAST,), "Find out why these products"),
        ((C.HALF, C.UNEVEN), "Pad the dimensions"),
        ((C.HALF,), "Update PyTorch"),
        ((C.TF32, C.BF16, C.CONVOLUTIONS), "Let float32 convolutions use TF32."),
        ((C.TF32, C.BF16, C.DOUBLE), "Compute in float32 with TF32 where"),
        ((C.DOUBLE,), "Compute in float32 where that is precise enough."),
        ((C.DOUBLE, C.NO_PYTORCH), "Compute in float32 where that is precise enough."),
    ],
    "unfused_elementwise": [
        ((), "Compile the model"),
        ((C.COMPILED,), "Find out why these kernels"),
        ((C.COMPILED, C.LEFT_BY_COMPILER), "Compile with Inductor, which fuses them: this"),
        ((C.COMPILED, C.LEFT_BY_COMPILER, C.GRAPHS), "Compile with Inductor, which fuses them and"),
        ((C.ATTENTION,), "Use fused attention"),
        ((C.ATTENTION, C.REFUSED_FUSION), "Give scaled_dot_product_attention"),
    ],
    "slow_shape": [
        ((), "Let the compiler time other kernels"),
        ((C.AMD,), "Let PyTorch time all library"),
        ((C.UNEVEN,), "Pad the dimension"),
        ((C.UNEVEN, C.COMPILED), "Pad the dimension"),
    ],
    "layout_transposes": [
        ((), "Keep one layout"),
        ((C.NHWC,), "Keep images in NHWC, as the convolutions"),
        ((C.NHWC, C.AMD), "Keep images in NHWC, and tell MIOpen"),
        ((C.NHWC, C.IMAGES_NHWC), "Look for .contiguous() and permute()"),
        ((C.IMAGES_NHWC, C.FLOAT32, C.BF16), "Compute the convolutions in 16 bits:"),
    ],
    "allocator_retries": [
        ((C.EMPTY_CACHE,), "Do not call torch.cuda.empty_cache()"),
        ((), "Let the allocator grow"),
        ((C.AMD,), "Use fewer distinct shapes"),
        ((C.UNCACHED,), "Turn PyTorch's caching allocator back"),
        ((C.NO_PYTORCH,), "Allocate the memory once"),
    ],
    "profiler_overhead": [
        ((C.STACKS,), "Record without stacks."),
        ((C.MEMORY,), "Record without memory events."),
        ((), "Record only a"),
    ],
    "autotuning": [((C.COMPILED,), "Keep compiled and tuned"), ((), "Run every shape once")],
    "warm_up": [
        ((C.TRAINING,), "Leave the first steps out"),
        ((C.OTHER_RECORDER,), "Start the recording after some iterations"),
        ((), "Record after a few"),
        ((C.OWN_WARM_UP,), "Start the profiler after the job's own"),
        ((C.NO_PYTORCH,), "Run every kernel once"),
    ],
    "slow_gpu": [((), "Compare its clocks"), ((C.AMD,), "Compare its clocks")],
    "gpu_throttling": [
        ((), "While the job runs, check the clocks"),
        ((C.AMD,), "While the job runs, check the"),
        ((C.MANY_TIMES_SLOWER,), "While the job runs, list the processes"),
        ((C.AMD, C.MANY_TIMES_SLOWER), "While the job runs, list the processes"),
    ],
    "slow_link": [((), "Check these ranks for link"), ((C.AMD,), "Check these ranks for link")],
    "workload_imbalance": [
        ((), "Give all ranks equal work"),
        ((C.SAME_SIZES,), "Compare the inputs of these"),
    ],
    "expert_imbalance": [((C.TRAINING,), "Balance the load of"), ((), "Limit how many")],
    "stage_imbalance": [((), "Move layers")],
    "pipeline_bubble": [((), "Split the batch"), ((C.SERVER,), "Keep as many batches")],
    "step_gap": [
        ((), "Prepare and launch the next step"),
        ((C.VLLM, C.SERVER), "Let vLLM schedule"),
        ((C.SGLANG, C.SERVER), "Let SGLang overlap"),
        ((C.TENSORRT_LLM, C.SERVER), "Let TensorRT-LLM overlap"),
    ],
    "prefill_stall": [
        ((), "Compute prompts in chunks that take about"),
        ((C.VLLM, C.SERVER), "Compute prompts in smaller chunks"),
        ((C.SGLANG, C.SERVER), "Compute prompts in smaller chunks"),
        ((C.TENSORRT_LLM, C.SERVER), "Compute prompts in smaller chunks"),
    ],
    "missing_rank": [((), "Collect the traces")],
}
"""What comes first under some conditions."""


@pytest.mark.parametrize("cause", ALL_CAUSES, ids=lambda each: each.name)
def test_there_is_advice_for_programs_without_pytorch(cause):
    assert choose_advice(cause.advice, {C.NO_PYTORCH})


def test_an_export_of_a_program_without_pytorch(tmp_path):
    """Of OpenMP, with advice on a DataLoader and torch.compile."""
    names = ("void at::native::vectorized_elementwise_kernel<4>()", "solve(double*)")
    for name, is_other in zip(names, (False, True), strict=True):
        folder = tmp_path / str(is_other)
        folder.mkdir()
        tables = {
            nsys_export.KERNEL: [nsys_export.kernel(20, 50, correlation=1)],
            nsys_export.RUNTIME: [nsys_export.call(12, 14, name=2, correlation=1)],
            nsys_export.STRINGS: nsys_export.strings(name, "cuLaunchKernel"),
        }
        job = open_trace(nsys_export.write_sqlite(folder / "a.sqlite", tables), progress=False)
        assert (C.NO_PYTORCH in known_of(job)) == is_other
        assert C.OTHER_RECORDER in known_of(job)
    one = Host()
    one.launch(5, operator="solve")  # PyTorch's own profiler recorded it
    job = open_trace(write(tmp_path / "rank-0.json", one.events), progress=False)
    assert not {C.NO_PYTORCH, C.OTHER_RECORDER} & known_of(job)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("XlaModule:#hlo_module=jit_step,program_id=4#", {C.NO_PYTORCH}),
        ("loss.backward", {C.TRAINING}),
        ("forward", set()),
    ],
)
def test_ranges_tell_jax_and_training(tmp_path, text, known):
    """Both JAX and PyTorch run kernels of Triton."""
    tables = {
        nsys_export.KERNEL: [nsys_export.kernel(20, 50)],
        nsys_export.NVTX: [nsys_export.nvtx(0, 60, text)],
        nsys_export.STRINGS: nsys_export.strings("triton_softmax_2"),
    }
    job = open_trace(nsys_export.write_sqlite(tmp_path / "a.sqlite", tables), progress=False)
    assert known_of(job) & {C.NO_PYTORCH, C.TRAINING} == known


@pytest.mark.parametrize(("streams", "is_one"), [((7, 7), True), ((7, 8), False)])
def test_programs_with_one_stream_need_no_events(tmp_path, streams, is_one):
    tables = {
        nsys_export.KERNEL: [
            nsys_export.kernel(20 * at, 20 * at + 9, device=at % 2, stream=stream, correlation=at)
            for at, stream in enumerate((7, 7, *streams, *streams))
        ],
        nsys_export.STRINGS: nsys_export.strings("solve(double*)"),
    }
    job = open_trace(nsys_export.write_sqlite(tmp_path / "a.sqlite", tables), progress=False)
    assert (C.ONE_STREAM in known_of(job)) == is_one


def test_a_program_without_kernels_has_no_stream_in_common(tmp_path):
    tables = {
        nsys_export.RUNTIME: [nsys_export.call(12, 14, name=1)],
        nsys_export.STRINGS: nsys_export.strings("cudaMalloc"),
    }
    job = open_trace(nsys_export.write_sqlite(tmp_path / "a.sqlite", tables), progress=False)
    assert C.ONE_STREAM not in known_of(job)


def known_of(job):
    """What is known of the only rank of a job."""
    rank = job.rank(0)
    return conditions_of(rank.trace.events, job.kinds[0], rank.format)


def test_a_worker_knows_who_recorded(tmp_path):
    """A format that was sent to a worker is equal to itself, but another object."""
    job = open_trace(write(tmp_path / "rank-0.json", Host().events), progress=False)
    events, sent = job.rank(0).trace.events, replace(job.rank(0).format)
    assert conditions_of(events, job.kinds[0], sent) == conditions_of(events, job.kinds[0])


def test_which_advice_comes_first():
    assert {*FIRST} == {each.name for each in ALL_CAUSES}
    for cause in ALL_CAUSES:
        for known, first in FIRST[cause.name]:
            assert choose_advice(cause.advice, known)[0].do.startswith(first), (cause.name, known)


def contradicted(result) -> list[str]:
    """What findings advise against what was recorded of their ranks."""
    job = result.job
    of_rank = {
        rank: conditions_of(job.rank(rank).trace.events, kind) for rank, kind in job.kinds.items()
    }
    wrong = []
    for finding in result:
        said = str(finding.evidence.get("conditions", "")).split(", ")
        known = {each for each in C if each.value in said}
        known |= {each for rank in finding.ranks or result.ranks for each in of_rank.get(rank, ())}
        wrong += [
            f"{finding.cause}: {each.do} {each.code} ({words})"
            for each in finding.advice
            for words in contradictions(each, known)
        ]
    return wrong


RECORDED = {
    C.COMPILED: (
        ("## Call CompiledFxGraph f3", "Torch-Compiled Region: 0/1", "triton_poi_fused_add_0"),
        ("triton_attention_kernel", "torch/_dynamo/eval_frame.py(745): _fn"),
    ),
    C.GRAPHS: (("cudaGraphLaunch", "hipGraphLaunch"), ("cudaGraphInstantiate",)),
    C.CAPTURING: (("cudaStreamBeginCapture",), ("cudaStreamGetCaptureInfo_v2",)),
    C.VLLM: (("vllm::unified_attention", "vllm/worker.py(3): execute"), ("my_vllm",)),
    C.SGLANG: (("/opt/sglang/server.py(3): run",), ("sglang",)),
    C.AMD: (("hipLaunchKernel", "hipExtModuleLaunchKernel"), ("cudaLaunchKernel",)),
    C.LOADER: (("enumerate(DataLoader)#next", "train_dataloader_next"), ("load",)),
    C.LOADER_ALONE: (("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",), ("load",)),
    C.LOADER_WORKERS: (
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",),
        ("load",),
    ),
    C.ADAM: (("Optimizer.step#Adam.step",), ("Optimizer.step#AdamW.step",)),
    C.ADAMW: (("Optimizer.step#AdamW.step",), ("Optimizer.step#Adam.step",)),
    C.SGD: (("Optimizer.step#SGD.step",), ("Optimizer.step#SGDScheduleFree.step",)),
    C.FUSED: (
        ("aten::_fused_adamw_", "torch/optim/adam.py(7): _fused_adam", "Optimizer.step#FusedAdam"),
        ("aten::_foreach_add_",),
    ),
    C.FOREACH: (
        ("aten::_foreach_addcdiv_", "torch/optim/adam.py(7): _multi_tensor_adam"),
        ("aten::_foreach_norm",),
    ),
    C.ONE_BY_ONE: (("torch/optim/adam.py(7): _single_tensor_adam",), ("aten::addcdiv_",)),
    C.AUTOCAST: (("torch/amp/autocast_mode.py(7): __enter__",), ("aten::to",)),
    C.DDP: (("DistributedDataParallel.forward",), ("model.forward",)),
    C.FSDP1: (("FullyShardedDataParallel.forward",), ("FSDP::post_forward",)),
    C.FSDP2: (("FSDP::all_gather",), ("FullyShardedDataParallel.forward",)),
    C.SDPA: (
        ("aten::_scaled_dot_product_flash_attention",),
        ("aten::scaled_dot_product_attention",),
    ),
    C.MOE: (
        ("vllm::moe_forward", "fused_moe_kernel", "layers/moe/topk.py(40): forward"),
        (
            *("smoe_forward", "moerdijk", "parallel_state.py(1510): get_moe_ep_group"),
            "sglang/srt/layers/moe/utils.py(221): get_moe_a2a_backend",
        ),
    ),
    C.IMAGE_PROCESSOR: (
        ("transformers/models/vit/image_processing_vit.py(178): preprocess",),
        (
            "transformers/models/vit/image_processing_vit_fast.py(90): preprocess",
            "transformers/image_processing_utils_fast.py(600): _preprocess",
            "transformers/image_processing_utils.py(50): __call__",
        ),
    ),
    C.EMBEDDINGS: (
        ("fbgemm::split_embedding_codegen_lookup_sgd_function", "torchrec/models/dlrm.py(9): f"),
        ("aten::embedding", "fbgemm::f8f8bf16_rowwise"),
    ),
    C.EMPTY_CACHE: (("torch/cuda/memory.py(7): empty_cache",), ("make_empty_caches",)),
    C.OF_OPTIMIZER: (("Optimizer.step#AdamW.step",), ("Optimizer.zero_grad#AdamW.zero_grad",)),
    C.ZEROES_GRADIENTS: (("Optimizer.zero_grad#SGD.zero_grad",), ("aten::zero_",)),
    C.COLLECTS_GARBAGE: (("Python GC", "<built-in function collect>"), ("collect_batch",)),
    C.COMPILES: (
        ("backend_compile (dynamo_timed)", "torch/_inductor/compile_fx.py(7): compile_fx"),
        ("Torch-Compiled Region: 0/0", "TorchDynamo Cache Lookup"),
    ),
    C.LOADS_CODE: (("cuModuleLoadData", "hipModuleGetFunction"), ("cudaLaunchKernel",)),
    C.OWN_WARM_UP: (("[alex_net|warmup|forward]", "Warm-up", "warm_up"), ("forward", "swarmups")),
    C.CPU_OPTIMIZER: (
        ("Optimizer.step#DeepSpeedCPUAdam.step", "deepspeed/ops/adam/cpu_adam.py(9): step"),
        ("Optimizer.step#AdamW.step",),
    ),
    C.BROADCASTS_BUFFERS: (
        ("torch/nn/parallel/distributed.py(7): _sync_buffers", "aten::flatten_dense_tensors"),
        ("aten::flatten",),
    ),
    C.CHECKS_SIZES: (("<built-in function assert_size_stride>",), ("assert_equal",)),
    C.WALKS_MODULES: (("torch/nn/modules/module.py(7): named_modules",), ("forward",)),
    C.READS_A_NUMBER: (("aten::item",), ("aten::to",)),
    C.LAUNCHES_GRAPH: (("cudaGraphLaunch", "hipGraphLaunch"), ("cudaGraphInstantiate",)),
    C.IN_OPERATOR: (("aten::mm",), ("train.py(3): aten::mm",)),
    C.DRAWS_NUMBERS: (("aten::normal_", "aten::randn"), ("aten::native_layer_norm",)),
    C.COPIES: (("aten::to", "aten::copy_"), ("aten::item",)),
    C.SELECTS: (("aten::nonzero", "aten::index"), ("aten::index_select", "aten::index_put_")),
    C.READS_FILES: (("read", "getc", "fopen64"), ("readlink", "aten::read", "cudaMemcpy")),
    C.WRITES_FILES: (("write", "putc", "fflush"), ("writer", "overwrite")),
    C.SLEEPS: (("usleep", "clock_nanosleep"), ("asleep", "sched_yield")),
    C.WAITS_FOR_OTHERS: (("poll", "sem_timedwait", "pthread_cond_wait"), ("pthread_create",)),
    C.SYNCHRONISES: (("cudaDeviceSynchronize", "hipStreamSynchronize"), ("cudaMemcpyAsync",)),
}
"""Names that show a condition, each alone, and names that do not."""


@pytest.mark.parametrize(
    "condition", [*RECORDING_PATTERNS, *OWNER_PATTERNS], ids=lambda each: each.name
)
def test_names_that_show_a_condition(condition):
    patterns = RECORDING_PATTERNS | OWNER_PATTERNS
    shows, others = RECORDED[condition]
    for name in shows:
        assert condition in conditions_in(["aten::mm", name, "gemm"], patterns), name
    for name in others:
        assert condition not in conditions_in(["first", name, "gemm"], patterns), name


def starved(name):
    """Steps that load data in a call with a name."""
    host = Host()
    for number in range(6):
        with host.step(number):
            host.does(name, 3000)
            for _ in range(10):
                host.launch(200)
            host.synchronise()
    return host


@pytest.mark.parametrize(
    ("name", "code", "conditions"),
    [
        (
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
            "num_workers",
            "DataLoader, DataLoader in the process",
        ),
        (
            "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
            "prefetch_factor",
            "DataLoader, DataLoader with workers",
        ),
        ("train_dataloader_next", "num_workers", "DataLoader"),
    ],
)
def test_a_finding_has_the_conditions_of_its_advice(tmp_path, name, code, conditions):
    finding = found(diagnosed(tmp_path, starved(name)), "input_starvation")
    assert code in finding.advice[0].code
    assert finding.action == finding.advice[0].do
    assert finding.evidence.get("conditions") == conditions
    assert finding.to_dict()["advice"][0]["code"] == finding.advice[0].code


def test_conditions_that_matter_are_in_the_words_of_the_vendor():
    advice = (Advice("Replay a CUDA graph.", unless=(C.GRAPHS,)),)
    assert deciding_conditions(advice, {C.GRAPHS, C.STACKS}) == "CUDA graphs replayed"
    assert deciding_conditions(advice, {C.GRAPHS, C.AMD}) == "HIP graphs replayed"
    assert choose_advice(advice, {C.AMD}) == (Advice("Replay a HIP graph.", unless=(C.GRAPHS,)),)


def test_gradients_are_no_advice_where_ranks_exchange_embeddings(real_traces):
    """Of 13.8 ms of exposed communication, DDP's had 0.6, and its buckets were to be smaller."""
    made = diagnose(real_traces / "kineto" / "compare_control")
    advice = " ".join(each.do for each in found(made, "exposed_communication").advice)
    assert "Start the exchange before layers" in advice
    assert "bucket" not in advice
    assert "Send gradients" not in advice
