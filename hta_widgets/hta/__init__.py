"""HTA's modules under their own names: import `hta_widgets.hta` in place of `hta`.

``docs/coming-from-hta.md`` lists the modules that exist here, and what to use in place of the
others, such as `hta_widgets.hta.configs`, which raise ``ModuleNotFoundError``.
"""
