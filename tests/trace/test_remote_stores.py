"""Traces in object stores, with the packages that users have for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from hta_widgets import open_trace
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.sample import write_sample
from hta_widgets.trace.cache import files as cache_files
from tests.serving import ROOT, served
from tests.trace.open_url import HEAD_BYTES

RANKS = 3
FILES = [f"run/rank-{rank}.json.gz" for rank in range(RANKS)]
STORES = {"gs": "gs://bucket", "hf": "hf://datasets/team/traces", "s3": "s3://bucket"}


@pytest.fixture
def said(tmp_path):
    """Output lines of the server and its clients, as they come."""
    return tmp_path / "said.txt"


@pytest.fixture
def store(tmp_path, said):
    """Environment of the packages, for a server of their protocols."""
    write_sample(tmp_path / "served" / "run", ranks=RANKS, steps=2, progress=False)
    with served("tests.store_server", tmp_path / "served", said) as address:
        url = f"http://{address}"
        yield {
            **os.environ,
            "STORAGE_EMULATOR_HOST": url,
            "FSSPEC_GS_TOKEN": "anon",
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
            "HF_ENDPOINT": url,
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            cache_files.VARIABLE: str(tmp_path / "cache"),
        }


def open_url(url, environment, said):
    """Output for each command, and the requests to the server before it."""
    with said.open("a") as output:
        subprocess.run(
            [sys.executable, "-m", "tests.trace.open_url", url, "rank-1.json.gz"],
            stdout=output,
            env=environment,
            cwd=ROOT,
            check=True,
            timeout=120,
        )
    answers, asked = [], []
    for line in said.read_text().splitlines()[1:]:
        if ": " in line:
            answers.append((*line.split(": ", 1), sorted(asked)))
            asked.clear()
        else:
            place, first, last = line.split()
            asked.append((place, int(first), int(last)))
    return answers


def table_of(text):
    return pd.DataFrame(json.loads(text))


@pytest.mark.parametrize(
    "scheme", [pytest.param(each, marks=[pytest.mark.long] * (each != "s3")) for each in STORES]
)
def test_a_job_in_a_store(scheme, store, said, tmp_path):
    folder = tmp_path / "served"
    expected = temporal_breakdown(open_trace(folder / "run", progress=False)).ranks
    answers = open_url(f"{STORES[scheme]}/run", store, said)
    assert [word for word, *_ in answers] == ["first"] * 2 + ["again"] * 2 + ["one"] * 2 + ["none"]
    opened, first, reopened, again, one, of_one, none = answers

    assert opened[1] == reopened[1] == f"ranks {[*range(RANKS)]}"
    assert opened[2] == [(file, 0, HEAD_BYTES - 1) for file in FILES]
    pd.testing.assert_frame_equal(table_of(first[1]), expected)
    assert first[2] == [(file, 0, (folder / file).stat().st_size - 1) for file in FILES]

    assert again[1] == first[1]
    assert reopened[2] == again[2] == []

    assert one[1] == "ranks [1]"
    assert {place for place, *_ in one[2]} == {FILES[1]}
    row = expected[expected["rank"] == 1].reset_index(drop=True)
    pd.testing.assert_frame_equal(table_of(of_one[1]), row)

    assert none[1].startswith(f"{STORES[scheme]}/run/none does not exist")
    assert none[2] == []
