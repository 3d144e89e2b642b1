"""One module for each cause, with its rule, which turns known facts into a finding, or None.

A rule may read what the rules before it found (`Context.found`, `Context.prices`).
"""
