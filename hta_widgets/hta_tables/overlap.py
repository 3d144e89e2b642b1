"""The communication-computation overlap as HTA's table."""

from __future__ import annotations

import pandas as pd

from hta_widgets.analyses.overlap import Overlap
from hta_widgets.hta_tables import device_column


def overlap(result: Overlap) -> pd.DataFrame:
    """Return the columns that `TraceAnalysis.get_comm_comp_overlap` documents."""
    table = result.ranks
    columns = {
        "rank": table["rank"],
        "comp_comm_overlap_pctg": table["overlap_percent"].round(2),
    }
    return pd.DataFrame(columns | device_column(table))
