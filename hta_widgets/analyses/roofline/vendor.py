"""The words of a GPU's vendor: AMD has HIP graphs and its own name for matrix units."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hta_widgets.analyses.roofline.peaks import devices_of
from hta_widgets.trace.job import Job
from hta_widgets.trace.ranks.rank import Rank

_ON_AMD: Final = {
    "CUDA graph": "HIP graph",
    "tensor core": "matrix core",
    "multiprocessor": "compute unit",
    " SMs": " CUs",
}


def on_amd(text: str) -> str:
    """The same text in AMD's words."""
    for nvidia, amd in _ON_AMD.items():
        text = text.replace(nvidia, amd)
    return text


def words_of(job: Job) -> Callable[[str], str]:
    """A function that puts a text into the words of the vendor of a job's GPUs, by its first rank.

    It looks at the rank only for a text with such words.
    """

    def worded(text: str) -> str:
        other = on_amd(text)
        if other == text:
            return text
        (is_amd,) = job.reduce(_is_amd, job.ranks[:1]).values()
        return other if is_amd else text

    return worded


def _is_amd(rank: Rank) -> bool:
    known = rank.trace.metadata
    names = (each.name for each in devices_of(known).values())
    return "hip_runtime_version" in known or any(name.startswith("AMD") for name in names)
