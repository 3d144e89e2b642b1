"""Collectives across ranks: who waits, who is late, how long the transfer takes."""

from hta_widgets.analyses.collectives.analysis import Collectives, collectives

__all__ = ["Collectives", "collectives"]
