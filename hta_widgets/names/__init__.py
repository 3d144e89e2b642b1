"""Names of kernels: demangled, normalised and shortened."""
