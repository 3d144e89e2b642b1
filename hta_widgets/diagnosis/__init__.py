"""Why a job is slow: its causes, on which ranks and steps, their cost, and what to do."""

from hta_widgets.analyses.budget.classes import BUDGET
from hta_widgets.diagnosis.analysis import diagnose, diagnosis, diagnosis_of_phase
from hta_widgets.diagnosis.budget_table import budget
from hta_widgets.diagnosis.causes import ALL_CAUSES
from hta_widgets.diagnosis.cpu_work import CpuOwner, CpuWork
from hta_widgets.diagnosis.facts.not_recorded import NotRecorded
from hta_widgets.diagnosis.finding import Finding, Link
from hta_widgets.diagnosis.limits import Limits
from hta_widgets.diagnosis.proof.proof import Proof
from hta_widgets.diagnosis.report import Diagnosis, Together

CAUSES = tuple(each.name for each in ALL_CAUSES)
"""Names of all causes that a diagnosis can name."""

__all__ = [
    "BUDGET",
    "CAUSES",
    "CpuOwner",
    "CpuWork",
    "Diagnosis",
    "Finding",
    "Limits",
    "Link",
    "NotRecorded",
    "Proof",
    "Together",
    "budget",
    "diagnose",
    "diagnosis",
    "diagnosis_of_phase",
]
