"""Output folders of the Nsight Systems overlap recipe."""
