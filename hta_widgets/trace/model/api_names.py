"""Names of CUDA API calls, which some profilers write with variant and version."""

from __future__ import annotations

import re

_VARIANT = re.compile(r"(_ptsz|_ptds|_v\d{4,})+$")


def api_name(call: str) -> str:
    """Name of a call without the variant and version that some profilers append.

    Examples
    --------
    >>> api_name("cudaLaunchKernelExC_v11060"), api_name("cuLaunchKernel_ptsz")
    ('cudaLaunchKernelExC', 'cuLaunchKernel')
    >>> api_name("cuMemcpyHtoD_v2")
    'cuMemcpyHtoD_v2'
    """
    return _VARIANT.sub("", call) or call
