"""`hta-widgets doctor TRACE`: whether recordings are sound, and what they lack."""

from __future__ import annotations

import pytest

from hta_widgets import cli
from tests.kineto_text import call, host, kernel, step, write


def events(*, shift=0, shapes=False, lost=()):
    """Two steps of ten operators, each of which launches a kernel."""
    found = [step(number, 1000 * number, 1000) for number in range(2)]
    for number in range(20):
        at = 100 * number + 2
        operator = host(at, 20, "aten::mm")
        if shapes:
            operator["args"] = {"Input Dims": [[2, 2]], "Input type": ["float"]}
        found += [operator, call(at + 5, 5, number + 1)]
        if number not in lost:
            found.append(kernel(at + 12 + shift, 50, correlation=number + 1))
    return found


@pytest.fixture
def printed(tmp_path, capsys):
    def run(*ranks, cut=0):
        for rank, recorded in enumerate(ranks):
            path = write(tmp_path / f"rank-{rank}.json", recorded, distributedInfo={"rank": rank})
            path.write_bytes(path.read_bytes()[: -cut or None])
        assert cli.main(["doctor", str(tmp_path)]) == 0
        return " ".join(capsys.readouterr().out.split())

    return run


def test_a_sound_recording(printed):
    text = printed(events(shapes=True))
    assert text.startswith("Sound ")
    assert "rank 0: sound, nothing in the recording contradicts itself" in text
    assert "What that does" not in text
    assert "Python frames are not recorded" in text
    assert "Record with_stack=True." in text
    assert "Record profile_memory=True." in text
    assert "record_shapes" not in text


def test_ranks_of_which_the_same_is_wrong_are_said_together(printed):
    text = printed(events(), events(shift=-100), events(), events(shift=-100))
    assert text.startswith("Not sound ")
    assert "ranks 0, 2: sound" in text
    assert (
        "ranks 1, 3: not sound - 20 of 20 GPU operations start before the call that launches them"
    ) in text
    assert "all findings are inconclusive: the clocks of host and GPU differ" in text
    assert "Record record_shapes=True." in text
    how = text.partition("How it was read:")[2]
    assert "the last ProfilerStep, 1, is left out" in how
    assert "GPU operations start before" not in how


def test_a_file_that_is_cut(printed):
    text = printed(events(), cut=300)
    assert "rank 0: not sound - the file is truncated" in text
    assert "all findings are inconclusive: a file is truncated" in text


def test_lost_kernels(printed):
    text = printed(events(lost=(3, 4)))
    assert "- 2 of 20 kernel launches have no kernel in the trace" in text
    assert "all steps lack GPU work" in text


def test_the_last_kernels_are_missing(printed):
    text = printed(events(lost=range(10, 20)))
    assert "- the last 10 of 20 launches have no GPU work in the trace" in text
    assert "GPU work of the last launches is not recorded" in text


@pytest.mark.parametrize("gpus", [("A", "A", "A", "A"), ("A", "A", "B", "A")])
def test_ranks_that_do_not_belong_to_the_others(tmp_path, capsys, gpus):
    for rank, gpu in enumerate(gpus):
        of_gpu = [{"id": 0, "name": gpu}]
        write(tmp_path / f"rank-{rank}.json", events(), deviceProperties=of_gpu)
    assert cli.main(["doctor", str(tmp_path)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    is_apart = "B" in gpus
    assert text.startswith("Not sound " if is_apart else "Sound ")
    why = "rank 2: not sound - runs on B, most others on A: it is not compared"
    assert (why in text) == is_apart
    does = text.partition("What that does to a diagnosis:")[2]
    assert ("rank 2 runs on B, most others on A: it is not compared" in does) == is_apart
    assert f"ranks {'0-1, 3' if is_apart else '0-3'}: sound" in text


def test_what_is_not_there_is_refused(capsys):
    assert cli.main(["doctor", "/nowhere/at/all"]) == 2
    assert "/nowhere/at/all" in capsys.readouterr().err


def test_names_of_traces_cannot_move_the_cursor(tmp_path, capsys):
    folder = tmp_path / "\x1b[2Jjob"
    folder.mkdir()
    write(folder / "rank-0.json", events())
    assert cli.main(["doctor", str(folder)]) == 0
    assert "\x1b" not in capsys.readouterr().out
