"""Thresholds above which a cause is worth a finding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TrialLimits(NamedTuple):
    """Thresholds above which kernels count as trials of an autotuner, see `Limits`."""

    kernels: int
    runs: int
    steps_percent: float


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a diagnosis; percentages are of the mean analysed step unless stated otherwise."""

    least_ms: float = 0.1
    """No finding costs less, whatever its share: users do not act on less."""
    least_percent: float = 5.0
    """For causes inferred from differences between ranks or steps: healthy GPUs differ by 2 %."""
    least_percent_with_evidence: float = 3.0
    """For causes that recorded calls or copies prove: reading a loss in each step costs 0.8 %."""
    least_percent_slow_link: float = 4.0
    """For a slow link, which is compared with the same transfers of other groups."""
    least_percent_in_every_job: float = 8.0
    """For exposed communication and elementwise kernels: every job has some."""
    least_percent_pipeline_bubble: float = 15.0
    """For a pipeline bubble: healthy pipelines have up to 13 %."""
    least_percent_unexplained: float = 15.0
    """For a loss without a known cause; smaller ones are not worth a finding that cannot help."""
    slower_kernels: float = 1.04
    """How many times as long as on the median rank the same kernels take on a slow GPU: healthy
    ones differ by 1 to 2 %."""
    slower_in_steps_percent: float = 25.0
    slower_in_most_steps_percent: float = 70.0
    """Share of the steps in which a throttled GPU, or a slow GPU, is that slow: one step may be a
    coincidence, and a slow GPU is slow nearly all the time."""
    slower_ranks_percent: float = 25.0
    """Largest share of the ranks (two are always allowed) whose kernels may take longer because of
    hardware; if more do, something else differs."""
    unsteady_pace: float = 1.15
    """Ratio of the slow to the fast tenth of the moments of a GPU that changes its clock, relative
    to that of the usual rank; the kernels of a steady GPU vary by a few percent."""
    slower_than_itself: float = 1.10
    """How many times as long the same kernels take on all ranks in a throttled step as in the fast
    steps; the clocks of healthy GPUs vary by a few percent."""
    more_work: float = 1.04
    """How many times as long as its peers a rank computes; equal work differs by 1 to 2 %."""
    more_work_of_stage: float = 1.1
    """The same for a pipeline stage: layers do not divide evenly."""
    uneven_exchange: float = 1.2
    """Ratio of the largest to the mean share of an all-to-all; routers are not more even."""
    overloaded_rank: float = 1.25
    """How many times the mean of all exchanges a rank must get to be named."""
    slower_link: float = 1.5
    """How many times as long as in other groups the same transfers take on a slow link."""
    slower_link_us: float = 30.0
    """And how much longer at least: short transfers vary by this."""
    float32_percent: float = 10.0
    """Smallest share of the time in matrix products without tensor cores, on the ranks with the
    most of it. What tensor cores would save decides; a smaller share is often meant to be exact."""
    elementwise_percent: float = 10.0
    """Smallest share of the compute time in elementwise kernels, on the ranks with most of their
    chains. What fusing would save decides, but it is estimated from the number of kernels. Every
    model has some, so the estimate is not trusted for a smaller share."""
    trial_kernels: int = 4
    """Fewest kernels that an autotuner tries; a new shape alone brings one or two."""
    trial_runs: int = 2
    """Fewest runs of each of them: an autotuner takes the median, or the best."""
    trial_steps_percent: float = 75.0
    """Largest share of the steps, or of a recording without steps, in which a tried kernel runs.
    One that runs in more steps belongs to the job, for example if batches of two shapes
    alternate."""
    longer_first_step_percent: float = 30.0
    """By how much the first step must exceed the median of the others to count as warm-up and be
    left out of all other rules: steps vary by less."""
    warm_up_explained_percent: float = 50.0
    """Part of this excess that must be idle time, or more computing than usual; other causes may
    make a first step longer, too."""
    initialising_percent: float = 5.0
    """Share of a recording of fewer than three steps spent initialising above which that is a
    cause: every process loads some modules late."""
    allocating_percent: float = 1.0
    """Share of a step above which its allocator calls count: a growing cache costs less."""
    pausing_percent: float = 2.0
    """Share of a step above which pauses count when looking for the ranks to blame; every host is
    interrupted at times."""
    pausing_ranks_percent: float = 25.0
    pausing_steps_percent: float = 70.0
    """No rank is to blame if at most this share of the ranks pauses in more than this share of the
    affected steps, and no single rank pauses in more of them: garbage collectors run when they
    like."""
    host_copies_percent: float = 2.0
    """Share of a step above which the exposed copies of a rank count; every batch is copied."""
    owner_percent: float = 60.0
    """Share of the time of a finding that must pass inside a function, module or operator for the
    sentence to name it: with less, another one might have as much."""

    @classmethod
    def of(cls, given: object) -> Limits:
        """The limits that somebody gives; the usual ones for None."""
        if not isinstance(given, Limits | None):
            msg = f"limits must be hta_widgets.Limits(…), got {given!r}"
            raise TypeError(msg)
        return given or cls()

    @property
    def trials(self) -> TrialLimits:
        """The thresholds for trials of an autotuner."""
        return TrialLimits(self.trial_kernels, self.trial_runs, self.trial_steps_percent)
