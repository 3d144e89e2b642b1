"""What ``hta-widgets doctor TRACE`` prints: whether recordings are sound, and what they lack."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import Final

from hta_widgets.cli.traces import open_given
from hta_widgets.diagnosis import Diagnosis, diagnose
from hta_widgets.diagnosis.facts.not_recorded import options_not_used
from hta_widgets.quantities import named_numbers
from hta_widgets.terminal import MOST_CHARACTERS, cut, item, say, section, wrapped
from hta_widgets.trace.model.notices import merge_notices

_CUT: Final = "the file is truncated or damaged: part of it is lost, most often GPU work"


def print_recordings(options: Namespace) -> None:
    """Print the health of each rank of a job."""
    say(report_on(diagnose(open_given(options.traces, cycle=options.cycle))))


def report_on(found: Diagnosis) -> str:
    """Write what each rank's recorder got wrong, what that does, and what it did not record."""
    job, health = found.job, found.health
    lines = ["Sound" if health.is_sound else "Not sound", ""]
    kind = f" ({job.kind_in_words})" if job.kind_in_words else ""
    lines += wrapped(f"{cut(job.name, MOST_CHARACTERS)}{kind}")
    lines += ["", *_ranks(found)]
    lines += section("What that does to a diagnosis:", health.notices)
    wrong = {rank: each.notices for rank, each in health.ranks.items()}
    said = {text for named in (False, True) for text in merge_notices(wrong, name_ranks=named)}
    lines += section("How it was read:", [each for each in job.notices if each not in said])
    lacks = [*found.not_recorded, *options_not_used(job)]
    lines += section(
        "What was not recorded, and how to record it:",
        [*dict.fromkeys(each.sentence for each in lacks)],
    )
    return "\n".join(lines) + "\n"


def _ranks(found: Diagnosis) -> Iterator[str]:
    """Lines on each group of ranks with the same faults."""
    alike: dict[tuple[str, ...], list[int]] = {}
    foreign = found.health.foreign.by_rank
    for rank, health in found.health.ranks.items():
        wrong = [foreign[rank]] if rank in foreign else []
        wrong += [_CUT] if health.faults.is_cut else []
        wrong += [each.text() for each in health.notices]
        alike.setdefault(tuple(wrong), []).append(rank)
    for texts, ranks in alike.items():
        verdict = "not sound" if texts else "sound, nothing in the recording contradicts itself"
        yield from wrapped(f"{named_numbers('rank', ranks)}: {verdict}")
        for text in texts:
            yield from item("- ", text)
