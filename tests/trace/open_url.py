"""Open a URL with the package of its file system, as users do, and print what it holds.

python -m tests.trace.open_url URL NAME_OF_ONE_FILE
"""

from __future__ import annotations

import json
import sys

from hta_widgets import TraceAnalysis
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.errors import TraceNotFoundError
from hta_widgets.trace.opening import fetch
from hta_widgets.trace.opening import open as opening
from hta_widgets.trace.ranks import cache
from tests.serving import say

HEAD_BYTES = 4_000


def shares(url, *, said):
    """Open a job as one part of the test, and print its ranks and their numbers."""
    job = TraceAnalysis(url, progress=False)
    say(f"{said}: ranks {[*job.job.ranks]}")
    table = temporal_breakdown(job.job).ranks
    say(f"{said}: {json.dumps(table.to_dict('list'))}")


def error_of(url):
    try:
        TraceAnalysis(url, progress=False)
    except TraceNotFoundError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    cache.WORTH_KEEPING = 0
    fetch.HEAD_BYTES = (HEAD_BYTES,)
    opening.RANKS_HELD = 1
    opening.BYTES_AT_ONCE = 0
    folder, file = sys.argv[1:]
    shares(folder, said="first")
    shares(folder, said="again")
    shares(f"{folder}/{file}", said="one")
    say(f"none: {error_of(f'{folder}/none')}")
