"""Adam, and its form with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import overload

from ..dispatch.functions.foreach import FOREACH
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..runtime.layout import strided
from ..runtime.scalar_type import float32
from .optimizer import (
    Group,
    Loss,
    Optimizer,
    Params,
    _use_grad_for_differentiable,
    by_device,
    check_capturable,
    check_number,
    check_options,
    in_layout,
    loss_of,
    rate_for,
    spare_saved,
    takes_fused,
)

__all__ = ["Adam", "AdamW"]

_foreach_add_, _foreach_sub_ = FOREACH["_foreach_add_"], FOREACH["_foreach_sub_"]

MOMENTS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")


class Adam(Optimizer):
    """Adam: steps scaled by running first and second moments (`torch.optim.Adam`; Kingma and Ba, 2015).

        g = grad + weight_decay * p;
        m = beta1 * m + (1 - beta1) * g;
        v = beta2 * v + (1 - beta2) * g^2;
        p = p - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)

    The number of the step is t. Both moments begin with zeros; the powers of the betas correct their bias.

    Args:
        params: The parameters, or dicts of parameter groups.
        lr: The learning rate, a number or a tensor of one element. Default: 1e-3.
        betas: The decay rates of the two moments, beta1 and beta2. Default: (0.9, 0.999).
        eps: A number added to the root of the second moment. Default: 1e-8.
        weight_decay: The L2 penalty; with `decoupled_weight_decay` the decay rate. Default: 0.
        amsgrad: If True, use the maximum of all past second moments (Reddi et al., 2018). Default: False.
        foreach, fused: If False, run one operation at a time. Otherwise a step is one launch for each device if all
            parameters are floating; `fused=True` requires that. Default: None.
        maximize: If True, maximize the objective. Default: False.
        capturable: If True, keep step counts on the parameters' device, so that a CUDA graph can capture a step.
            Default: False.
        differentiable: If True, autograd records the step. Default: False.
        decoupled_weight_decay: If True, decay weights as AdamW does. Default: False.

    Raises:
        ValueError: An option is out of its range.

    Example:
        >>> import triten as tt
        >>> w = tt.nn.Parameter(tt.ones(2))
        >>> optimizer = tt.optim.Adam([w], lr=0.25)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.tolist()
        [0.75, 0.75]
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_options(lr, foreach, fused, differentiable)
        check_number("epsilon value", eps)
        check_number("weight_decay value", weight_decay)
        if isinstance(lr, Tensor) and foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        if len({isinstance(beta, Tensor) for beta in betas}) == 2:
            raise ValueError("betas must be either both floats or both Tensors")
        for i, beta in enumerate(betas):
            if isinstance(beta, Tensor):
                if foreach and not capturable:
                    raise ValueError(
                        f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True"
                    )
                if beta.numel() != 1:
                    raise ValueError(f"Tensor betas[{i}] must be 1-element")
        self._step_supports_amp_scaling = bool(fused)
        super().__init__(
            params,
            {
                "lr": lr, "betas": _numbers(betas), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
                "maximize": maximize, "foreach": foreach, "capturable": capturable,
                "differentiable": differentiable, "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
            },
        )  # fmt: skip

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], Loss]) -> Loss: ...
    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Loss] | None = None) -> Loss | None:
        """Perform one step and return the closure's loss.

        Raises:
            RuntimeError: A gradient is sparse.
        """
        loss = loss_of(closure)
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            gradients = [parameter.grad for parameter in parameters]
            if not parameters:
                continue
            if any(gradient.layout is not strided for gradient in gradients):
                raise RuntimeError(
                    "Adam does not support sparse gradients, please consider SparseAdam instead"
                )
            fused = takes_fused(group, parameters, gradients)
            for parameter in parameters:
                check_capturable(group, parameter)
                self._prepare(group, parameter, fused)
            if fused:
                self._step_fused(group, parameters, gradients)
            else:
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    self._step_single(group, parameter, gradient)
        return loss

    def _kept_number(self, group: Group, parameter: Tensor, value: float) -> Tensor:
        device = parameter.device if group["fused"] or group["capturable"] else "cpu"
        return _ops.full((), value, dtype=float32, device=device)

    def _prepare(self, group: Group, parameter: Tensor, fused: bool) -> None:
        """Make the state at a parameter's first step; a fused step wants the count where the parameter is."""
        state = self.state[parameter]
        device = parameter.device if fused or group["capturable"] else "cpu"
        if "step" not in state:
            state["step"] = _ops.zeros((), dtype=float32, device=device)
            for moment in MOMENTS if group["amsgrad"] else MOMENTS[:2]:
                state[moment] = _ops.zeros_like(parameter)
        elif fused and state["step"].device is not parameter.device:
            state["step"] = state["step"].to(parameter.device)

    def _step_fused(self, group: Group, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        fused = _ops._fused_adamw_ if group["decoupled_weight_decay"] else _ops._fused_adam_
        found_inf = getattr(self, "found_inf", None)
        for indices in by_device(parameters):
            own = [parameters[i] for i in indices]
            states = [self.state[parameter] for parameter in own]
            steps = [state["step"] for state in states]
            _foreach_add_(steps, 1)
            fused(
                own,
                [in_layout(gradients[i], parameters[i]) for i in indices],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [state["max_exp_avg_sq"] for state in states] if group["amsgrad"] else [],
                steps,
                lr=rate_for(group["lr"], own[0].device),
                beta1=float(group["betas"][0]),
                beta2=float(group["betas"][1]),
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                amsgrad=group["amsgrad"],
                maximize=group["maximize"],
                grad_scale=getattr(self, "grad_scale", None),
                found_inf=found_inf,
            )
            if found_inf is not None:
                _foreach_sub_(steps, found_inf.to(own[0].device).reshape(()))

    def _step_single(self, group: Group, parameter: Tensor, gradient: Tensor) -> None:
        state, lr = self.state[parameter], group["lr"]
        if group["differentiable"]:
            spare_saved(state)
        beta1, beta2 = (float(beta) for beta in group["betas"])
        state["step"] += 1
        if group["maximize"]:
            gradient = -gradient
        if group["weight_decay"]:
            if group["decoupled_weight_decay"]:
                parameter.mul_(1 - lr * group["weight_decay"])
            else:
                gradient = gradient.add(parameter, alpha=group["weight_decay"])
        target = parameter
        moments = [state[name] for name in MOMENTS if name in state]
        if parameter.is_complex():
            gradient, target = _ops.view_as_real(gradient), _ops.view_as_real(parameter)
            moments = [_ops.view_as_real(moment) for moment in moments]
        mean, squares, *largest = moments
        mean.lerp_(gradient, 1 - beta1)
        squares.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        if largest:
            before = largest[0].clone() if group["differentiable"] else largest[0]
            squares = largest[0].copy_(_ops.maximum(before, squares))
        step = state["step"] if group["capturable"] or group["differentiable"] else state["step"].item()
        first, second = 1 - beta1**step, 1 - beta2**step
        root = squares.sqrt() / second**0.5 + group["eps"]
        size = lr / first
        if isinstance(size, Tensor):
            target.sub_(mean / root * size.to(target.device))
        else:
            target.addcdiv_(mean, root, value=-size)


def _numbers(betas: Iterable[float | Tensor]) -> tuple[float | Tensor, ...]:
    """Convert one-element tensors to 0-d tensors."""
    return tuple(beta.squeeze() if isinstance(beta, Tensor) else beta for beta in betas)


class AdamW(Adam):
    """Adam with decoupled weight decay (`torch.optim.AdamW`; Loshchilov and Hutter, 2019).

        p = (1 - lr * weight_decay) * p;
        m = beta1 * m + (1 - beta1) * g;
        v = beta2 * v + (1 - beta2) * g^2;
        p = p - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)

    Unlike in `Adam`, the decay of the weights does not pass through the moments.

    Args:
        params: The parameters, or dicts of parameter groups.
        lr: The learning rate, a number or a tensor of one element. Default: 1e-3.
        betas: The decay rates of the two moments, beta1 and beta2. Default: (0.9, 0.999).
        eps: A number added to the root of the second moment. Default: 1e-8.
        weight_decay: The decay rate of the weights. Default: 1e-2.
        amsgrad: If True, use the maximum of all past second moments (Reddi et al., 2018). Default: False.
        maximize: If True, maximize the objective. Default: False.
        foreach, fused: If False, run one operation at a time. Otherwise a step is one launch for each device if all
            parameters are floating; `fused=True` requires that. Default: None.
        capturable: If True, keep step counts on the parameters' device, so that a CUDA graph can capture a step.
            Default: False.
        differentiable: If True, autograd records the step. Default: False.

    Raises:
        ValueError: An option is out of its range.

    Example:
        >>> import triten as tt
        >>> w = tt.nn.Parameter(tt.ones(2))
        >>> optimizer = tt.optim.AdamW([w], lr=0.25, weight_decay=1.0)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.tolist()
        [0.5, 0.5]
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip
