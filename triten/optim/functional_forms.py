"""Optimizer steps as functions of lists of tensors (`torch.optim._functional`): one table.

A function gets parameters, gradients and states, and updates parameters and states in-place. It is a step of the
optimizer class, whose state is made of the lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature, unwrap
from typing import Any

from .. import optim
from ..dispatch.autograd.grad_mode import no_grad
from ..dispatch.tensor import Tensor

FORMS = {
    "adadelta": (
        "Adadelta",
        "square_avgs=square_avg acc_deltas=acc_delta state_steps=step",
        "capturable=False foreach=None differentiable=False has_complex=False",
        "lr rho eps weight_decay maximize",
    ),
    "adagrad": (
        "Adagrad",
        "state_sums=sum state_steps=step",
        "fused=None grad_scale=None found_inf=None has_sparse_grad=False foreach=None differentiable=False "
        "has_complex=False",
        "lr weight_decay lr_decay eps maximize",
    ),
    "adam": (
        "Adam",
        "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq max_exp_avg_sqs=max_exp_avg_sq state_steps=step",
        "foreach=None capturable=False differentiable=False fused=None grad_scale=None found_inf=None "
        "has_complex=False decoupled_weight_decay=False",
        "amsgrad beta1 beta2 lr weight_decay eps maximize",
    ),
    "adamax": (
        "Adamax",
        "exp_avgs=exp_avg exp_infs=exp_inf state_steps=step",
        "foreach=None maximize=False differentiable=False capturable=False has_complex=False",
        "eps beta1 beta2 lr weight_decay",
    ),
    "adamw": (
        "AdamW",
        "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq max_exp_avg_sqs=max_exp_avg_sq state_steps=step",
        "foreach=None capturable=False differentiable=False fused=None grad_scale=None found_inf=None "
        "has_complex=False",
        "amsgrad beta1 beta2 lr weight_decay eps maximize",
    ),
    "asgd": (
        "ASGD",
        "axs=ax mus=mu etas=eta state_steps=step",
        "foreach=None maximize=False differentiable=False capturable=False has_complex=False",
        "lambd lr t0 alpha weight_decay",
    ),
    "nadam": (
        "NAdam",
        "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq mu_products=mu_product state_steps=step",
        "decoupled_weight_decay=False foreach=None capturable=False differentiable=False has_complex=False "
        "maximize=False",
        "beta1 beta2 lr weight_decay momentum_decay eps",
    ),
    "radam": (
        "RAdam",
        "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq state_steps=step",
        "decoupled_weight_decay=False foreach=None differentiable=False capturable=False has_complex=False "
        "maximize=False",
        "beta1 beta2 lr weight_decay eps",
    ),
    "rmsprop": (
        "RMSprop",
        "square_avgs=square_avg grad_avgs=grad_avg momentum_buffer_list=momentum_buffer state_steps=step",
        "foreach=None maximize=False differentiable=False capturable=False has_complex=False",
        "lr alpha eps weight_decay momentum centered",
    ),
    "rprop": (
        "Rprop",
        "prevs=prev step_sizes=step_size state_steps=step",
        "foreach=None capturable=False maximize=False differentiable=False has_complex=False",
        "step_size_min step_size_max etaminus etaplus",
    ),
    "sgd": (
        "SGD",
        "momentum_buffer_list=momentum_buffer",
        "has_sparse_grad=False foreach=None fused=None grad_scale=None found_inf=None",
        "weight_decay momentum lr dampening nesterov maximize",
    ),
    "sparse_adam": (
        "SparseAdam",
        "exp_avgs=exp_avg exp_avg_sqs=exp_avg_sq state_steps=step",
        "",
        "eps beta1 beta2 lr maximize",
    ),
}
"""For each function its class, the lists and the state's names, the options with defaults, and those without."""

_PAIRS = {
    "betas": ("beta1", "beta2"),
    "etas": ("etaminus", "etaplus"),
    "step_sizes": ("step_size_min", "step_size_max"),
}
"""Options of the classes that are two options of the functions."""
_HINTS = ("has_complex", "has_sparse_grad")
"""Options that say what the tensors say themselves."""
_VALUES = {"None": None, "False": False}

__all__ = list(FORMS)


def _form(name: str) -> Callable[..., None]:
    """Return a function that performs a step of an optimizer class with lists of tensors.

    It raises NotImplementedError for `differentiable`, `grad_scale` and `found_inf`.
    """
    class_name, lists, optional, required = FORMS[name]
    state_names = dict(each.split("=") for each in lists.split())
    defaults = dict(each.split("=") for each in optional.split())
    gradients = "d_p_list" if name == "sgd" else "grads"
    kind = Parameter.POSITIONAL_OR_KEYWORD
    signature = Signature(
        [
            *(Parameter(each, kind) for each in ("params", gradients, *state_names)),
            *(Parameter(each, kind, default=_VALUES[value]) for each, value in defaults.items()),
            *(Parameter(each, Parameter.KEYWORD_ONLY) for each in required.split()),
        ]
    )

    def step(*args: Any, **kwargs: Any) -> None:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        options = given.arguments
        params, grads = options.pop("params"), options.pop(gradients)
        states = {state_name: options.pop(each) for each, state_name in state_names.items()}
        for refused in ("differentiable", "grad_scale", "found_inf"):
            if options.pop(refused, None):
                raise NotImplementedError(
                    f"{name}: argument {refused!r} is not supported; use optim.{class_name}"
                )
        for hint in _HINTS:
            options.pop(hint, None)
        for pair, names in _PAIRS.items():
            if names[0] in options:
                options[pair] = tuple(options.pop(each) for each in names)
        _step(getattr(optim, class_name), params, grads, states, options)

    step.__name__ = step.__qualname__ = name
    step.__doc__ = (
        f"Perform a step of `{class_name}` with lists of tensors (`torch.optim._functional.{name}`)."
    )
    vars(step)["__signature__"] = signature
    return step


def _step(
    cls: Any,
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    states: dict[str, Any],
    options: dict[str, Any],
) -> None:
    """Perform a step of an optimizer class, and write its new states into the lists."""
    parameters = [each.detach() for each in params]
    for parameter, gradient in zip(parameters, grads, strict=True):
        parameter.grad = gradient
    if not parameters:
        return
    optimizer = cls(parameters, **options)
    for i, parameter in enumerate(parameters):
        before = {name: values[i] for name, values in states.items() if values}
        # A count that is no tensor has been increased by the caller.
        optimizer.state[parameter].update(
            {
                name: value if isinstance(value, Tensor) else value - 1
                for name, value in before.items()
                if value is not None
            }
        )
    with no_grad():
        unwrap(cls.step)(optimizer)
    for i, parameter in enumerate(parameters):
        for name, value in optimizer.state[parameter].items():
            values = states.get(name)
            if not values or values[i] is value or not isinstance(value, Tensor):
                continue
            if values[i] is None:
                values[i] = value
            else:
                values[i].copy_(value)


globals().update({name: _form(name) for name in FORMS})
