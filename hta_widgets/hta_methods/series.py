"""Methods of `TraceAnalysis` on time series."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hta_widgets.export.time_series import DEFAULT_SUFFIX, TimeSeriesTypes
from hta_widgets.hta_methods.base import JobMethods
from hta_widgets.trace.remote.urls import PathLike

if TYPE_CHECKING:
    import pandas as pd


class SeriesMethods(JobMethods):
    """Queue length and memory bandwidth over time."""

    def get_queue_length_time_series(
        self, ranks: Iterable[int] | None = None
    ) -> dict[int, pd.DataFrame]:
        """Operations launched but not yet started, over time.

        Parameters
        ----------
        ranks : iterable of int, optional
            The first rank by default.

        Returns
        -------
        dict of int to DataFrame
            Per rank with launches, one row per change, by stream and time: ``ts`` (µs), ``pid`` and
            ``tid`` (of the GPU operation), ``stream``, ``queue_length`` (from then on), indexed by
            the position in the file of the launch or of the operation that starts. If a rank has
            several devices: by device first, with a column ``device``.
        """
        from hta_widgets.analyses.queue_length import queue_changes
        from hta_widgets.hta_tables.queue_length import queue_length_time_series

        chosen = self._ranks_or_first(ranks)
        return queue_length_time_series({rank: queue_changes(self.job, rank) for rank in chosen})

    def get_queue_length_summary(self, ranks: Iterable[int] | None = None) -> pd.DataFrame | None:
        """Statistics of the queue length of each stream, over its changes.

        Parameters
        ----------
        ranks : iterable of int, optional
            The first rank by default.

        Returns
        -------
        DataFrame or None
            Indexed by ``rank`` and ``stream`` (and ``device``, where a rank has several); columns
            ``("queue_length", s)`` with s ``count`` (changes), ``mean``, ``std``, ``min``,
            ``25%``, ``50%``, ``75%``, ``max``. None without launches.
        """
        from hta_widgets.analyses.queue_length import queue_length
        from hta_widgets.hta_tables.queue_length import queue_length_summary

        return queue_length_summary(queue_length(self.job, self._ranks_or_first(ranks)))

    def get_memory_bw_time_series(
        self, ranks: Iterable[int] | None = None
    ) -> dict[int, pd.DataFrame]:
        """Bandwidth of copies and memsets over time.

        Parameters
        ----------
        ranks : iterable of int, optional
            The first rank by default.

        Returns
        -------
        dict of int to DataFrame
            Per rank with copies or memsets, one row per start and per end, by name and time: ``ts``
            (µs), ``pid``, ``name`` (``Memcpy HtoD``, ``Memset``, …), ``memory_bw_gbps`` (GB/s from
            then on, over all streams and devices).
        """
        from hta_widgets.analyses.memory_bandwidth import bandwidth_changes
        from hta_widgets.hta_tables.memory_bandwidth import memory_bw_time_series

        chosen = self._ranks_or_first(ranks)
        return memory_bw_time_series({rank: bandwidth_changes(self.job, rank) for rank in chosen})

    def get_memory_bw_summary(self, ranks: Iterable[int] | None = None) -> pd.DataFrame | None:
        """Statistics of the bandwidth of copies and memsets, over its changes to more than 0.

        Parameters
        ----------
        ranks : iterable of int, optional
            The first rank by default.

        Returns
        -------
        DataFrame or None
            Indexed by ``rank`` and ``name``; columns ``("memory_bw_gbps", s)`` in GB/s with s
            ``count`` (changes), ``mean``, ``std``, ``min``, ``25%``, ``50%``, ``75%``, ``max``.
            Without rows if no bandwidth is known; None without copies and memsets.
        """
        from hta_widgets.analyses.memory_bandwidth import transfer_statistics
        from hta_widgets.hta_tables.memory_bandwidth import memory_bw_summary

        return memory_bw_summary(transfer_statistics(self.job, self._ranks_or_first(ranks)))

    def generate_trace_with_counters(
        self,
        time_series: TimeSeriesTypes | None = None,
        ranks: Iterable[int] | None = None,
        output_suffix: str = DEFAULT_SUFFIX,
        *,
        output_dir: PathLike | None = None,
    ) -> None:
        """Write copies of traces with queue length and memory bandwidth as counter tracks.

        Each copy is written next to its trace with the same compression; traces are never
        overwritten. For a rank without counters, a message is logged and no file is written.

        Parameters
        ----------
        time_series : TimeSeriesTypes, optional
            Both by default.
        ranks : iterable of int, optional
            The first rank by default.
        output_suffix : str
            Added to the file name, before ``.json`` or ``.json.gz``.
        output_dir : path, optional
            An existing folder to write to, where the folder of the traces is read-only.

        Raises
        ------
        WriteError
            If the system refuses to write a copy.
        ParameterError
            If `output_suffix` cannot be part of a file name, or a file of that name exists that is
            not such a copy.
        """
        from hta_widgets.export.trace_with_counters import write_traces_with_counters

        chosen = self._ranks_or_first(ranks)
        write_traces_with_counters(self.job, time_series, chosen, output_suffix, output_dir)
