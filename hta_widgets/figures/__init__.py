"""Figures: functions that turn a result, or one of its tables, into a `Drawing`.

They share these arguments: ``selected`` is what to emphasise (ranks, kernels, operators, …), where
none means all; ``as_percent`` draws shares instead of times; ``num_…`` is the number of bars;
``window_us`` is the time to show, from start to end in µs since the job's origin, where empty means
all; ``shift_ns`` is added to the times of each rank to put them on a common axis.
"""
