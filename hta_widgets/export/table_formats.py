"""`hta_widgets.sample.table_formats`, by the name that older notebooks import it by."""

from hta_widgets.sample.table_formats import write_cupti_tables, write_overlap_recipe

__all__ = ["write_cupti_tables", "write_overlap_recipe"]
