"""AdamW without fusion, as PyTorch's operators."""

from __future__ import annotations

from math import prod

from hta_widgets.sample.inputs import Input, scalar, tensor
from hta_widgets.sample.kernels import elementwise, lambda_functor
from hta_widgets.sample.operators import Op, output

MULTIPLY = (
    "at::native::BUnaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, "
    "at::native::binary_internal::MulFunctor<c10::BFloat16> >"
)
_ITERATOR_AND_SCALAR = "(at::TensorIteratorBase&, c10::Scalar const&)"
_ADAMW = (
    ("aten::mul_", MULTIPLY, 2),
    ("aten::lerp_", lambda_functor(f"lerp_scalar_kernel{_ITERATOR_AND_SCALAR}", 2), 3),
    ("aten::mul_", MULTIPLY, 2),
    ("aten::addcmul_", lambda_functor(f"addcmul_cuda_kernel{_ITERATOR_AND_SCALAR}", 3), 4),
    ("aten::sqrt", lambda_functor("sqrt_kernel_cuda(at::TensorIteratorBase&)", 1), 2),
    ("aten::div", MULTIPLY, 2),
    ("aten::add_", "at::native::CUDAFunctorOnSelf_add<c10::BFloat16>", 2),
    ("aten::addcdiv_", lambda_functor(f"addcdiv_cuda_kernel{_ITERATOR_AND_SCALAR}", 3), 4),
)
_VALUES = ((0.99999,), (0.1,), (0.999,), (0.001,), (), (0.1,), (1e-08, 1), (-0.001,))
_USES = {"aten::sqrt": 1, "aten::div": 2}
"""How many operations the results that are not written in place outlive."""


def adamw(elements: int) -> tuple[Op, ...]:
    """Update one parameter without fusion: a small kernel per arithmetic operation."""
    return tuple(
        Op(name, work=(elementwise(functor, elements, tensors, cached=True),))
        for name, functor, tensors in _ADAMW
    )


def recorded_adamw(shape: tuple[int, ...]) -> tuple[Op, ...]:
    """`adamw` with the inputs of each operation, and what it allocates."""
    elements = prod(shape)
    return tuple(
        Op(
            op.name,
            work=op.work,
            inputs=_inputs(op.name, shape, values),
            allocates=(output(elements, uses=_USES[op.name]),) if op.name in _USES else (),
        )
        for op, values in zip(adamw(elements), _VALUES, strict=True)
    )


def _inputs(name: str, shape: tuple[int, ...], values: tuple[float, ...]) -> tuple[Input, ...]:
    tensors = {"aten::lerp_": 2, "aten::addcmul_": 3, "aten::addcdiv_": 3}.get(name, 1)
    return (*(tensor(*shape),) * tensors, *map(scalar, values))
