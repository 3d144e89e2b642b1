"""Why a job is slow: the causes, who, when, what they cost, what to do."""

from hta_widgets.analyses.diagnosis.analysis import Diagnosis, diagnosis
from hta_widgets.analyses.diagnosis.budget import BUDGET, budget
from hta_widgets.analyses.diagnosis.cpu_work import CpuOwner, CpuWork
from hta_widgets.analyses.diagnosis.finding import Finding, Link
from hta_widgets.analyses.diagnosis.limits import Limits
from hta_widgets.analyses.diagnosis.not_recorded import NotRecorded
from hta_widgets.analyses.diagnosis.vocabulary import CAUSES

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
    "budget",
    "diagnosis",
]
