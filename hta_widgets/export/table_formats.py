"""`hta_widgets.sample.table_formats` under the name that older notebooks import."""

from hta_widgets.sample.table_formats import write_cupti_tables, write_overlap_recipe

__all__ = ["write_cupti_tables", "write_overlap_recipe"]
