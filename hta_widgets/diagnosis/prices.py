"""What findings cost together: no more than the step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hta_widgets.diagnosis.context import NS_PER_MS, Context
from hta_widgets.diagnosis.finding import Finding


def within_the_step(context: Context, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings on the same steps, the most expensive first, with prices that fit into a step.

    Each price is that of its cause alone. Where causes overlap, they may add up to more than the
    step: then the cheaper ones cost no more than what the more expensive ones leave of it, and
    those of which less than their limit is left explain nothing else, and go. Missing ranks, of
    which something else is to be said than a price, stay.
    """
    left_ns = context.steps.period_ns
    kept = []
    for finding in sorted(findings, key=lambda each: -each.recoverable_ms):
        price_ns = finding.recoverable_ms * NS_PER_MS
        if price_ns <= left_ns:
            kept.append(finding)
        elif finding.cause == "missing_rank" or context.is_worth_it(finding.cause, left_ns):
            kept.append(_repriced(context, finding, left_ns))
        else:
            continue
        left_ns -= min(price_ns, left_ns)
    return tuple(kept)


def _repriced(context: Context, finding: Finding, price_ns: float) -> Finding:
    """The finding at another price."""
    words = finding.words
    if price_ns < 1:
        sentence = words.sentence("counted in other findings")
        return replace(finding, sentence=sentence, recoverable_ms=0.0, percent=0.0)
    share, text = context.cost(price_ns, is_lower_bound=words.is_lower_bound)
    return replace(
        finding,
        sentence=words.sentence(text),
        recoverable_ms=price_ns / NS_PER_MS,
        percent=share,
    )
