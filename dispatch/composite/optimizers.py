"""Functional and ``out=`` forms of optimizer steps, as PyTorch generates them: the step runs on copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..core.overload_packet import packets
from .forms import write_out

if TYPE_CHECKING:
    from ..tensor import Tensor

Written = Callable[..., tuple[Any, ...]]


def _copied(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [tensor.detach().clone() for tensor in value]
    return value.detach().clone()


def functional_form(name: str, written: int, keywords: Sequence[str]) -> Written:
    """Return the functional form of the step `name`: it copies its first `written` arguments, and returns the copies.

    Args:
        keywords: Names of its keyword-only arguments, which come last.
    """

    def form(*args: Any) -> tuple[Any, ...]:
        positional = len(args) - len(keywords)
        copies = [_copied(value) for value in args[:written]]
        named = dict(zip(keywords, args[positional:], strict=True))
        packets[name].call(*copies, *args[written:positional], **named)
        return tuple(copies)

    return form


def out_form(name: str, functional: Written, written: int) -> Callable[..., None]:
    """Return the ``out=`` form: it copies the first result to `out`, and the others back to their arguments."""

    def form(*args: Any) -> None:
        if isinstance(args[-1], list | tuple) and len(args[-1]) != len(args[0]):
            raise RuntimeError(f"{name}: expected {len(args[0])} outputs, got {len(args[-1])}")
        results = functional(*args[:-1])
        for target, result in zip((args[-1], *args[1:written]), results, strict=True):
            if isinstance(result, list):
                for output, value in zip(target, result, strict=True):
                    write_out(name, output, value)
            else:
                write_out(name, target, result)

    return form


_SGD = (
    *("weight_decay", "momentum", "lr", "dampening", "nesterov", "maximize", "is_first_step"),
    *("grad_scale", "found_inf"),
)
_ADAM = (
    *("lr", "beta1", "beta2", "weight_decay", "eps", "amsgrad", "maximize"),
    *("grad_scale", "found_inf"),
)

_fused_sgd = _fused_sgd_tensor_lr = functional_form("_fused_sgd_", 3, _SGD)
_fused_sgd_out = _fused_sgd_tensor_lr_out = out_form("_fused_sgd", _fused_sgd, 3)
_fused_adam = _fused_adam_tensor_lr = functional_form("_fused_adam_", 5, _ADAM)
_fused_adam_out = _fused_adam_tensor_lr_out = out_form("_fused_adam", _fused_adam, 5)
_fused_adamw = _fused_adamw_tensor_lr = functional_form("_fused_adamw_", 5, _ADAM)
_fused_adamw_out = _fused_adamw_tensor_lr_out = out_form("_fused_adamw", _fused_adamw, 5)


def _amp_foreach_non_finite_check_and_unscale(
    self: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor
) -> tuple[Sequence[Tensor], Tensor]:
    """Return the unscaled gradients, and whether all are finite."""
    copies, inf_flag = _copied(self), _copied(found_inf)
    packets["_amp_foreach_non_finite_check_and_unscale_"].call(copies, inf_flag, inv_scale)
    return copies, inf_flag


_amp_foreach_non_finite_check_and_unscale_out = out_form(
    "_amp_foreach_non_finite_check_and_unscale", _amp_foreach_non_finite_check_and_unscale, 2
)
