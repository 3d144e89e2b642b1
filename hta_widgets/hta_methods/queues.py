"""Methods of `TraceAnalysis` on series of queue lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hta_widgets.hta_methods.base import JobMethods

if TYPE_CHECKING:
    import pandas as pd


class QueueMethods(JobMethods):
    """What series of queue lengths add up to."""

    @staticmethod
    def get_queue_length_summary_from_time_series(
        queue_length_dict: Mapping[int, pd.DataFrame],
    ) -> pd.DataFrame | None:
        """Statistics of the queue length of each stream, over the changes of a series.

        Parameters
        ----------
        queue_length_dict : mapping of int to DataFrame
            What `get_queue_length_time_series` returns, or rows of it; it stays as it is.

        Returns
        -------
        DataFrame or None
            As `get_queue_length_summary`; None without series.
        """
        from hta_widgets.hta_tables.queue_summaries import summary_of_series

        return summary_of_series(queue_length_dict)

    def get_time_spent_blocked_on_full_queue(
        self, queue_length_dict: Mapping[int, pd.DataFrame], max_queue_length: float = 1024
    ) -> pd.DataFrame:
        """How long the queue of each stream is full, and what that costs the CPU.

        Parameters
        ----------
        queue_length_dict : mapping of int to DataFrame
            What `get_queue_length_time_series` returns, or rows of it; it stays as it is.
        max_queue_length : float
            Launches that wait in a full queue.

        Returns
        -------
        DataFrame
            One row per rank and stream whose queue reaches that length, or holds up launch calls:
            ``rank``, ``stream``, ``duration_at_max_queue_length`` (µs), and as a share (0 to 1) of
            the recording ``relative_duration_at_max_queue_length``; ``blocked_calls`` (launch calls
            that wait for a place in the queue, whatever `max_queue_length`) and ``blocked (us)``
            (how much longer these take than the median one). If a rank has several devices: a
            column ``device``.
        """
        from hta_widgets.analyses.queue_length import queue_length
        from hta_widgets.hta_tables.queue_summaries import recorded_us, time_at_full_queue
        from hta_widgets.quantities import NS_PER_US

        ranks = self.job.select_ranks(queue_length_dict) if queue_length_dict else ()
        spans = self.job.reduce(recorded_us, ranks) if ranks else {}

        def held_up(rank: int) -> dict[tuple[int, int | None], tuple[int, float]]:
            streams = queue_length(self.job, [rank]).streams
            has_devices = "device" in queue_length_dict[rank]
            return {
                (row["stream"], row["device"] if has_devices else None): (
                    row["blocked_calls"],
                    row["blocked_ns"] / NS_PER_US,
                )
                for row in streams.to_dict("records")
            }

        return time_at_full_queue(queue_length_dict, max_queue_length, spans.__getitem__, held_up)
