from __future__ import annotations

import pytest

from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A job of four ranks whose selection the tests of one module share."""
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder, ranks=4, steps=3, progress=False)
    return open_trace(folder, progress=False)
