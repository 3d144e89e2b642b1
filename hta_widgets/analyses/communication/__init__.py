"""Communication kernels of the ranks of a job, and which of them belong together."""
