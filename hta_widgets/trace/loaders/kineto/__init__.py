"""PyTorch-profiler (Kineto) traces."""
