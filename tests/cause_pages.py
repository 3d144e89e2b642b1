"""The generated parts of the pages on causes: what to do, and a job before and after.

``python -m tests.generated_docs`` writes them into the docs again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hta_widgets import diagnose, open_trace
from hta_widgets.analyses.server_steps import server_steps
from hta_widgets.diagnosis import Diagnosis
from hta_widgets.diagnosis.cause import Cause
from hta_widgets.diagnosis.causes import ALL_CAUSES
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.finding import NEEDLESS_WORK, Advice
from hta_widgets.trace.job import Job
from tests.kineto_text import write
from tests.server_loops import OF_INFERENCE
from tests.simulator import write_job
from tests.simulator.plan import Layout

PAGES = Path(__file__).parents[1] / "docs" / "causes"
INDEX = PAGES / "README.md"
TITLE = re.compile(r"^# (.+)\n\n\*`\w+`: (.+)\*$", re.MULTILINE)
TO_DO = "\n## What to do\n"
"""From here on, a page is generated."""
NOT_TOLD = "not known"
NUMBERS = re.compile(rf"\| ([\d.]+) ms \| ([\d.]+) ms \| (?:([\d.]+) ms|{NOT_TOLD}) \|")
LAYOUTS: dict[str, Layout] = {"slow_link": "pipeline", "launch_bound": "decode"}
"""Layouts of simulated jobs, other than the usual one: a ring of all ranks has no other link, and
the optimizer with fewer launches of the training job has less to compute, too."""

MOST_APART = 0.1
"""Part by which a price differs from what the twin gains, from which a page says why."""
WHY_APART = {
    "exposed_communication": "The price is an upper bound: it hides all of the transfer. In the "
    "twin, nothing is left to compute\nduring the last bucket of gradients, which stays exposed.",
    "missing_rank": "What a rank without a trace does is not recorded, so waiting for it has "
    "no price.",
    "no_tensor_cores": "The price assumes products that are four times as fast, the least that "
    "tensor cores bring. The twin\nmultiplies in bfloat16, which is 13 times as fast on this GPU.",
    "pipeline_bubble": "The price is an upper bound: no stage waits any more. The stages of the "
    "twin, with more micro-batches,\nstill wait at both ends of a step, and their kernels are "
    "smaller.",
    "unfused_elementwise": "The price is a lower bound: it assumes that a fused kernel takes as "
    "long as one and a half of those that it\nreplaces. The one in the twin takes less.",
}

INFERENCE_JOBS = {
    "step_gap": "The loop of an inference server that schedules after each step, and the same "
    "loop one step ahead of its GPU",
    "prefill_stall": "The loop of an inference server that computes prompts of 4,096 tokens "
    "between its tokens, and the same loop\nwithout them, as with separate GPUs for prompts",
    "preprocessing": "One request whose input takes the CPU 30 ms, and the same request with "
    "half a millisecond",
}

PER_TOKEN = {"prefill_stall"}
"""Causes that lengthen the time from one token to the next rather than a step: the time of all
steps, divided by the number of decode steps."""

SHELL = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:python|echo|unset|export|vllm serve|trtllm-serve|hta-widgets"
    r"|nvidia-smi|amd-smi|ibstat|py-spy|nsys|torchrun) "
)
"""How shell lines start."""
CPP = re.compile(r"(?:cuda|cublas)[A-Z]\w+\(")
"""How C++ code starts."""

OF_PROGRAMS = {
    *(Condition.VLLM, Condition.SGLANG, Condition.TENSORRT_LLM),
    *(Condition.NO_PYTORCH, Condition.AMD),
}
WHERE = {
    Condition.ADAM: "with Adam",
    Condition.ADAMW: "with AdamW",
    Condition.AMD: "on AMD GPUs",
    Condition.ATTENTION: "where attention is not fused",
    Condition.AUTOCAST: "with autocast",
    Condition.BF16: "on GPUs with bfloat16",
    Condition.BROADCASTS_BUFFERS: "where DDP broadcasts buffers",
    Condition.CAPTURING: "where a CUDA graph is captured",
    Condition.CHECKS_SIZES: "where Inductor checks sizes",
    Condition.COLLECTS_GARBAGE: "where the garbage collector runs",
    Condition.COMPILED: "in compiled code",
    Condition.COMPILES: "where something compiles",
    Condition.COMPUTES_ON_CPU: "where operators run on the CPU",
    Condition.CONVOLUTIONS: "in convolutions",
    Condition.COPIES: "where a copy waits",
    Condition.CPU_OPTIMIZER: "where the optimizer runs on the CPU",
    Condition.DDP: "with DistributedDataParallel",
    Condition.DOUBLE: "in float64",
    Condition.DRAWS_NUMBERS: "where random numbers are drawn",
    Condition.EMBEDDINGS: "with embedding tables",
    Condition.EMPTY_CACHE: "where torch.cuda.empty_cache() is called",
    Condition.ENDS_AHEAD: "where the host is ahead of the GPU at the end",
    Condition.ENDS_STEP: "where it ends a step",
    Condition.EXPERTS: "where tokens are sent to experts",
    Condition.FEW_ROWS: "where linear layers get few rows",
    Condition.FOREACH: "with a foreach optimizer",
    Condition.FSDP1: "with FullyShardedDataParallel",
    Condition.FSDP2: "with fully_shard",
    Condition.FUSED: "with a fused optimizer",
    Condition.GATHERS_ONE: "where one all-gather is long",
    Condition.GATHERS: "where parameters are gathered",
    Condition.GRAPHS: "where CUDA graphs are replayed",
    Condition.HALF: "with 16-bit types",
    Condition.IMAGE_PROCESSOR: "with an image processor of Transformers on the CPU",
    Condition.IN_OPERATOR: "where the time is in an operator of PyTorch",
    Condition.OWN_WARM_UP: "in the job's own warm-up",
    Condition.LATE_BY_WAITS: "where the host would keep up without waiting for the GPU",
    Condition.LATENCY: "where transfers are short",
    Condition.LAUNCHES_GRAPH: "where a graph is launched",
    Condition.LOADER: "with a DataLoader",
    Condition.LOADER_ALONE: "where the DataLoader has no workers",
    Condition.SHORT_WAITS: "where a wait for a batch takes less than 1 ms",
    Condition.LOADER_WORKERS: "where the DataLoader has workers",
    Condition.LOADS_CODE: "where code is loaded",
    Condition.LEFT_BY_COMPILER: "where they are in compiled code that fuses none",
    Condition.OTHERS_IN_TIME: "where other ranks launch in time",
    Condition.OLDER_ATTENTION: "with FlashAttention-2 on a GPU that it does not know",
    Condition.READS_FILES: "where the host reads a file or waits for its user",
    Condition.WRITES_FILES: "where the host writes a file",
    Condition.SLEEPS: "where the host sleeps",
    Condition.WAITS_FOR_OTHERS: "where the host waits for another thread or process",
    Condition.BEFORE_KERNELS: "where several copies before the first kernel take most of the time",
    Condition.WHOLE_GRAPHS: "where most of the time is in graphs recorded without their kernels",
    Condition.FIRST_COMPILED: "where most of the time ends at the first kernel of compiled code",
    Condition.TOUCHES_PAGES: "where the host touches managed memory that is on the GPU",
    Condition.LOSES_ITS_CORE: "where it stops in operators of all kinds",
    Condition.MANY_TIMES_SLOWER: "where kernels take several times as long",
    Condition.MEMORY: "where memory is recorded",
    Condition.MANY_TOKENS: "in steps of 513 to 1,024 tokens",
    Condition.MOE: "with a mixture of experts",
    Condition.EXCHANGES: "where most of it is all-to-alls",
    Condition.FLOAT32: "in float32 without tensor cores",
    Condition.IMAGES_NHWC: "with images in NHWC",
    Condition.NHWC: "with convolutions in NHWC",
    Condition.NO_OPERATORS: "where operators are not recorded",
    Condition.NO_PYTORCH: "without PyTorch",
    Condition.OTHER_RECORDER: "in a recording by another profiler than PyTorch's",
    Condition.SAMPLED: "where the CPU was sampled",
    Condition.NOT_LAUNCHED: "where the next kernel is launched late",
    Condition.NO_COLLECTIVES: "where the collective of a kernel is not recorded",
    Condition.NO_KERNELS: "with a table from an Nsight Systems recipe",
    Condition.NOT_OPENED: "where ranks are recorded but not open",
    Condition.NOT_CAPTURED: "where other steps replay a CUDA graph",
    Condition.NOT_RECORDED: "where the recording does not show it",
    Condition.OF_OPTIMIZER: "where the time is in the optimizer",
    Condition.ONE_BY_ONE: "with an optimizer that updates one tensor at a time",
    Condition.ONE_STREAM: "where all kernels are in one stream",
    Condition.ONLY_COPIES: "where the host is late only with copies",
    Condition.ONE_EACH: "where each gradient has its own operation",
    Condition.OPTIMIZER_WAITS: "where the optimizer waits for the transfer",
    Condition.OTHER_RANKS: "where ranks are not recorded",
    Condition.OUTSIDE_CALLS: "where the host is mostly in no call",
    Condition.PAGEABLE: "with pageable memory",
    Condition.PINNED: "with pinned memory",
    Condition.READS_A_NUMBER: "where a value is read",
    Condition.READS_FLAGS: "where a few bytes are read at a time",
    Condition.REFUSED_FUSION: "where scaled_dot_product_attention finds no fused kernel",
    Condition.SAME_SIZES: "where kernels and sizes are the same",
    Condition.SAME_STREAM: "where transfers run on the stream that computes",
    Condition.SCRIPTED: "where TorchScript compiles",
    Condition.SELECTS: "where sizes depend on values",
    Condition.SERVER: "in servers",
    Condition.SGD: "with SGD",
    Condition.SGLANG: "with SGLang",
    Condition.SLOWED_BY_STACKS: "where a host twice as fast would recover most of it",
    Condition.STACKS: "where stacks are recorded",
    Condition.SYNCHRONISES: "where a call synchronises explicitly",
    Condition.TAKE_TURNS: "where a different rank is late each time",
    Condition.TENSORRT_LLM: "with TensorRT-LLM",
    Condition.TF32: "on GPUs with TF32",
    Condition.THERE_AND_BACK: "where as much is copied to the GPU as back",
    Condition.TO_DEVICE: "to the GPU",
    Condition.TO_HOST: "to the host",
    Condition.TRAINING: "in training",
    Condition.UNCACHED: "where memory is freed at once",
    Condition.UNEVEN: "where dimensions are not multiples of 8",
    Condition.VLLM: "with vLLM",
    Condition.WAITS_EACH_TIME: "where the host waits after most launches",
    Condition.WALKS_MODULES: "where it walks over all modules",
    Condition.ZEROES_GRADIENTS: "where gradients are set to zero",
}
"""Where advice applies, in words."""


class Measured(NamedTuple):
    """A simulated job with one cause, and its twin without, in ms of the mean step.

    Attributes
    ----------
    before_ms, after_ms : float
    price_ms : float
        What the diagnosis of the first says that the cause costs; 0 if that is not known.
    """

    before_ms: float
    after_ms: float
    price_ms: float


def page_of(cause: Cause) -> Path:
    """The page on a cause."""
    return PAGES / f"{cause.name}.md"


def index() -> str:
    """The list of all pages."""
    rows = "".join(_row_of(each) for each in ALL_CAUSES)
    return f"""# Causes

One page for each cause that a [diagnosis](../diagnosis.md) names: symptom, proof, what it is not,
what to do, and a job before and after. *What to do* starts with advice for most jobs and says
where the rest applies; a diagnosis chooses by what it finds.

| page | in short | `cause` |
|---|---|---|
{rows}"""


def _row_of(cause: Cause) -> str:
    found = TITLE.match(page_of(cause).read_text(encoding="utf-8"))
    assert found, f"the page on {cause.name} does not begin with its title and a sentence"
    return f"| [{found[1]}]({cause.name}.md) | {found[2]} | `{cause.name}` |\n"


def completed(page: str, cause: Cause, measured: Measured) -> str:
    """The page with all advice on its cause, and with the times of a simulated job."""
    numbers = " | ".join(f"{each:.2f} ms" if each else NOT_TOLD for each in measured)
    layout = f" --layout {LAYOUTS[cause.name]}" if cause.name in LAYOUTS else ""
    jobs = f"""\
A simulated job on four GPUs and its twin with the same seed
(`python -m tests.simulator {cause.name}{layout}`, and with `--healthy`). Its mean step:"""
    if cause.name in OF_INFERENCE:
        jobs = f"{INFERENCE_JOBS[cause.name]}\n(`tests/server_loops.py`). The mean step:"
    if cause.name in PER_TOKEN:
        jobs = jobs.replace("The mean step:", "The mean time of a token:")
    text = f"""{page.partition(TO_DO)[0].rstrip()}
{TO_DO}
{_list_of(cause.advice)}
## Before and after

{jobs}

| before | after | diagnosed price of the cause |
|---:|---:|---:|
| {numbers} |
"""
    return text + (f"\n{WHY_APART[cause.name]}\n" if cause.name in WHY_APART else "")


def measured(cause: Cause, before: Diagnosis | None = None) -> Measured:
    """Diagnose the job of a cause, unless that was done, and its twin."""
    with TemporaryDirectory() as folder:
        before = before or _diagnosed(cause, Path(folder, "before"), healthy=False)
        after = _diagnosed(cause, Path(folder, "after"), healthy=True)
        price_ms = next(each.recoverable_ms for each in before if each.cause == cause.name)
        if cause.name in PER_TOKEN:
            return Measured(*(_per_token_ms(each.job) for each in (before, after)), price_ms)
        return Measured(before.step_ns / 1e6, after.step_ns / 1e6, price_ms)


def _diagnosed(cause: Cause, path: Path, *, healthy: bool) -> Diagnosis:
    if cause.name in OF_INFERENCE:
        write(path, OF_INFERENCE[cause.name](healthy=healthy))
    else:
        write_job(path, cause.name, layout=LAYOUTS.get(cause.name), healthy=healthy)
    return diagnose(open_trace(path, progress=False))


def _per_token_ms(job: Job) -> float:
    steps = server_steps(job).steps
    return float(steps["period_ns"].sum() / (steps["phase"] == "decode").sum() / 1e6)


def measured_on(page: str) -> Measured:
    """The numbers that a page says were measured."""
    found = NUMBERS.search(page)
    assert found, "nothing is measured: run `python -m tests.generated_docs`"
    return Measured(*(float(each or 0) for each in found.groups()))


def _list_of(advice: Sequence[Advice]) -> str:
    """Each piece of advice once, from what applies to most jobs to what applies to few.

    The advice itself is in the order of a diagnosis, which knows what applies: the most specific
    evidence first.
    """
    variants: dict[str, list[Advice]] = {}
    for each in advice:
        variants.setdefault(each.do, []).append(each)
    return "\n".join(_item_of(each) for each in sorted(variants.values(), key=_specialty))


def _specialty(variants: Sequence[Advice]) -> tuple[bool, bool, int]:
    """Sorts last what few jobs have: a certain engine or vendor, needless work, more evidence."""
    needs = [{*each.needs} for each in variants]
    shared = set.intersection(*needs)
    evidence = (shared or min(needs, key=len)) - {Condition.TRAINING}
    return all(each & OF_PROGRAMS for each in needs), variants[0] in NEEDLESS_WORK, len(evidence)


def _item_of(variants: Sequence[Advice]) -> str:
    """An item of the list: what to do, where, and the code of each variant."""
    shared = [each for each in variants[0].needs if all(each in one.needs for one in variants)]
    own = [[each for each in one.needs if each not in shared] for one in variants]
    where = [WHERE[each] for each in shared]
    if all(own):
        where.append(_one_of([", ".join(WHERE[each] for each in some) for some in own]))
    words = "; ".join(each for each in (", ".join(where), _unless(variants)) if each)
    item = f"- {variants[0].do}{f' *({words})*' if words else ''}\n"
    codes = dict.fromkeys(each.code for each in variants if each.code)
    return item + "".join(map(_block_of, codes))


def _unless(variants: Sequence[Advice]) -> str:
    shared = [each for each in variants[0].unless if all(each in one.unless for one in variants)]
    return f"not {_one_of([WHERE[each] for each in shared])}" if shared else ""


def _one_of(places: Sequence[str]) -> str:
    """In words; what several begin with, such as ``with``, is said once."""
    ends: dict[str, list[str]] = {}
    for each in dict.fromkeys(places):
        first, _, rest = each.partition(" ")
        ends.setdefault(first, []).append(rest)
    said = [f"{first} {_with_or(each)}" for first, each in ends.items()]
    return ", or ".join(said)


def _with_or(words: Sequence[str]) -> str:
    return " or ".join([*([", ".join(words[:-1])] if words[1:] else ()), words[-1]])


def _block_of(code: str) -> str:
    is_of_shell = SHELL.match(f"{code} ")
    language = "sh" if is_of_shell else "cpp" if CPP.match(code) else "python"
    lines = "".join(f"  {line}\n" for line in code.splitlines())
    return f"\n  ```{language}\n{lines}  ```\n"
