"""What a fault adds to a diagnosis and takes from it, and whether a notice tells."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hta_widgets.diagnosis import Diagnosis, Finding, diagnosis
from hta_widgets.errors import HtaWidgetsError
from hta_widgets.trace.opening.open import open_trace
from tests.diagnosis.recorder_faults.faults import Fault, Job
from tests.diagnosis.recorder_faults.recording import Recording

POINTS: Final = 2.0
"""Percent of a step by which a price may be higher than that of the sound recording."""

TIMES: Final = 1.2
"""Or this many times as high, if that is more."""

NUMBER: Final = re.compile(r"\d[\d,.]*")


@dataclass(frozen=True)
class Said:
    """What was said of a recording.

    Attributes
    ----------
    findings : mapping of str to Finding
        By cause.
    notices : frozenset of str
        Those on the recording as they are, all others without their numbers.
    """

    findings: Mapping[str, Finding]
    notices: frozenset[str]

    @classmethod
    def of(cls, found: Diagnosis) -> Said:
        recorded = {*found.job.notices_for(found.ranks)}
        others = {NUMBER.sub("…", each) for each in found.notices if each not in recorded}
        return cls({each.cause: each for each in found}, frozenset(recorded | others))


@dataclass(frozen=True)
class Effect:
    """What a fault did.

    Attributes
    ----------
    false : tuple of str
        Causes of measured findings that the sound recording does not have, or of other ranks, or at
        a higher price.
    lost : tuple of str
        Causes of measured findings of the sound recording that are not found.
    is_told : bool
        Whether there is a notice that the sound recording does not have.
    """

    false: tuple[str, ...]
    lost: tuple[str, ...]
    is_told: bool

    def to_json(self) -> dict[str, Any]:
        """Only what is not as it should be, and whether it is told."""
        said = {"false": [*self.false], "lost": [*self.lost]}
        return {name: causes for name, causes in said.items() if causes} | {"told": self.is_told}


def is_measured(finding: Finding) -> bool:
    return finding.confidence == "measured"


def effect_of(sound: Said, broken: Said) -> Effect:
    """Compare what is said of the same job, soundly recorded and not."""
    false = (
        each.cause
        for each in broken.findings.values()
        if is_measured(each) and is_false(each, sound.findings.get(each.cause))
    )
    lost = (
        each.cause
        for each in sound.findings.values()
        if is_measured(each) and each.cause not in broken.findings
    )
    return Effect(tuple(false), tuple(lost), bool(broken.notices - sound.notices))


def is_false(finding: Finding, true: Finding | None) -> bool:
    """Whether a finding says more than that of the sound recording."""
    if true is None or not {*finding.ranks} <= {*true.ranks}:
        return True
    return finding.percent > max(true.percent + POINTS, true.percent * TIMES)


def said_of(folder: Path, texts: Mapping[int, str]) -> Said:
    """Write a job and diagnose it; a job that is refused has the reason as its only notice."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {rank: folder / f"rank-{rank}.json" for rank in texts}
    for rank, path in paths.items():
        path.write_text(texts[rank], encoding="utf-8")
    try:
        return Said.of(diagnosis(open_trace(folder, progress=False)))
    except HtaWidgetsError as error:
        return Said({}, frozenset({str(error)}))
    finally:
        for path in paths.values():
            path.unlink()


def read_job(paths: Mapping[int, Path]) -> dict[int, Recording]:
    """The recordings of a job."""
    return {rank: Recording.read(path) for rank, path in paths.items()}


def effects(
    job: Job, faults: Iterable[Fault], hit: Collection[int], folder: Path
) -> dict[str, Effect]:
    """What each fault does to a job; those that have no place in it are left out.

    Parameters
    ----------
    job : mapping of int to Recording
    faults : iterable of Fault
    hit : collection of int
        Ranks whose recordings are broken.
    folder : Path
        Where the job is written.
    """
    sound = said_of(folder, {rank: recording.text() for rank, recording in job.items()})
    broken = ((fault.name, fault.broken(job, hit)) for fault in faults)
    return {
        name: effect_of(sound, said_of(folder, texts))
        for name, texts in broken
        if texts is not None
    }
