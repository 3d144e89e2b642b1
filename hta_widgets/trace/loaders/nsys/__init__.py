"""Nsight Systems exports, and folders of its overlap recipe."""
