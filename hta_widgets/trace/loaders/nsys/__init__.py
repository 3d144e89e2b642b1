"""Nsight Systems exports: SQLite files and folders of Parquet files."""
