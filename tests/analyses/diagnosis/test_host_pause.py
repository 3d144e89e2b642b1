"""Hosts that stop."""

from __future__ import annotations

import pytest

from hta_widgets.diagnosis import finding as findings
from tests.analyses.diagnosis.scripts import Host, all_reduce, diagnosed, found
from tests.kineto_text import step


def job(pause, *, steps=9, ranks=4, name=""):
    """Ranks that launch nothing for so long (µs); a function of rank and step."""
    hosts = [Host() for _ in range(ranks)]
    for number in range(steps):
        begins = [each.now for each in hosts]
        for rank, each in enumerate(hosts):
            each.launch(300, operator="aten::embedding")
            length = pause(rank, number)
            if name and length:
                each.does(name, length)
            else:
                each.now += length
            for _ in range(10):
                each.launch(300, operator="aten::layer_norm")
        all_reduce(hosts)
        for each, begin in zip(hosts, begins, strict=True):
            each.synchronise()
            each.events.append(step(number, begin, each.now - begin))
    return hosts


def test_one_rank_pauses(tmp_path):
    hosts = job(lambda rank, number: 4000 if rank == 1 and number in (3, 6) else 0)
    finding = found(diagnosed(tmp_path, *hosts), "host_pause")
    assert finding.ranks == (1,)
    assert finding.steps == (3, 6)
    assert finding.recoverable_ms == pytest.approx(2 * 3.7 / 8, rel=0.1)
    assert "between aten::embedding and aten::layer_norm" in finding.sentence
    assert "nothing is recorded" in finding.sentence
    row = finding.evidence["pauses"].iloc[0]
    assert row["operator_after"] == "aten::layer_norm"
    assert row["end_ns"] - row["start_ns"] == pytest.approx(3.7e6, rel=0.1)


def test_another_rank_in_each_step(tmp_path):
    hosts = job(lambda rank, number: 4000 if rank == (number * 3) % 4 else 0)
    finding = found(diagnosed(tmp_path, *hosts), "host_pause")
    assert finding.ranks == ()
    assert finding.sentence.startswith("Another rank in each step launches nothing")
    assert finding.recoverable_ms == pytest.approx(3.7, rel=0.1)


def test_a_rank_that_pauses_somewhat_more_often_is_not_to_blame(tmp_path):
    turns = (0, 1, 0, 2, 0, 3, 0, 1, 2)
    hosts = job(lambda rank, number: 4000 if rank == turns[number] else 0)
    assert found(diagnosed(tmp_path, *hosts), "host_pause").ranks == ()


def test_a_rank_that_pauses_in_most_steps_is(tmp_path):
    turns = (0, 0, 0, 2, 0, 0, 0, 0, 0)
    hosts = job(lambda rank, number: 4000 if rank == turns[number] else 0)
    assert found(diagnosed(tmp_path, *hosts), "host_pause").ranks == (0,)


def test_all_ranks_pause(tmp_path):
    finding = found(diagnosed(tmp_path, *job(lambda *_: 4000)), "host_pause")
    assert finding.ranks == (0, 1, 2, 3)


def test_what_the_host_does_is_named(tmp_path):
    hosts = job(lambda rank, _: 4000 if rank == 2 else 0, name="Python GC")
    finding = found(diagnosed(tmp_path, *hosts), "host_pause")
    assert finding.ranks == (2,)
    assert "all of this time inside Python GC" in finding.sentence


def test_silent_without_pauses(tmp_path):
    assert not diagnosed(tmp_path, *job(lambda *_: 0))


def test_numbers_of_ranks_and_clocks_change_nothing(tmp_path):
    hosts = job(lambda rank, number: 4000 if rank == 1 and number in (3, 6) else 0)
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    first = found(diagnosed(tmp_path / "one", *hosts), "host_pause")
    for shift, each in zip((0, 2e6, -500, 7e6), hosts, strict=True):
        each.events = [event | {"ts": event["ts"] + shift} for event in each.events]
    second = found(diagnosed(tmp_path / "other", *hosts[::-1]), "host_pause")
    assert second.ranks == (2,)
    assert second.steps == first.steps
    assert second.recoverable_ms == pytest.approx(first.recoverable_ms, rel=0.001)


def test_a_diagnosis_of_some_ranks(tmp_path):
    hosts = job(lambda rank, _: 4000 if rank == 1 else 0)
    assert found(diagnosed(tmp_path, *hosts, ranks=[1, 2]), "host_pause").ranks == (1,)
    assert found(diagnosed(tmp_path, *hosts, ranks=[0, 2]), "host_pause") is None


def test_a_sentence_that_gets_too_long_does_not_say_inside_what(tmp_path, monkeypatch):
    hosts = job(lambda rank, _: 4000 if rank == 2 else 0, name="Python GC")
    monkeypatch.setattr(findings, "LONGEST_SENTENCE", 130)
    finding = found(diagnosed(tmp_path, *hosts), "host_pause")
    assert "between aten::embedding and aten::layer_norm: 3.7 ms of each" in finding.sentence
