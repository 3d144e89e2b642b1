"""What user annotations take, on the GPU and on the CPU."""

from hta_widgets.analyses.gpu_annotations.analysis import GpuAnnotations, gpu_annotations

__all__ = ["GpuAnnotations", "gpu_annotations"]
