"""What an anonymised copy keeps, as data: everything that is not here is hashed or left out.

There are three kinds: public names, which widely used libraries write; parts of names that an
analysis reads, wherever they are; and fields with the numbers that analyses count.
"""

from __future__ import annotations

import re
import sys
from typing import Final

from hta_widgets.analyses.roofline.formulas import COMPUTING, MOVING
from hta_widgets.analyses.time.patterns import PREPROCESSING
from hta_widgets.trace.model.formats import UNPROFILED_STEP
from hta_widgets.trace.model.kernels import COMMUNICATION_NAMES, COMPUTATION_NAMES, MEMORY_NAMES
from hta_widgets.trace.model.steps import NUMBERED_RANGE, REQUEST_SPAN, UNNUMBERED_RANGE, WARM_UP
from hta_widgets.trace.model.training import BACKWARD_RANGE, KERNELS_OF_TRAINING, OPTIMIZER_RANGE


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


CATEGORIES: Final = re.compile(
    r"(?:concurrent_)?kernel|(?:gpu_)?mem(?:cpy|set)|(?:cuda|hip|xpu|mtia|privateuse1)_(?:runtime|"
    r"driver|sync|profiler_range)|runtime|driver|cpu_op|operator|(?:gpu_)?user_annotation|"
    r"python_function|overhead|trace|cpu_instant_event|ac2g|fwdbwd|async_(?:cpu_to_)?gpu|"
    r"mtia_ccp_events",
    re.IGNORECASE,
)
READ_IN_CATEGORIES: Final = (re.compile(r"_(?:runtime|driver)$", re.IGNORECASE),)

PYTHON: Final = sys.stdlib_module_names
"""Modules of Python: their files keep their names, but nothing that people add to them does."""

PACKAGES: Final = frozenset({"torch", "torchvision", "torchaudio", "triton", "numpy"})
"""Packages whose frames keep path and function, because few people have a changed copy."""

NAMESPACES: Final = frozenset(
    {
        *("aten", "prim", "prims", "c10d", "c10d_functional", "_c10d_functional", "quantized"),
        *("_c10d_functional_autograd", "torchvision", "torchaudio", "mkldnn", "symm_mem"),
    }
)
"""Namespaces of PyTorch's operators."""

CPP_NAMESPACES: Final = frozenset(
    {
        *("at", "c10", "caffe2", "std", "cub", "thrust", "cuda", "cooperative_groups", "hip"),
        *("cutlass", "cute", "cudnn", "cublas", "cublasLt", "cask_cudnn", "xmma_cudnn", "xmma_new"),
        *("xmma_trt", "cusparse", "cufft", "cusolver", "curand", "flash", "pytorch_flash"),
        *("PyTorchMemEffAttention", "ck", "ck_tile", "rocprim", "hipcub", "hiprand", "rocrand"),
        *("rocblas", "miopen", "mscclpp", "epilogue", "xnack"),
    }
)
"""Namespaces of kernels and template arguments of PyTorch, NVIDIA and AMD."""

CPP_WORDS: Final = re.compile(
    r"void|bool|char|short|int|long|float|double|half|unsigned|signed|const|volatile|operator|lambda"
    r"|true|false|auto|struct|class|enum|anonymous|namespace|unnamed|(?:u?int\d{1,3}|size)_t"
    r"|type|value|instance|T\d?|__half2?|__(?:nv|hip)_\w+|float2|float4|int2|int4|nullptr|clone|kd"
    r"|\d{1,6}(?:u|l|ul|ull|ll|f)?|\d{1,4}(?:x\d{1,4}){1,4}|_?[A-Z]|\{default\}|isra|part|constprop"
)
"""Words of C++ itself, and sizes."""

KERNELS: Final = re.compile(
    r"(?:nccl|rccl|msccl)(?:Dev)?Kernel(?:_(?:AllReduce|AllGather|ReduceScatter|Broadcast|Reduce"
    r"|SendRecv|AllTo[Aa]ll\w?|AlltoAll|Generic|Sum|Prod|Min|Max|MinMax|Avg|PreMulSum|SumPostDiv|RING"
    r"|TREE|NVLS|NVLSTREE|COLLNET|DIRECT|CHAIN|PAT|LL|LL128|SIMPLE|[ub]?f?\d{1,2}(?:e\dm\d)?|[iu]\d{1,2}"
    r"|u?int\d{1,2}_t|float|half|double|bfloat16|\d))*|ncclDevKernelArgs(?:Storage)?|ncclDevComm|ncclWork(?:Elem)?|Cijk_\w+|nvjet_\w+"
    r"|(?:maxwell|pascal|volta|turing|ampere|hopper)_(?:(?:bf|fp|tf)\d+_|int8_)?[a-z]{0,3}\d{0,6}"
    r"(?:gemm|cudnn|cf32|xmma)\w*|sm\d{2,3}_xmma_\w+|cutlass_\d+_\w+|cudnn[A-Z]\w*|cublas\w*"
    r"|cask\w*|cusparse\w*|igemm_(?:fwd|bwd|wrw)_gtc\w+"
    r"|gemm(?:k1|SN_[NT]{2}|sn_[nt]{2}|v\w{0,3}|2T|2N)?_kernel\w{0,4}|gemv(?:NSP|2[TN]|x)?_kernel\w{0,4}"
    r"|(?:dot|reduce_1Block|asum|nrm2|splitK_?reduce|scal|axpy)_?kernel\w{0,4}|splitKreduce_kernel"
    r"|(?:Trivial)?OffsetCalculator|OpaqueType|__amd_rocclr_\w+|SubTensorOpWith\w+"
    r"|fft2d_[rc]2[rc]_\w{0,12}|[nN]c[dD]?hw[tT]oN[dD]?hwc\w{0,8}|n[dD]?hwcToNc[dD]?hw\w{0,8}"
    r"|batched_transpose_\d+x\d+_\w{0,12}|implicit_convolve_sgemm|dgrad_(?:alg\d_)?engine"
    r"|wgrad_alg\d_engine"
    r"|[dw]grad2d(?:_grouped_direct)?_kernel|winograd[A-Z]\w*|kernel_conv_params|Params|kernel"
    r"|Kernel2?|fmha_cutlass[FB]_\w+|[fF]lash_(?:fwd|bwd)(?:_(?:splitkv|combine|dq|dk|dv|loop|seqk"
    r"|parallel|convert|dot|do|o|kernel|sm\d+))*"
    r"|(?:index_|vectorized_|unrolled_)?elementwise_kernel(?:_manual_unroll)?|reduce_kernel"
)
"""Functions and types of these libraries without a namespace."""

FUSED: Final = re.compile(r"triton_(?:[a-z]{3}_)?fused_(.*?)(_\d{1,6})?")
FUSED_WORDS: Final = words("""
    _ 0 1 2 2d 3d abs add addmm all amax amin and any arange arg argmax argmin avg backward
    baddbmm batch bernoulli bitwise bmm bool cat clamp clone constant conv convolution copy
    cos cumsum detach div dropout embedding empty eq erf exp expand expm1 fill flip floor
    forward full functional gather ge gelu glu group gt hardtanh index index_put isnan layer
    le leaky lift fresh like linear log log1p logical logsumexp loss lt masked max maximum
    mean min minimum mm mse mul nd native ne neg new nll norm not nonzero or pad permute
    pool pow prod put reciprocal relu remainder repeat reshape rms roll rsqrt rsub scalar
    scaled dot product attention scatter select sigmoid sign silu sin slice softmax softplus
    sort split sqrt squeeze stack std sub sum t tan tanh tensor threshold to topk transpose
    tril triu unbind unfold unsafe unsqueeze upsample var view where with xor zeros
    """)
"""Words of PyTorch operators that appear in the names of compiled kernels."""

APIS: Final = re.compile(
    r"(?:cu|cuda|cudnn|cublas(?:Lt)?|cufft|cusolver|cusparse|nvrtc|nccl|hip|hs[a]|rccl|roctx|mtia"
    r"|ze|ur|mc|mu)[A-Z]\w*|nvrtc\w*|INVALID|Unknown|__\w+"
)
"""Calls of runtimes and drivers, kept only in their categories."""

GPU_TEXTS: Final = re.compile(
    r"(?:hip|cuda)?Mem(?:cpy|set) ?[A-Za-z]{0,8}(?: ?\((?:Device|Host|Pinned|Pageable|Array|Managed"
    r"|Unified|Unknown)(?: -> (?:Device|Host|Pinned|Pageable|Array|Managed|Unified|Unknown))?\))?"
    r"|(?:Context|Event|Stream) (?:Sync|Wait Event)|Stream Wait Event|Context Synchronize|Unknown"
    r"|Copy(?:Host|Device)To(?:Host|Device)|FillBuffer|event_wait|event_record|INVALID"
    r"|Activity Buffer Request|Lazy Function Loading|Module Loading|Driver Compiler|Instrumentation"
    r"|Resource|Runtime Triggered Module Loading|Buffer Flush|CUPTI Resource|__missing__"
)
"""Copies, fills, waits and the profiler's own activities."""

_OPTIMIZERS: Final = (
    r"Adam|AdamW|SGD|Adagrad|Adadelta|Adamax|NAdam|RAdam|RMSprop|ASGD|Rprop|LBFGS|Muon"
)
_COLLECTIVES: Final = (
    r"_?(?:all_?reduce|all_?gather|reduce_?scatter|broadcast|all_?to_?all|send|recv|barrier|gather"
    r"|scatter|reduce|coalesced)(?:_?(?:base|into_tensor|tensor|coalesced|single|v|uneven|sparse"
    r"|_allgather_base_|oop|any))*_?"
)

CALLS: Final = re.compile(
    rf"ProfilerStep\s*#\s*\d{{1,18}}|record_param_comms|Optimizer\.(?:step|zero_grad)#(?:{_OPTIMIZERS})"
    r"\.(?:step|zero_grad)|enumerate\(DataLoader\)#_(?:Single|Multi)Process(?:ing)?DataLoaderIter"
    r"\.__next__|torch::autograd::(?:AccumulateGrad|CopySlices|CopyBackwards|GraphRoot|Error)"
    rf"|(?:nccl|rccl|xccl|hccl|gloo|mpi|ucc):(?:{_COLLECTIVES}|send \d+->\d+|recv \d+<-\d+)"
    r"|## backward ##|## forward ##|(?:DistributedDataParallel|FullyShardedDataParallel)\.forward"
    r"|FullyShardedDataParallel\._\w+|Torch-Compiled Region: \d+/\d+|TorchDynamo Cache Lookup"
    r"|CompiledFunction(?:Backward)?|Pregraph bytecode|AOTDispatcher Runtime Wrapper Prologue"
    r"|PyTorch Profiler(?: \(-?\d+\))?|Iteration Start: (?:PyTorch Profiler|__cupti_profiler__)"
    r"|__cupti_profiler__(?: \(-?\d+\))?|Record Window End|\[memory\]|Python GC"
    r"|scheduler\.run_batch|model_inference|execute_diffusion_\d{1,18}_\d+x\d+|detach_?"
    r"|<(?:back|for)ward op>"
    r"|capture_\d{1,18}_(?:DECODE|PREFILL|MIXED|PIECEWISE|FULL|NONE|EXTEND)|ac2g|fwdbwd|async_gpu"
)
"""Operators and annotations that PyTorch and inference engines write."""

DERIVATIVE: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,60}Backward\d{1,2}")
"""Backward operators that PyTorch generates; a user's function has no number at the end."""

EVALUATES: Final = "autograd::engine::evaluate_function: "
MODULE: Final = "nn.Module: "

MODULES: Final = words("""
    Module Sequential ModuleList ModuleDict Identity Linear Bilinear LazyLinear Conv1d
    Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d BatchNorm1d BatchNorm2d
    BatchNorm3d SyncBatchNorm LayerNorm GroupNorm RMSNorm InstanceNorm1d InstanceNorm2d
    InstanceNorm3d Dropout Dropout1d Dropout2d Dropout3d Embedding EmbeddingBag ReLU ReLU6
    GELU SiLU Mish ELU LeakyReLU PReLU Sigmoid Tanh Softmax LogSoftmax Softplus Hardswish
    Hardsigmoid MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d
    AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool2d Flatten
    Unflatten Upsample PixelShuffle MultiheadAttention Transformer TransformerEncoder
    TransformerEncoderLayer TransformerDecoder TransformerDecoderLayer LSTM GRU RNN LSTMCell
    GRUCell CrossEntropyLoss MSELoss L1Loss NLLLoss BCELoss BCEWithLogitsLoss SmoothL1Loss
    HuberLoss KLDivLoss ZeroPad2d DataParallel DistributedDataParallel
    FullyShardedDataParallel OptimizedModule CheckpointWrapper
    """)
"""Modules of PyTorch."""

BUILT_IN_OWNERS: Final = re.compile(
    r"type|Tensor|Parameter|dict|list|tuple|set|frozenset|str|bytes|int|float|slice|generator|module"
    r"|numpy\.ndarray|torch\._C(?:\.\w+){1,3}"
)
"""Types whose built-in methods are Python's or PyTorch's."""

READ_IN_CALLS: Final = tuple(
    re.compile(part, flags)
    for flags, parts in (
        (
            0,
            (
                r"_?(?:SingleProcess|MultiProcessing)?DataLoader(?:Iter)?|dataloader_next",
                r"torch/utils/data/|torch/(?:autograd/)?profiler",
                r"_disable_profiler|_enable_profiler|_prepare_profiler|\(dynamo_timed\)$",
                r"torch/_dynamo/convert_frame|compile_inner|do_bench|triton/compiler/",
                r"triton/testing\.py|CUDAGraphNode\.record",
                r"torch/_inductor/(?:compile_fx|async_compile|select_algorithm)",
                r"^Python GC|^<built-in(?: function collect>)?|^gc\.py",
                r"run_backward|## backward(?: ##)?",
                r"^autograd::engine::(?:evaluate_function)?",
                r"Optimizer\.(?:step|zero_grad)#|^Optimizer\.",
                r"\.step$|^nn\.Module: ",
                r"^enumerate\(DataLoader\)|^nccl:|(?:\bccl|ccl|gloo|mpi|ucc):",
                r"^(?:cu|cublas|cublasLt|cudnn|cufft|cusolver|cusparse|nccl|rccl)(?=[A-Z])",
                r"^cuda|^hip|^GraphModule",
                r"Backward(?=\d+$)|(?<=Backward)\d+$|_?c10d(?:_functional)?::|^aten::|\breducer::",
                r"__enter__|__exit__|_?record_function|RecordFunction|^<|(?:^|/)torch/|\btorch/",
                r"Stream(?:Begin|End)Capture|GraphInstantiate|GraphLaunch|Memcpy|Memset",
                r"Launch(?:Cooperative)?(?:Kernel)?",
                r"^capture_\d{1,18}_|^triton_|^__(?:init|call|next|iter|getitem|len|new|main)__$",
                r"^<(?:lambda|module|genexpr|listcomp)>$|^forward$",
                r"ProfilerStep(?:\s*#\s*\d{1,18})?|\.py\(\d{1,9}\)(?:: )?",
                f"^(?:{'|'.join(map(re.escape, (*COMPUTING, *MOVING)))})$",
                r"^## Call CompiledFxGraph |^fallback_function$",
                REQUEST_SPAN.pattern,
                *(r"XlaModule:#hlo_module=", r",program_id=\d{1,9}#\Z"),
            ),
        ),
        (
            re.IGNORECASE,
            (
                PREPROCESSING.pattern,
                NUMBERED_RANGE.pattern,
                UNNUMBERED_RANGE.pattern,
                BACKWARD_RANGE.pattern,
                OPTIMIZER_RANGE.pattern,
                WARM_UP.pattern,
            ),
        ),
    )
    for part in parts
)
"""Parts of the names of calls, frames and annotations that analyses read."""

READ_IN_KERNELS: Final = tuple(
    re.compile(part, re.IGNORECASE)
    for part in (
        *COMMUNICATION_NAMES,
        *MEMORY_NAMES,
        *COMPUTATION_NAMES,
        r"flash|fmha|attn_fwd|mem_eff|sdpa|attention",
        r"s?gemm|nvjet|xmma|wgmma|gmma|scudnn|[hi]mma|cutlass|convert|conv|[dw]grad|fprop",
        r"winograd|Cijk_",
        r"tensorop|s16816|s1688|s884|h884|h1688|bf16bf16|f16f16|tf32|e4m3|e5m2|MFMA|_MI(?:16|32)x",
        r"_ffma_|simt_[dzh]?|f32f32_f32f32_f32|[dw]grad_(?:alg[01]_)?engine<float",
        r"implicit_convolve_sgemm|elementwise_kernel|fp16_sgemm|hgemm|FillFunctor",
        r"nc(d?)hwTo(?:Folded)?n\1hwc|n(d?)hwcToNc\1hw|batched_transpose_\d+x\d+_|nd?hwc",
        r"^(?:hip|cuda)?Memcpy\s*[A-Z]to[A-Z]|\(anonymous namespace\)(?:::)?",
        r"^triton_|memset|fill_?buffer|^void\s+nccl",
        r"send|recv|broadcast|barrier|reduce|gather|scatter",
        r"\b(?:dispatch|combine)\b",
        r"moe(?![^\W\d_])|expert|group(?:ed)?_?(?:gemm|mm|problem|masked)|matmul_ogs|matmul_scatter",
        r"fused_moe_kernel",
        *KERNELS_OF_TRAINING.pattern.split("|"),  # each alone, as they overlap
    )
)
"""Parts of kernel names that analyses read."""

TEXTS: Final = {
    "dtype": re.compile(
        r"(?:c10::|torch\.|nccl)?(?:B?Float|float|BFloat|bfloat|Half|half|Double|double|Long|long|Int"
        r"|int|Short|short|Char|char|Byte|byte|Bool|bool|u?int|UInt|QU?Int|Complex\w{0,6})"
        r"(?:_?e\dm\d\w{0,4}|\d{1,3}(?:_e\dm\d\w{0,4})?)?(?:_t)?|None|Unknown|undefined|"
    ),
    "Collective name": re.compile(
        rf"{_COLLECTIVES}|wait|init|start_coalescing|end_coalescing|all_to_allv|"
    ),
    "cuda_sync_kind": GPU_TEXTS,
    "labels": re.compile(r"CPU|GPU \d{1,4}"),
    "scope": re.compile(r"user_scope|function|"),
    "kernel_backend": re.compile(r"triton|cpp|"),
    "displayTimeUnit": re.compile(r"ms|ns"),
    "backend": re.compile(
        r"(?:(?:cpu|cuda|xpu|hpu):)?(?:nccl|gloo|mpi|ucc|xccl|hccl|undefined)"
        r"(?:,(?:cpu|cuda):(?:nccl|gloo))*|"
    ),
    "bp": re.compile("e"),
    "s": re.compile("[gpt]"),
    "name": re.compile(r"(?:thread|stream) -?\d{1,20}|Spans|Traces|PyTorch Profiler"),
    "tid": re.compile(r"stream \d{1,9}|PyTorch Profiler(?: \(-?\d{1,9}\))?|Spans|Traces"),
    "pid": re.compile(r"Spans|Traces|CPU|GPU \d{1,4}"),
    "id": re.compile(r"\d{1,20}"),
}
"""Fields and arguments that are texts, and the whole texts that they keep; others are hashed."""

NUMBERS: Final = frozenset(
    {
        *("device", "stream", "correlation", "registers per thread", "shared memory", "grid"),
        *("blocks per SM", "warps per SM", "block", "est. achieved occupancy %", "bytes"),
        *("memory bandwidth (GB/s)", "Fwd thread id", "Sequence number", "External id", "Rank"),
        *(
            "external id",
            "Python id",
            "Python parent id",
            "Python module id",
            "Ev Idx",
            "Device Id",
        ),
        *("Device Type", "Addr", "Bytes", "Total Allocated", "Total Reserved", "In msg nelems"),
        *("Out msg nelems", "Group size", "Src Rank", "Dst Rank", "Seq", "Process Group Ranks"),
        *("Process Group ID", "Global rank start", "Global rank stride", "In split size"),
        *("Out split size", "Input Dims", "Input dims", "Input Strides", "Record function id"),
        *("Profiler Event Index", "Trace iteration", "wait_on_stream", "wait_on_cuda_event_id"),
        *("wait_on_cuda_event_record_corr_id", "queued", "context", "cbid", "graph id", "finished"),
        *("graph node id", "num_warps", "num_stages", "sort_index", "Op count", "priority"),
        *("Is asynchronized op", "Sequence Number", "Total Allocs", "Total Frees", "size", "cid"),
    }
)
"""Arguments that are numbers, or lists of numbers."""

METADATA_NUMBERS: Final = frozenset(
    {
        *("schemaVersion", "baseTimeNanoseconds", "record_shapes", "profile_memory", "with_stack"),
        *("with_flops", "with_modules", "cupti_version", "cuda_runtime_version"),
        *("cuda_driver_version", "roctracer_version", "hip_runtime_version", "hip_driver_version"),
        UNPROFILED_STEP,
    }
)
VERSIONS: Final = frozenset({"pytorch_version", "torch_version", "nccl_version"})
DEVICE_NUMBERS: Final = re.compile(r"[a-z][A-Za-z]{1,50}")
"""Keys of the properties of a GPU; their values must be numbers."""

GPU_NAME: Final = re.compile(r"[A-Za-z0-9 ()/._+-]{0,64}")
"""Names of GPU models, which the driver writes."""

SERVER_MODES: Final = words("""
    DECODE EXTEND PREFILL SPLIT_PREFILL DLLM_EXTEND MIXED IDLE TARGET_VERIFY DRAFT_EXTEND
    DRAFT_EXTEND_V2 DRAFT_LOOP
    """)
SERVER_COUNTS: Final = words("bs toks c_sq c g g_sq ext dec")
"""Words in the spans that SGLang writes."""

GROUP_WORDS: Final = words("""
    default pg mesh undefined tp dp pp ep cp sp dcp fsdp hsdp ddp shard replicate tensor
    data pipeline expert context sequence model parallel group world intra inter node batch
    embedding position cpu gpu nccl gloo tensor_model_parallel ring
    """)
"""Words in the names and descriptions of process groups."""

FILE_WORDS: Final = re.compile(
    r"(?:rank|worker|node|gpu|proc|pid|step|r|tp|dp|pp|ep|cp)(?:\d{1,19})?|\d{1,19}|json|gz|zst|xz"
    r"|pt|traces?|graph|capture|bs|extend|decode|async_llm|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec",
    re.IGNORECASE,
)
"""Words in file names that say which rank, node or process wrote the file, and when."""

FOLDERS: Final = words("""
    torch triton utils data compiler profiler autograd _dynamo _inductor convert_frame
    compile_fx async_compile select_algorithm testing __init__ __main__
    """)
"""Folders and files that analyses read, in any path."""

CONTAINERS: Final = frozenset({"site-packages", "dist-packages", "lib", "lib64", "bin", "python"})
"""Folders that everybody has."""
