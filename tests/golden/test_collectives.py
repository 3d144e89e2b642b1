"""Collectives of real traces against values that were computed independently."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from hta_widgets.analyses.clocks import clocks
from hta_widgets.analyses.collectives import collectives
from hta_widgets.analyses.overlap import overlap
from tests.golden.reference import attributed, attribution, opened, place_of


def _in_reference(table):
    """What the reference calls communication: by name or fields, without kernels of vLLM."""
    return (
        table["collective"].astype(str).str.contains("nccl|rccl", case=False)
        | table["dtype"].notna()
    )


def names():
    return sorted(attribution("collectives")) or ["none"]


@cache
def kernels_of(name):
    """Communication kernels of one file."""
    job = opened(place_of(name))
    return collectives(job).kernels, overlap(job).ranks


@pytest.mark.parametrize("name", names())
def test_counts_and_exposed_time(name):
    table, by_device = kernels_of(name)
    for device, expected in attributed("collectives")[name].items():
        of_device = table[table["device"] == int(device)]
        here = of_device[_in_reference(of_device)]
        assert len(here) == expected["count"]
        assert here["duration_ns"].sum() == expected["duration_ns"]
        assert here["exposed_ns"].sum() == expected["exposed_ns"]
        row = by_device[by_device["device"] == int(device)].iloc[0]
        assert row["exposed_communication_ns"] == of_device["exposed_ns"].sum()
        if len(here) == len(of_device):
            assert row["communication_time_ns"] == expected["busy_ns"]
        with_fields = {
            key: values for key, values in expected["rows"].items() if not key.startswith("None|")
        }
        keys = ["collective", "dtype", "bytes", "group_size"]
        found = {
            "|".join(str(part) for part in key): {
                "count": len(rows),
                "duration_ns": rows["duration_ns"].sum(),
                "exposed_ns": rows["exposed_ns"].sum(),
            }
            for key, rows in here[here["dtype"].notna()].groupby(keys, observed=True)
        }
        assert found == with_fields


def test_eight_ranks_of_one_job(kineto_jobs):
    job = opened(kineto_jobs["dlrm_8rank"])
    result, clock = collectives(job), clocks(job)
    kernels = result.kernels
    assert clock.ranks["rank"].tolist() == [*range(8)]
    parts = kernels["wait_ns"] + kernels["unexplained_wait_ns"] + kernels["transfer_ns"]
    assert (parts == kernels["duration_ns"]).all()
    sends = kernels[kernels["collective"].astype(str).str.contains("SendRecv")]
    by_rank = [own.sort_values("start_ns") for _, own in sends.groupby("rank")]
    starts = np.array([own["start_ns"] for own in by_rank])
    ends = starts + np.array([own["duration_ns"] for own in by_rank])
    assert starts.shape == (8, 5)
    assert np.ptp(ends, axis=0).max() <= 8_000  # times are whole µs
    assert (starts.max(axis=0) < ends.min(axis=0)).all()
    waits = np.array([own["wait_ns"].astype(np.int64) for own in by_rank])
    assert (waits == starts.max(axis=0) - starts).all()
    assert (np.argmax(starts, axis=0) == [7, 7, 7, 7, 5]).all()


def test_two_of_many_ranks_are_not_divided(kineto_jobs):
    """Those of the others are not there, and the ends of these two are 60 ms apart."""
    result = collectives(opened(kineto_jobs["dlrm_2rank"]))
    assert result.kernels["wait_ns"].isna().all()
