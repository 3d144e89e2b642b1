"""What a device does at each instant, against brute force over microseconds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.collectives import collectives, rank_splits
from hta_widgets.analyses.communication.partition import PARTS, Partition, RankSplit
from tests.analyses import generated_jobs
from tests.analyses.collective_jobs import ddp, open_job, pipeline, write_job
from tests.analyses.generated_jobs import NAMES, devices_of, gpu_work

EDGES = [0, 7, 7, 20, 33, 60]


def part_at(time, work, splits):
    """Name of the part that an instant (µs) belongs to."""
    found = {"idle"}
    for event in work:
        begin, end = event["ts"], event["ts"] + event["dur"]
        if not begin <= time < end:
            continue
        kind = {"COMPUTATION": "compute", "MEMORY": "memory"}.get(NAMES[event["name"]])
        if kind is None:
            split = splits.get(id(event))
            suffix = "_p2p" if split and split[1] else ""
            waits = split and time < begin + split[0]
            kind = ("wait" if waits else "transfer") + suffix if split else "undivided"
        found.add(kind)
    return min(found, key=PARTS.index)


@given(generated_jobs.jobs, st.randoms(use_true_random=False))
def test_against_brute_force(tmp_path_factory, ranks, random):
    job = generated_jobs.open_job(tmp_path_factory.mktemp("job"), ranks)
    for number, events in enumerate(ranks):
        rank = job.rank(number)
        first = min((event["ts"] for event in events), default=0)
        starts = (rank.trace.events.start_ns // 1000 + first).tolist()
        splits = {}
        for device, work in rank.gpu_work.by_device().items():
            for row in work.rows.tolist():
                event = find(events, rank, row, starts[row])
                is_communication = NAMES[event["name"]] == "COMMUNICATION"
                if device >= 0 and is_communication and random.random() < 0.7:
                    splits[row] = (random.randint(0, event["dur"]), random.random() < 0.5)
        rows = sorted(splits)
        split = RankSplit(
            np.array(rows, dtype=np.int64),
            np.array([1000 * splits[row][0] for row in rows], dtype=np.int64),
            np.array([splits[row][1] for row in rows], dtype=bool),
        )
        by_event = {id(find(events, rank, row, starts[row])): splits[row] for row in rows}
        for device in devices_of(events):
            work = gpu_work(events, device)
            edges = np.array(EDGES) * 1000 - first * 1000
            found = Partition.of(rank.gpu_work.by_device()[device], split).in_bins(edges)
            expected = np.zeros((len(PARTS), len(EDGES) - 1), dtype=np.int64)
            for place, (begin, end) in enumerate(pairwise(EDGES)):
                for time in range(begin, end):
                    part = part_at(time, work, by_event)
                    expected[PARTS.index(part), place] += 1000
            np.testing.assert_array_equal(found, expected)
            assert found.sum() == edges[-1] - edges[0]


def find(events, rank, row, start):
    """The event of a row: by its position in the file."""
    event = events[int(rank.trace.events.index[row])]
    assert event["ts"] == start
    return event


def test_splits_of_a_job(tmp_path):
    scene = ddp()
    job = open_job(write_job(tmp_path, scene))
    splits = rank_splits(job)
    for rank in range(4):
        assert splits[rank].wait_ns.tolist() == [op.wait(rank) for op in scene.operations]
        assert not splits[rank].is_p2p.any()
        work = job.rank(rank).gpu_work
        edges = np.array([work.start_ns.min(), work.end_ns.max()])
        parts = dict(zip(PARTS, Partition.of(work, splits[rank]).in_bins(edges)[:, 0], strict=True))
        assert parts["wait"] == sum(op.wait(rank) for op in scene.operations)
        assert parts["transfer"] == sum(op.transfer for op in scene.operations)
        assert parts["undivided"] == parts["wait_p2p"] == 0
    kernels = collectives(job).kernels
    assert kernels["wait_ns"].sum() == sum(split.wait_ns.sum() for split in splits.values())


def test_sends_and_receives_are_apart(tmp_path):
    job = open_job(write_job(tmp_path, pipeline()))
    for rank, split in rank_splits(job).items():
        assert split.is_p2p.all()
        work = job.rank(rank).gpu_work
        found = Partition.of(work, split).in_bins(np.array([0, work.end_ns.max()]))[:, 0]
        parts = dict(zip(PARTS, found, strict=True))
        assert parts["wait_p2p"] > 0
        assert parts["transfer_p2p"] > 0
        assert parts["wait"] == parts["transfer"] == 0
