"""What a recording shows about the program that ran, which decides what advice fits.

``torch.compile`` is no advice for compiled code, nor are more workers for a loader without any.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from typing import Final

import numpy as np

from hta_widgets.analyses.time import patterns
from hta_widgets.grouping import grouped
from hta_widgets.trace.loaders.kineto.format import KINETO
from hta_widgets.trace.model.details import may_have_memory
from hta_widgets.trace.model.events import LAUNCH_CALLS, Events, Kind
from hta_widgets.trace.model.formats import Format
from hta_widgets.trace.model.training import trains
from hta_widgets.trace.ranks.recorded_kind import RecordedKind


class Condition(Enum):
    """Something that is true of a recording, or of one finding, in words."""

    COMPILED = "compiled code"
    """At least part of the program; the rest may be eager."""
    GRAPHS = "CUDA graphs replayed"
    CAPTURING = "CUDA graphs captured"
    STACKS = "stacks recorded"
    NO_OPERATORS = "no operators recorded"
    """By PyTorch's profiler, which without ProfilerActivity.CPU records no stacks either."""
    MEMORY = "memory recorded"
    TRAINING = "training"
    SERVER = "server"
    REQUEST = "one request"
    VLLM = "vLLM"
    SGLANG = "SGLang"
    TENSORRT_LLM = "TensorRT-LLM"
    AMD = "AMD GPU"
    NO_PYTORCH = "no PyTorch"
    WAITS_EACH_TIME = "waits after most launches"
    """Only asked of programs without PyTorch, like the next two."""
    READS_FLAGS = "a few bytes are read at a time"
    ONE_STREAM = "one stream"
    OTHER_RECORDER = "not recorded by PyTorch's profiler"
    SAMPLED = "CPU sampled"
    """During most idle time of a kind, as the host runs and is in no recorded call."""
    LOADER = "DataLoader"
    LOADER_ALONE = "DataLoader in the process"
    SHORT_WAITS = "short waits for batches"
    LOADER_WORKERS = "DataLoader with workers"
    ADAM = "Adam"
    ADAMW = "AdamW"
    SGD = "SGD"
    FUSED = "fused optimizer"
    FOREACH = "foreach optimizer"
    ONE_BY_ONE = "optimizer of one tensor at a time"
    AUTOCAST = "autocast"
    DDP = "DistributedDataParallel"
    FSDP1 = "FullyShardedDataParallel"
    FSDP2 = "fully_shard"
    EMPTY_CACHE = "torch.cuda.empty_cache"
    UNCACHED = "memory freed at once"
    SDPA = "scaled_dot_product_attention"
    MOE = "mixture of experts"
    IMAGE_PROCESSOR = "image processor of Transformers on the CPU"
    EMBEDDINGS = "tables of embeddings"

    # true of the finding, by its rule or the names of its owners
    OTHERS_IN_TIME = "other hosts launch in time"
    OF_OPTIMIZER = "in the optimizer"
    ZEROES_GRADIENTS = "in zero_grad"
    SLOWED_BY_STACKS = "a host twice as fast would do"
    LATE_BY_WAITS = "a host that does not wait for the GPU would do"
    OUTSIDE_CALLS = "outside all calls"
    COLLECTS_GARBAGE = "in the garbage collector"
    COMPILES = "in a compiler"
    LOADS_CODE = "in calls that load code"
    OWN_WARM_UP = "in the job's own warm-up"
    CPU_OPTIMIZER = "in an optimizer on the CPU"
    LOSES_ITS_CORE = "stops in operators of all kinds"
    COMPUTES_ON_CPU = "in operators that run on the CPU"
    BROADCASTS_BUFFERS = "in DDP's broadcast of buffers"
    GATHERS = "all-gathers"
    GATHERS_ONE = "one long all-gather"
    EXPERTS = "tokens sent to experts"
    EXCHANGES = "all-to-alls, or sends and receives"
    TAKE_TURNS = "another rank is late each time"
    LATENCY = "short transfers"
    ONE_EACH = "a transfer for each gradient"
    SAME_STREAM = "transfers on the stream that computes"
    NOT_LAUNCHED = "the next kernel is launched late"
    OPTIMIZER_WAITS = "the optimizer waits for the transfer"
    CHECKS_SIZES = "in Inductor's size checks"
    MANY_TIMES_SLOWER = "kernels take several times as long"
    WALKS_MODULES = "in a walk over all modules"
    READS_FILES = "in calls that read"
    WRITES_FILES = "in calls that write"
    SLEEPS = "in calls that sleep"
    BEFORE_KERNELS = "copies before the first kernel"
    WHOLE_GRAPHS = "CUDA graphs without their kernels"
    SCRIPTED = "in the first call of a TorchScript function"
    FIRST_COMPILED = "before the first kernel of compiled code"
    TOUCHES_PAGES = "the host touches managed memory that is on the GPU"
    WAITS_FOR_OTHERS = "in calls that wait for other threads or processes"
    READS_A_NUMBER = "a number is read"
    IN_OPERATOR = "in an operator of PyTorch"
    ONLY_COPIES = "in calls that only copy"
    FEW_ROWS = "linear layers of few rows"
    ENDS_AHEAD = "a host that is ahead in the end"
    NOT_CAPTURED = "steps without a graph, beside others"
    MANY_TOKENS = "steps of more tokens than graphs are captured for"
    LAUNCHES_GRAPH = "in the launch of a graph"
    DRAWS_NUMBERS = "random numbers are drawn"
    COPIES = "a copy waits"
    SELECTS = "sizes depend on values"
    SYNCHRONISES = "an explicit synchronisation"
    PAGEABLE = "pageable memory"
    PINNED = "pinned memory"
    TO_HOST = "to the host"
    TO_DEVICE = "to the GPU"
    THERE_AND_BACK = "as much to the GPU as back"
    ENDS_STEP = "at the end of a step"
    """Nothing is launched between it and the step's end."""
    HALF = "16 bits"
    DOUBLE = "float64"
    CONVOLUTIONS = "in convolutions"
    UNEVEN = "dimensions that are no multiples of 8"
    TF32 = "GPU with TF32"
    BF16 = "GPU with bfloat16"
    ATTENTION = "unfused attention"
    LEFT_BY_COMPILER = "in compiled code that fuses nothing"
    OLDER_ATTENTION = "FlashAttention-2 on a GPU that it does not know"
    REFUSED_FUSION = "scaled_dot_product_attention without a fused kernel"
    NHWC = "convolutions in NHWC"
    IMAGES_NHWC = "images in NHWC"
    FLOAT32 = "products in float32 without tensor cores"
    NOT_RECORDED = "not recorded"
    NOT_OPENED = "ranks that were not opened"
    OTHER_RANKS = "ranks that were not recorded"
    NO_KERNELS = "a table without kernels"
    NO_COLLECTIVES = "communication without its collective"
    SAME_SIZES = "the same kernels and sizes"
    NEAR_ROOF = "close to the peak"
    FP8 = "GPU with FP8"
    NO_SHAPES = "kernels without shapes"
    CAPTURES = "captures of other graphs"
    BATCH_NORM = "batch norms"
    TRAINS_NORMS = "batch norms in training mode"
    EXPERTS_OF_TRITON = "experts in kernels of Triton, and none of AITER"
    ONE_ROW = "products of a matrix and a vector"
    FEW_BLOCKS = "fewer blocks than multiprocessors"
    FEW_THREADS = "blocks of fewer threads than run together"
    BY_REGISTERS = "few blocks at a time, by their registers"
    BY_SHARED_MEMORY = "few blocks at a time, by their shared memory"


FREES_A_LAUNCH: Final = 0.2
"""From this many calls that free GPU memory per launch, nothing keeps it for the next tensor. The
caching allocator frees in rare bursts; a job without it made 1,360 such calls in 2,360 launches."""

FEWEST_FREES: Final = 100
"""Fewest such calls that count: a burst among few launches says nothing."""

FEWEST_OUTSIDE: Final = 5
"""From this many calls that free GPU memory outside all operators, the program asks for it: when
memory is short, the caching allocator frees inside the operator that allocates."""

OFTEN_WAITS: Final = 0.5
"""From this many waits per launch, launches cannot be captured in a graph as they are: a solver
waited 5,108 times for 6,039 kernels."""

FLAG_BYTES: Final = 16
"""Copies to the host that are not larger hold a number that decides what comes next."""

FEWEST_FLAGS: Final = 10
"""Fewest such copies that count; and they must be most of the copies to the host. A solver read 4
bytes before each of 2,455 iterations, and was told to wait once, after all of them."""

RECORDING_PATTERNS: Final = {
    Condition.COMPILED: r"## Call CompiledFxGraph|torch/_inductor/|CompiledFunction"
    r"|Torch-Compiled Region|: compile_wrapper|(?m:^triton_(?:poi|red|per|tem)_)",
    Condition.GRAPHS: r"(?:cuda|cu|hip)GraphLaunch",
    Condition.CAPTURING: r"(?:cuda|cu|hip)StreamBeginCapture",
    Condition.VLLM: r"(?m:^vllm::)|\bvllm/",
    Condition.SGLANG: r"\bsglang/",
    Condition.AMD: r"(?m:^hip\w*Launch)",
    Condition.LOADER: r"(?i:data_?loader)",
    Condition.LOADER_ALONE: r"_SingleProcessDataLoaderIter",
    Condition.LOADER_WORKERS: r"_MultiProcessingDataLoaderIter",
    Condition.ADAM: r"Optimizer\.step#Adam\.step",
    Condition.ADAMW: r"Optimizer\.step#AdamW\.step",
    Condition.SGD: r"Optimizer\.step#SGD\.step",
    Condition.FUSED: r"_fused_(?:adam|adamw|sgd|adagrad)(?:_|\b)|Optimizer\.step#Fused",
    Condition.FOREACH: r"_foreach_(?:addcdiv|addcmul|lerp)|: _multi_tensor_\w+",
    Condition.ONE_BY_ONE: r": _single_tensor_\w+",
    Condition.AUTOCAST: r"autocast_mode\.py|_amp_(?:foreach_non_finite|update_scale)",
    Condition.DDP: r"DistributedDataParallel|torch\.distributed\.ddp\."
    r"|torch/nn/parallel/distributed\.py",
    Condition.FSDP1: r"FullyShardedDataParallel",
    Condition.FSDP2: r"FSDP::|FSDPState|\bfully_shard\b",
    Condition.EMPTY_CACHE: r"\bempty_?[cC]ache\b|emptyCache",
    Condition.SDPA: r"(?m:^aten::_scaled_dot_product_)",
    # with every model, SGLang calls moe/utils.py and get_moe_ep_group to ask for experts
    Condition.MOE: r"(?i:(?<![a-z])(?<!get_)moe(?![a-z])(?!/(?:utils|routed_experts_capturer)\.py)"
    r"|topkgating)",
    Condition.EMBEDDINGS: r"embedding_codegen|KJTAllToAll|\btorchrec/",
    Condition.IMAGE_PROCESSOR: r"/image_processing_(?!utils|\w*_fast\.py)\w+\.py",
}
"""Names of events that show a condition of the whole recording."""

OWNER_PATTERNS: Final = {
    Condition.OF_OPTIMIZER: r"Optimizer\.step#|: _(?:single|multi)_tensor_",
    Condition.ZEROES_GRADIENTS: r"Optimizer\.zero_grad#|: zero_grad\b",
    Condition.COLLECTS_GARBAGE: r"Python GC|built-in (?:method|function) collect\b|\bgc\.collect",
    Condition.COMPILES: rf"(?m:{patterns.COMPILING.pattern})",
    Condition.LOADS_CODE: patterns.INITIALISING.pattern,
    Condition.OWN_WARM_UP: r"(?i:(?<![a-z])warm[-_ ]?up(?![a-z]))",
    Condition.CPU_OPTIMIZER: r"(?:CPU_?|cpu_)(?:Adam|adam|Adagrad|adagrad|Lion|lion)",
    Condition.BROADCASTS_BUFFERS: r"(?:un)?flatten_dense_tensors|_sync_(?:module_)?buffers"
    r"|_broadcast_coalesced|broadcast_coalesced",
    Condition.CHECKS_SIZES: r"assert_size_stride",
    Condition.WALKS_MODULES: r"named_(?:modules|members|parameters|buffers)\b",
    Condition.READS_FILES: r"(?m:^(?:f?open(?:64|at)?|p?readv?(?:64)?|fread|fgets|f?getc|getchar"
    r"|getline|getdelim|fscanf|scanf)$)",
    Condition.WRITES_FILES: r"(?m:^(?:p?writev?(?:64)?|fwrite|f?puts|f?putc|putchar|v?f?printf"
    r"|fflush|fsync)$)",
    Condition.SLEEPS: r"(?m:^(?:sleep|usleep|(?:clock_)?nanosleep)$)",
    Condition.WAITS_FOR_OTHERS: r"(?m:^(?:p?poll|p?select|epoll_p?wait|recv\w*|accept4?|futex"
    r"|sem_\w*wait|pthread_cond_\w*wait|pthread_join|pthread_mutex_lock|wait(?:pid|id|[34])?)$)",
    Condition.READS_A_NUMBER: r"aten::item|_local_scalar_dense|aten::is_nonzero|aten::equal",
    Condition.IN_OPERATOR: r"(?m:^aten::|^\w+Backward\d+$)",
    Condition.LAUNCHES_GRAPH: r"(?:cuda|cu|hip)GraphLaunch",
    Condition.DRAWS_NUMBERS: r"aten::(?:(?:normal|uniform|random|bernoulli)_|randn?\b|randint\b)",
    Condition.COPIES: r"aten::(?:to|_to_copy|copy_|cpu)\b|Memcpy",
    Condition.SELECTS: r"aten::(?:nonzero|masked_select|index|unique\w*|repeat_interleave)\b",
    Condition.SYNCHRONISES: r"(?:cuda|hip)(?:Device|Thread|Stream|Event)Synchronize"
    r"|: synchronize\b",
}
"""Names of the calls that own the time of a finding, and what they show."""


def holding(known: Mapping[Condition, bool]) -> frozenset[Condition]:
    """Those of some conditions that hold."""
    return frozenset(each for each, holds in known.items() if holds)


_OF_PYTORCH: Final = re.compile(
    r"\b(?:at|aten|c10)::|torch|triton_|elementwise_kernel|multi_tensor_apply"
)
"""Names of PyTorch's operators and kernels in exports of Nsight Systems, also shortened ones."""

_OF_XLA: Final = re.compile("XlaModule:#")
"""Ranges of XLA, whose kernels may come from Triton as PyTorch's do."""

_LAUNCHES: Final = re.compile("Launch")

_SERVERS: Final = {Condition.VLLM, Condition.SGLANG, Condition.TENSORRT_LLM}
_LOADERS: Final = {Condition.LOADER_ALONE, Condition.LOADER_WORKERS}


def conditions_of(
    events: Events, kind: RecordedKind, trace_format: Format = KINETO
) -> frozenset[Condition]:
    """Conditions that are true of the recording of a rank."""
    found = set[Condition]().union(*map(_conditions_of_name, events.name.values))
    no_operators = trace_format == KINETO and not events.rows_of(Kind.CPU_OP).size
    of_options = {
        Condition.STACKS: bool((events.kind == Kind.PYTHON).any()),
        Condition.MEMORY: may_have_memory(events),
        Condition.NO_OPERATORS: no_operators,
        Condition.TRAINING: trains(events),
    }
    found |= holding(of_options)
    found |= {each for each in _SERVERS if each.value == kind.engine}
    if (kind.engine or found & _SERVERS) and Condition.TRAINING not in found:
        found.add(Condition.SERVER)
    if kind.name == "request":
        found.add(Condition.REQUEST)
    if trace_format != KINETO:
        found.add(Condition.OTHER_RECORDER)
        names = events.name.values
        if any(map(_OF_XLA.search, names)) or not any(map(_OF_PYTORCH.search, names)):
            found |= {Condition.NO_PYTORCH, *_of_loops(events)}
    if _frees_at_once(events):
        found.add(Condition.UNCACHED)
    elif _frees_outside_operators(events):
        found.add(Condition.EMPTY_CACHE)
    if found >= _LOADERS:
        found -= _LOADERS  # the names around a finding show which of them is slow
    return frozenset(found)


@lru_cache(maxsize=2**13)
def _conditions_of_name(name: str) -> frozenset[Condition]:
    """Conditions that one name shows; cached, as the ranks of a job share most names."""
    return frozenset(conditions_in([name], RECORDING_PATTERNS))


def _of_loops(events: Events) -> Iterator[Condition]:
    """How a loop that launches work waits for it."""
    calls = events.rows_of(*LAUNCH_CALLS)
    waits, launches = (
        np.count_nonzero(events.named(calls, each)) for each in (patterns.BLOCKING, _LAUNCHES)
    )
    if waits >= OFTEN_WAITS * launches > 0:
        yield Condition.WAITS_EACH_TIME
    kernels = events.rows_of(Kind.KERNEL)
    streams = grouped(events.device[kernels], events.stream[kernels]).first.size
    if kernels.size and streams == np.unique(events.device[kernels]).size:
        yield Condition.ONE_STREAM
    copies = events.side.get("transfers")
    if copies is not None:
        to_host = events.named(copies.rows, patterns.DEVICE_TO_HOST)
        sizes = np.asarray(copies.columns["bytes"], dtype=np.int64)[to_host]
        flags = np.count_nonzero((sizes > 0) & (sizes <= FLAG_BYTES))
        if flags >= max(FEWEST_FLAGS, sizes.size / 2):
            yield Condition.READS_FLAGS


def _frees_at_once(events: Events) -> bool:
    calls = events.rows_of(*LAUNCH_CALLS)
    frees = events.named(calls, patterns.ALLOCATING) & events.named(calls, patterns.FREEING)
    launches = events.named(calls, patterns.GIVES_WORK)
    count = np.count_nonzero(frees)
    return bool(count >= max(FEWEST_FREES, FREES_A_LAUNCH * np.count_nonzero(launches)))


def _frees_outside_operators(events: Events) -> bool:
    """Whether most calls that free GPU memory are outside all operators of their thread."""
    calls, operators = events.rows_of(*LAUNCH_CALLS), events.rows_of(Kind.CPU_OP)
    is_free = events.named(calls, patterns.ALLOCATING) & events.named(calls, patterns.FREEING)
    frees, outside = calls[is_free], 0
    if not operators.size or frees.size < FEWEST_OUTSIDE:
        return False
    for tid in np.unique(events.tid[frees]).tolist():
        asked = events.start_ns[frees[events.tid[frees] == tid]]
        of_thread = operators[events.tid[operators] == tid]  # in order of start
        starts = events.start_ns[of_thread]
        until = np.maximum.accumulate(starts + events.duration_ns[of_thread])
        before = np.searchsorted(starts, asked, side="right")
        outside += int((np.append(until, asked.min() - 1)[before - 1] <= asked).sum())
    return outside >= max(FEWEST_OUTSIDE, frees.size / 2)


def conditions_of_owners(names: Iterable[str]) -> set[Condition]:
    """Conditions shown by the names of the calls that own the time of a finding."""
    return conditions_in([*names], OWNER_PATTERNS)


def conditions_in(names: Collection[str], patterns: dict[Condition, str]) -> set[Condition]:
    """Conditions whose pattern matches one of the names."""
    text = "\n".join(names)  # one search in all names is many times faster than one in each
    return {each for each, pattern in patterns.items() if re.search(pattern, text)}
