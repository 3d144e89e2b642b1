"""HTA's modules under their own names: `hta_widgets.hta` in place of `hta` in a program's imports.

What is here, and what to use in place of the rest, is listed in ``docs/coming-from-hta.md``: a
``ModuleNotFoundError`` such as for `hta_widgets.hta.configs` is of the rest.
"""
