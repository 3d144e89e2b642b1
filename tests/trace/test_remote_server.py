"""Traces that another process serves: what is requested, by whom, and how much."""

from __future__ import annotations

from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pandas as pd
import pytest
from fsspec.implementations.webhdfs import WebHDFS

from hta_widgets import open_trace
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.errors import RemoteError, TraceNotFoundError
from hta_widgets.sample import write_sample
from hta_widgets.trace.cache import files as cache_files
from hta_widgets.trace.opening import fetch
from hta_widgets.trace.opening import open as opening
from hta_widgets.trace.ranks import cache, workers
from tests.serving import served

RANKS = 3
HEAD_BYTES = 4_000


class Server:
    """The address of a server, and the requests since the last look."""

    def __init__(self, address, log):
        self._log = log
        self._seen = len(log.read_text())
        self.url = f"webhdfs://{address}"

    def asked(self):
        """What was asked: the operation, the place, and the bytes from and how many."""
        said = self._log.read_text()
        new, self._seen = said[self._seen :], len(said)
        return [
            (operation, place, int(offset), int(length))
            for operation, place, offset, length in map(str.split, new.splitlines())
        ]


@pytest.fixture
def server(tmp_path):
    folder = tmp_path / "served"
    write_sample(folder / "run", ranks=RANKS, steps=2, progress=False)
    log = tmp_path / "asked.log"
    with served("tests.webhdfs_server", folder, log) as address:
        yield Server(address, log)


@pytest.fixture(autouse=True)
def settings(tmp_path, monkeypatch):
    """A cache, small blocks, and jobs that are loaded by workers, rank by rank."""
    monkeypatch.setenv(cache_files.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "WORTH_KEEPING", 0)
    monkeypatch.setattr(WebHDFS, "blocksize", 1_000)
    monkeypatch.setattr(fetch, "HEAD_BYTES", (HEAD_BYTES,))
    monkeypatch.setattr(opening, "RANKS_HELD", 1)
    monkeypatch.setattr(opening, "BYTES_AT_ONCE", 0)
    monkeypatch.setattr(workers, "cpu_count", lambda: 2)


def reads(asked):
    return sorted(place for operation, place, *_ in asked if operation == "OPEN")


def test_workers_fetch_the_ranks_of_a_big_job(server, tmp_path):
    places = [f"run/rank-{rank}.json.gz" for rank in range(RANKS)]
    job = open_trace(f"{server.url}/run", progress=False)
    asked = server.asked()
    assert job.ranks == (0, 1, 2)
    assert reads(asked) == places
    assert max(offset + length for _, _, offset, length in asked) < 2 * HEAD_BYTES
    shares = temporal_breakdown(job).ranks
    assert not job._loaded
    assert set(reads(server.asked())) == set(places)
    expected = open_trace(tmp_path / "served" / "run", progress=False)
    pd.testing.assert_frame_equal(shares, temporal_breakdown(expected).ranks)

    again = open_trace(f"{server.url}/run", progress=False)
    pd.testing.assert_frame_equal(shares, temporal_breakdown(again).ranks)
    assert reads(server.asked()) == []


def test_one_rank_of_it(server):
    job = open_trace(f"{server.url}/run/rank-1.json.gz", progress=False)
    assert len(job.rank(1).gpu_work) > 0
    assert set(reads(server.asked())) == {"run/rank-1.json.gz"}
    with pytest.raises(TraceNotFoundError, match=r"/run/rank-9.json.gz does not exist"):
        open_trace(f"{server.url}/run/rank-9.json.gz", progress=False)


@contextmanager
def answering(status, location=None):
    """A web server that answers with one status, whatever it is asked for."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            if location is not None:
                self.send_header("Location", location)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_HEAD(self):
            self.do_GET()

        def log_message(self, *_):
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("name", ["run/rank-0.json", "run/", "run/rank-0.json?token=secret"])
@pytest.mark.parametrize(
    ("status", "location", "said"),
    [
        *((status, None, f"the server answers with status {status}") for status in (500, 503, 429)),
        (302, "/run/rank-0.json", "TooManyRedirects"),
        (302, "http://127.0.0.1:9/elsewhere.json", "ClientConnectorError"),
    ],
)
def test_what_a_server_fails_to_answer_may_exist(name, status, location, said):
    with answering(status, location) as url, pytest.raises(RemoteError) as caught:
        open_trace(f"{url}/{name}", progress=False)
    shown = name.replace("token=secret", "***")
    assert str(caught.value).startswith(f"{url}/{shown} could not be fetched ({said}")
    assert "try again" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "exist" not in str(caught.value)


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_what_a_server_does_not_show_does_not_exist(status):
    with answering(status) as url, pytest.raises(TraceNotFoundError, match="does not exist or is"):
        open_trace(f"{url}/run/rank-0.json", progress=False)


def test_a_server_that_is_not_there_has_files_that_may_exist():
    with answering(200) as url:
        pass
    with pytest.raises(RemoteError, match=r"could not be fetched \(ClientConnectorError"):
        open_trace(f"{url}/run/rank-0.json", progress=False)
