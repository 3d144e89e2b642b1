"""How kernels are launched: grid, block, registers, shared memory, occupancy and waves."""

from hta_widgets.analyses.launch_facts.analysis import LaunchFacts, launch_facts, with_launch_facts

__all__ = ["LaunchFacts", "launch_facts", "with_launch_facts"]
