"""Methods of `TraceAnalysis` on ranks that the others wait for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from hta_widgets.errors import ParameterError
from hta_widgets.hta_methods.base import JobMethods, show

if TYPE_CHECKING:
    import pandas as pd

    Identify = Callable[[pd.DataFrame, Sequence[str], int, bool], pd.Series]

_log = logging.getLogger(__name__)


class StragglerMethods(JobMethods):
    """Which ranks the others wait for."""

    def get_potential_stragglers(
        self,
        profiler_steps: Iterable[int] | None = None,
        num_candidates: int = 2,
        visualize: bool = False,  # noqa: FBT001, FBT002
        straggler_identification_impl: Identify | None = None,
    ) -> list[int]:
        """Ranks that need longer than the others, which wait for them.

        A rank is one if its own time (what a step takes it without waiting for others, see the
        diagnosis) exceeds that of the median rank by 5 % of a step, in at least half of the steps.

        Parameters
        ----------
        profiler_steps : iterable of int, optional
            All analysed steps by default.
        num_candidates : int
            Maximum number of ranks; fewer than 1 counts as 1.
        visualize : bool
            Show the own time of each rank and step.
        straggler_identification_impl : callable, optional
            Your own rule: from a table of the GPU work of all ranks (``rank``, ``name`` (code),
            ``s_name``, ``stream``, ``device``, ``iteration``, ``ts``, ``dur`` in µs on the common
            clock), the names by code, `num_candidates` and `visualize` to a Series by rank, larger
            for likelier ones; ranks with 0 or less are left out.

        Returns
        -------
        list of int
            Most time first; empty for a healthy job, and where it cannot be told (a warning is
            logged).

        Raises
        ------
        ParameterError
            If none of the steps is analysed.
        """
        from hta_widgets.hta_tables.stragglers import candidate_frame, stragglers

        count = max(1, int(num_candidates))
        steps = self._steps_among(profiler_steps)
        if straggler_identification_impl is not None:
            frame, names = candidate_frame(self.job, self.job.ranks)
            if steps:
                frame = frame[frame["iteration"].isin(steps)]
            scores = straggler_identification_impl(frame, names, count, visualize)
            best = scores[scores > 0].sort_values(ascending=False, kind="stable")
            return [int(rank) for rank in best.index[:count]]
        found, limit = stragglers(self.job, steps, count)
        if limit:
            _log.warning("Stragglers: %s", limit)
        if visualize:
            self._show_own_time(steps)
        return found

    def _steps_among(self, asked: Iterable[int] | None) -> list[int]:
        """Analysed steps that are asked for."""
        known = self.get_profiler_steps()
        if asked is None:
            return known
        numbers = sorted({int(step) for step in asked})
        chosen = [step for step in numbers if step in known]
        if not chosen:
            msg = f"profiler_steps must be among the analysed steps {known}, got {numbers}"
            raise ParameterError(msg)
        return chosen

    def _show_own_time(self, steps: Sequence[int]) -> None:
        from hta_widgets.diagnosis import diagnosis
        from hta_widgets.diagnosis.own_time import own_time
        from hta_widgets.figures.diagnosis import own_time_cells

        own = own_time(diagnosis(self.job, steps=steps or None).steps)
        show(own_time_cells(own), "Own time of the ranks")
