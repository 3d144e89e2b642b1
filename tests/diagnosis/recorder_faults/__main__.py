"""Break all jobs in all ways: ``python -m tests.diagnosis.recorder_faults``.

``--only TEXT`` takes the jobs with this in their names, and leaves the numbers of the others.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.diagnosis.recorder_faults.effects import effects, read_job
from tests.diagnosis.recorder_faults.faults import FAULTS
from tests.diagnosis.recorder_faults.jobs import JOBS, files_of
from tests.diagnosis.recorder_faults.table import Table


def main() -> None:
    """Break each job, print the table, and write it into the docs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="take the jobs with this text in their names")
    options = parser.parse_args()
    found = {}
    for name in (each for each in JOBS if options.only in each):
        with TemporaryDirectory() as scratch:
            job = read_job(files_of(name, Path(scratch)))
            broken = Path(scratch) / "broken"
            found[name] = effects(job, FAULTS, [*job], broken)
            if len(job) > 1:
                found[f"{name}, one rank"] = effects(job, FAULTS, [min(job)], broken)
        sys.stderr.write(f"{name}\n")
    table = Table.read().with_jobs(found)
    table.write()
    sys.stdout.write(table.text())


if __name__ == "__main__":
    main()
