"""The GPU waits while the host prepares the input of a request."""

from __future__ import annotations

from hta_widgets.diagnosis.cause import cause
from hta_widgets.diagnosis.context import Context
from hta_widgets.diagnosis.facts.conditions import Condition
from hta_widgets.diagnosis.finding import Advice, Finding
from hta_widgets.diagnosis.rules.input_starvation import TENSOR_PROCESSOR, LoadingTime
from hta_widgets.diagnosis.rules.wording import on_ranks


@cause(
    seen_in="data_loading",
    limit="least_percent_with_evidence",
    makes_others_wait=True,
    when="The GPU is idle while the host decodes, resizes or tokenises the input of a request, "
    "without training and without DataLoader workers.",
    advice=(
        Advice(
            "Generate random input on the GPU.",
            'inputs = torch.randn(size, device="cuda")',
            needs=(Condition.DRAWS_NUMBERS,),
        ),
        Advice(
            "Tokenise text and process images in the API server, before requests reach the "
            "engine's loop.",
            "vllm serve MODEL --api-server-count 4",
            needs=(Condition.SERVER, Condition.VLLM),
        ),
        Advice(
            "Tokenise text and process images in separate processes, before requests reach the "
            "engine's loop.",
            "python -m sglang.launch_server --model-path MODEL \\\n    --tokenizer-worker-num 4",
            needs=(Condition.SERVER, Condition.SGLANG),
        ),
        Advice(
            "Tokenise text and process images in other processes, before requests reach the loop.",
            needs=(Condition.SERVER,),
            unless=(Condition.VLLM, Condition.SGLANG),
        ),
        TENSOR_PROCESSOR,
        Advice(
            "Let DataLoader workers prepare the images ahead.",
            "pipeline(task, model, num_workers=8)",
            needs=(Condition.IMAGE_PROCESSOR, Condition.LOADER_ALONE),
            unless=(Condition.LOADER_WORKERS,),
        ),
        Advice(
            "Prepare the input on the GPU, as tensors.",
            unless=(Condition.DRAWS_NUMBERS, Condition.IMAGE_PROCESSOR, Condition.SERVER),
        ),
        Advice(
            "Prepare the next request in another thread or process while the GPU works on this "
            "one.",
            "ready = executor.submit(prepare, next_request)  # then ready.result()",
        ),
        Advice(
            "Decode video and resize images before they reach this process, once for each input.",
            unless=(Condition.DRAWS_NUMBERS,),
        ),
    ),
)
def preprocessing(context: Context) -> Finding | None:
    """Report the time in which the GPU is idle while the host prepares the input of a request."""
    loading = LoadingTime.of(context, preprocessing)
    if loading is None or not loading.is_of_a_request:
        return None
    return loading.finding(
        preprocessing,
        f"The CPU prepares the input for {loading.how_long} while the "
        f"GPU{on_ranks(context, loading.ranks)} sits idle",
        loading.where,
    )
