"""`annotate`: a type for a value of a program that is traced (torch/fx/annotate.py)."""

from __future__ import annotations

from typing import Any, TypeVar

from .proxy import Proxy

__all__ = ["annotate"]

Value = TypeVar("Value")


def annotate(val: Value, type: Any) -> Value:
    """Give the step of a proxy an annotation; any other value is left as it is (`torch.fx.annotate.annotate`).

    Raises:
        RuntimeError: the step has one already.

    Example:
        >>> import triten as tt
        >>> from triten.fx.annotate import annotate
        >>> module = tt.fx.symbolic_trace(lambda x: annotate(x + 1, int))
        >>> print(module.code.strip())
        def forward(self, x):
            add : int = x + 1;  x = None
            return add
    """
    if isinstance(val, Proxy):
        if val.node.type is not None:
            raise RuntimeError(
                f"annotate(): {val.node} already has the type {val.node.type}, got {type}; that of a parameter stands "
                "in the function's signature"
            )
        val.node.type = type
    return val
