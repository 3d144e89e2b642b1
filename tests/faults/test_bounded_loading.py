"""Time and memory of loading are bounded by the length of the text."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest

from hta_widgets.trace.loaders.kineto import text as event_text
from hta_widgets.trace.loaders.kineto.brackets import closing_bracket, length_without
from hta_widgets.trace.loaders.kineto.load import load_kineto
from hta_widgets.trace.loaders.kineto.text import EventText
from tests.kineto_text import host, kernel

LONG = 1 << 21
EVENTS = ",".join(json.dumps(kernel(10 * number, 5)) for number in range(50))
SHAPES = {
    "blanks before the key": ["{", " " * LONG, '"traceEvents":[', EVENTS, "]}"],
    "blanks before the first event": ['{"traceEvents":[', " " * LONG, EVENTS, "]}"],
    "blanks before a comma": ['{"traceEvents":[', EVENTS, " " * LONG, ",", EVENTS, "]}"],
    "blanks after a comma": ['{"traceEvents":[', EVENTS, ",", " " * LONG, EVENTS, "]}"],
    "a long header": ['{"note":"', "n" * LONG, '","traceEvents":[', EVENTS, "]}"],
    "a long name": ["[", EVENTS, ",", json.dumps(host(1, 1, "n" * LONG)), ",", EVENTS, "]"],
    "a long last name": ["[", EVENTS, ",", json.dumps(host(1, 1, "n" * LONG)), "]"],
    "a last name of quotes": ["[", EVENTS, ",", json.dumps(host(1, 1, '"' * LONG)), "]"],
    "a last name of backslashes": ["[", EVENTS, ",", json.dumps(host(1, 1, "\\" * LONG)), "]"],
    "numbers before the events": ['{"traceEvents":[', "5," * (LONG // 2), EVENTS, "]}"],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_text_is_looked_at_a_bounded_number_of_times(tmp_path, monkeypatch, shape):
    text = "".join(SHAPES[shape]).encode()
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(text, 1))
    monkeypatch.setattr(event_text, "BLOCK_BYTES", 1 << 14)
    looked_at = []
    for name in ("_cut", "_is_head"):
        look = getattr(EventText, name)

        def counting(self, text, look=look):
            looked_at.append(len(text))
            return look(self, text)

        monkeypatch.setattr(EventText, name, counting)
    assert b"".join(piece.replace(b" ", b"") for piece in EventText(path))
    assert sum(looked_at) <= 4 * len(text)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if "numbers" not in shape])
def test_memory_is_a_small_multiple_of_the_text(tmp_path, shape):
    path = tmp_path / "trace.json"
    path.write_text("".join(SHAPES[shape]))
    tracemalloc.start()
    try:
        trace = load_kineto(path, 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(trace.events) in {50, 51, 100, 101}
    assert peak < 10 * path.stat().st_size


@pytest.mark.parametrize(
    ("text", "depth", "expected"),
    [
        (b'{"a": "]}"} x', 0, 11),
        (b'{"a": "\\"}"}', 0, 12),
        (b'{"a": "\\\\"} "', 0, 11),
        (b'"]"], 1', 1, 4),
        (b'{"a": "}', 0, None),
        (b'{"a": "\\', 0, None),
        (b"[[]", 0, None),
    ],
)
def test_closing_bracket(text, depth, expected):
    assert closing_bracket(text, depth) == expected


@pytest.mark.parametrize("blanks", [0, 1, 63, 64, 65, 1000])
def test_length_without(blanks):
    text = b"ab" + b" " * blanks
    assert length_without(text, len(text), b" ") == 2
    assert length_without(text[2:], blanks, b" ") == 0
