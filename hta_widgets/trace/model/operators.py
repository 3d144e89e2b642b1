"""Operators that more is loaded of than of others."""

from __future__ import annotations

from typing import Final

COSTED_BY_VALUES: Final = frozenset(
    {
        *("aten::convolution", "aten::_convolution", "aten::convolution_backward"),
        *(
            f"aten::_scaled_dot_product_{kind}_attention{direction}"
            for kind in ("flash", "efficient", "cudnn")
            for direction in ("", "_backward")
        ),
        *("flash_attn::_flash_attn_forward", "aiter::fmha_v3_fwd", "aiter::mha_fwd"),
    }
)
"""What they compute depends on inputs that are no Tensors, such as strides and flags: column
``concrete_inputs`` of the side table ``operators`` has the values of these, as JSON text."""
