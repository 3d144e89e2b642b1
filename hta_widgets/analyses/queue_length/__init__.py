"""How many operations wait on each stream: launched but not yet started."""

from hta_widgets.analyses.queue_length.analysis import QueueLength, queue_length

__all__ = ["QueueLength", "queue_length"]
