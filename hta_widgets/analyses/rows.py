"""Tables from rows that were reckoned one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd


def table_of(rows: Sequence[Mapping[str, Any]], types: Mapping[str, type]) -> pd.DataFrame:
    """Put rows into columns of the given types; without rows, the columns are empty."""
    return pd.DataFrame(
        {name: np.array([row[name] for row in rows], dtype=of) for name, of in types.items()}
    )
