"""Why each GPU is idle, and which CPU call the time belongs to."""

from hta_widgets.analyses.idle_owners.analysis import IdleOwners, idle_owners
from hta_widgets.analyses.idle_owners.paths import owners_by_line, with_lines
from hta_widgets.analyses.idle_owners.sums import causes_by_device, owners_by_name, owners_by_path

__all__ = [
    "IdleOwners",
    "causes_by_device",
    "idle_owners",
    "owners_by_line",
    "owners_by_name",
    "owners_by_path",
    "with_lines",
]
