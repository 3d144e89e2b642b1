"""Figures: functions from a result, or from a table of it, to a `Drawing`.

What their arguments have in common: ``selected`` is what to emphasise (ranks, kernels, operators,
…), and none means all; ``as_percent`` draws shares instead of times; ``num_…`` is how many have a
bar; ``window_us`` is what is shown, from start to end in µs since the job's origin, and all when it
is empty; ``shift_ns`` is added to the times of each rank, for a common axis.
"""
