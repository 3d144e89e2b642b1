"""Folders that the overlap recipe of Nsight Systems wrote."""
