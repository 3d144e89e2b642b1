"""A module for each cause, with its rule: from what is known to a finding, or to none.

A rule may read what the rules before it found (`Context.found`, `Context.prices`).
"""
