"""Patterns of call names that show what the host is doing.

A pattern may match anywhere in a name. Patterns of `CALLS` apply only to calls of the CUDA or HIP
runtime and driver, all others to every kind of call.
"""

from __future__ import annotations

import re
from typing import Final

PROFILER: Final = re.compile(
    r"torch/(autograd/)?profiler|torch/profiler/"
    r"|_disable_profiler|_enable_profiler|_prepare_profiler"
    r"|^(?:cuda|cu|hip)Profiler(?:Start|Stop)"
)
DATA_LOADING: Final = re.compile(r"DataLoader|dataloader_next|torch/utils/data/")
GARBAGE_COLLECTION: Final = re.compile(r"^Python GC|^<built-in function collect>|^gc\.py")
COMPILING: Final = re.compile(
    r"\(dynamo_timed\)$|torch/_dynamo/convert_frame"
    r"|torch/_inductor/(compile_fx|async_compile|select_algorithm)"
    r"|triton/compiler/|triton/testing\.py|do_bench"
)

ALLOCATING: Final = re.compile(
    r"^(cuda|hip)(Malloc|Free|HostAlloc|HostFree|MallocHost|FreeHost|MallocManaged|HostMalloc"
    r"|HostRegister|HostUnregister|MallocAsync|FreeAsync)"
    r"|^cuMem(Alloc|Free|Create|Map|Unmap|Release|SetAccess|Address)"
)
FREEING: Final = re.compile(r"Free|cuMem(Unmap|Release)|Unregister")
"""Calls that give memory back, among those that allocate."""

INITIALISING: Final = re.compile(
    r"ModuleLoad|LibraryLoad|LibraryGet|LibraryUnload|nvrtc|cuLink|FuncGetAttributes"
    r"|hipModule(Get|Load)"
)
LOADS_CODE: Final = re.compile(r"Lazy Function Loading|Module Loading|Driver Compiler")
"""Overhead events of what CUDA does at the first use of a kernel, profiled or not; all other
overhead events belong to the profiler."""

BLOCKING: Final = re.compile(
    r"^(cuda|hip)(Device|Thread|Stream|Event|Ctx)Synchronize"
    r"|^cu(Ctx|Stream|Event)Synchronize"
    r"|^(cuda|hip)(Memcpy|MemcpyWithStream|Memset|Memcpy2D|Memcpy3D|MemcpyPeer|MemcpyDtoH"
    r"|MemcpyHtoD|MemcpyDtoD)(_v\d+|_ptsz|_ptds)*$"
    r"|^cuMemcpy(DtoH|HtoD|DtoD)?(_v\d+)?$"
)
"""Calls that return once the GPU has done what it was asked to do before."""

WAITS_FOR_EVENT: Final = re.compile(r"EventSynchronize")
WAITS_FOR_DEVICE: Final = re.compile(r"^(cuda|hip)(Device|Thread)Synchronize|^cuCtxSynchronize")
"""``cudaThreadSynchronize`` is the name from before CUDA 4, which programs still use."""

GIVES_WORK: Final = re.compile(r"Launch|Memcpy|Memset")
"""Calls that launch, copy or fill; any other call that takes `SLOW_NS` sets something up."""

SLOW_NS: Final = 1_000_000

PREPROCESSING: Final = re.compile(
    r"^dataloader|preprocess|(image|video|feature)_process|(?<!de)tokeniz|imdecode"
    r"|read_(video|image)|collate|feature_extract|(image|video)_(transforms|utils)|scipy/ndimage",
    re.IGNORECASE,
)
"""Operators, annotations and frames that prepare the next batch outside a DataLoader."""

HOST_TO_DEVICE: Final = re.compile(r"HtoD|HostToDevice")
DEVICE_TO_HOST: Final = re.compile(r"DtoH|DeviceToHost")
WITHIN_GPU: Final = re.compile(r"DtoD|DeviceToDevice")

CAPTURING: Final = re.compile(r"Stream(Begin|End)Capture|GraphInstantiate")
"""Calls around which launches are recorded into a graph, and nothing runs."""

REQUESTS: Final = re.compile(
    r"(recv|fetch(_new)?)_requests|process_input_queue|\bzmq\b|epoll|\bselect\.|queue\.py\S* get"
    r"|shm_broadcast\.py\S* (dequeue|acquire_read)"
)
"""Calls in which the loop of a server, or of one of its workers, waits for requests."""

GRAPH_LAUNCH: Final = re.compile(r"GraphLaunch")
BACKWARD_WAIT: Final = re.compile(r"run_backward|^## backward ##")
"""Calls in which a thread waits while the autograd threads run the backward pass."""

AUTOGRAD_THREAD: Final = re.compile(r"^autograd::engine::")
"""Calls that only the autograd threads make."""
