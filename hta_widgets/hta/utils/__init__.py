"""Modules of ``hta.utils``, whose names are HTA's."""
