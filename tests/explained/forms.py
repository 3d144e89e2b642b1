"""Forms of sentences, and whether a sentence has one of them and says the right numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import pandas as pd

from hta_widgets.panels.base.panel import Panel
from hta_widgets.quantities import number_ranges, percent

Texts = dict[str, str | None]


class Form(NamedTuple):
    """A form of a sentence.

    Attributes
    ----------
    sentence : str
        With ``<name>`` for a number or a name, and ``[[…]]`` around what is not always there. Names
        that begin with ``_`` are not compared.
    texts : callable
        What the names stand for, given what the sentence is on and its panel or diagnosis; None
        where the sentence does not hold.
    """

    sentence: str
    texts: Callable[[Any, Any], Texts | None]


NAME_WIDTH: Final = 60
RULE_WIDTH: Final = 40
NS_PER_MS: Final = 1e6
NS_PER_US: Final = 1e3
NS_PER_S: Final = 1e9


def checked(forms: list[Form], name: str, sentence: str, found: object, of: object) -> str:
    """Say what is wrong with a sentence that has to have one of the forms, or nothing.

    Forms are in NVIDIA's words; a sentence, and names in it, may be in AMD's.
    """
    wrong, sentence = [], _of_nvidia(sentence)
    for form, expected in forms:
        if not re.fullmatch(rendered(form, None), sentence, re.DOTALL):
            continue
        every = expected(found, of)
        if every is None:
            wrong.append(f"{sentence!r} is said where it does not hold")
            continue
        right = {key: _of_nvidia(text) for key, text in every.items() if text is not None}
        assert right.keys() <= {*re.findall(r"<(\w+)>", form)}
        if re.fullmatch(rendered(form, right), sentence, re.DOTALL):
            return ""
        wrong.append(f"{sentence!r} should say {right}")
    return f"{name}: " + ("\n".join(wrong) or f"no form explains {sentence!r}")


def _of_nvidia(text: str) -> str:
    return text.replace("HIP graph", "CUDA graph").replace("matrix core", "tensor core")


def rendered(form: str, texts: Texts | None) -> str:
    """A regular expression of the form with its texts; of any such sentence without texts."""
    parts = iter(re.split(r"(<\w+>|\[\[|\]\])", form))
    return _block(parts, texts)[0]


def _block(parts: Iterator[str], texts: Texts | None) -> tuple[str, set[str]]:
    """The expression up to the end of a block, and the names whose texts are compared in it."""
    expression, names = "", set()
    for part in parts:
        if part == "]]":
            break
        if part == "[[":
            inside, needed = _block(parts, texts)
            if texts is None or not needed:
                expression += f"(?:{inside})?"
            elif needed <= texts.keys():
                expression += inside
                names |= needed
        elif part.startswith("<") and part.endswith(">"):
            name = part[1:-1]
            is_compared = texts is not None and not name.startswith("_")
            names |= {name} if is_compared else set()
            expression += re.escape(str(texts.get(name))) if is_compared else ".+?"
        else:
            expression += re.escape(part)
    return expression, names


def share(part: float, whole: float) -> str:
    return percent(100 * part / whole)


def ranges_in_words(numbers: Sequence[int]) -> str:
    """Ranges of numbers as a sentence has them: ``0-2 and 5``."""
    head, _, last = number_ranges(numbers).rpartition(", ")
    return f"{head} and {last}" if head else last


def summed(table: pd.DataFrame, *columns: str) -> tuple[int, ...]:
    return tuple(int(table[column].sum()) for column in columns)


def plain(when: Callable[[Any, Panel[Any]], bool]) -> Callable[[Any, Panel[Any]], Texts | None]:
    """A sentence without numbers, and when it holds."""
    return lambda result, panel: {} if when(result, panel) else None


def largest(table: pd.DataFrame, by: str, of: str) -> tuple[str, int]:
    sums = table.groupby(by, sort=False)[of].sum()
    return str(sums.idxmax()), int(sums.max())
