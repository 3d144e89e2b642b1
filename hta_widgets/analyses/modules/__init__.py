"""GPU, CPU, communication and idle time of each module, forward and backward."""

from hta_widgets.analyses.modules.analysis import ModuleTree, module_totals, modules, time_by_phase

__all__ = ["ModuleTree", "module_totals", "modules", "time_by_phase"]
