"""Types of numpy arrays, by what they hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Int64Array = NDArray[np.int64]
Int32Array = NDArray[np.int32]
Int8Array = NDArray[np.int8]
Float64Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
"""Which rows are chosen."""
