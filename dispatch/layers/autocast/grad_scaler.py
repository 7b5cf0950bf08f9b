"""`GradScaler`: loss scaling, which keeps float16 gradients from underflowing (torch/amp/grad_scaler.py).

Scale, growth tracker and the infinity flags stay on the device; only `step` and `get_scale` synchronize.
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, overload

from ....runtime.device import device as Device
from ....runtime.scalar_type import float16, float32, float64, int32
from ...autograd.grad_mode import no_grad
from ...generated import functions as ops
from ...tensor import Tensor


class OptState(enum.Enum):
    """State of an optimizer since the last `update`."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class Optimizer(Protocol):
    """Protocol of an optimizer: groups of parameters, and `step`."""

    param_groups: Sequence[dict[str, Any]]

    def step(self, *args: Any, **kwargs: Any) -> Any:
        """Change the parameters by their gradients."""


class _OptimizerState:
    """Stage of an optimizer, and for each device of its gradients a flag for non-finite values."""

    def __init__(self) -> None:
        self.stage = OptState.READY
        self.found_inf: dict[Device, Tensor] = {}


class GradScaler:
    """Gradient scaler: it scales losses, unscales gradients, skips steps with infinities and adapts the scale
    (`torch.amp.GradScaler`).

    In each iteration: `scale` the loss before ``backward()``, `step` instead of ``optimizer.step()``, then `update`.
    Call `unscale_` before `step` to clip or inspect gradients.

    Args:
        device: The device type. For CUDA on a machine without it, warn and disable the scaler.
        init_scale: The initial scale.
        growth_factor: Factor of the scale after `growth_interval` iterations without infinities. Greater than 1.
        backoff_factor: Factor of the scale after an iteration with infinities. Less than 1.
        growth_interval: Number of iterations, see `growth_factor`.
        enabled: If False, leave losses, gradients and steps unchanged.

    Raises:
        AssertionError: for factors on the wrong side of 1, and for methods called out of order.

    Example:
        >>> import triten as tt
        >>> class SGD:
        ...     def __init__(self, *params):
        ...         self.param_groups = [{"params": params}]
        ...     def step(self):
        ...         with tt.no_grad():
        ...             for p in self.param_groups[0]["params"]:
        ...                 p.sub_(p.grad)
        >>> w = tt.ones(2, requires_grad=True)
        >>> optimizer, scaler = SGD(w), tt.amp.GradScaler("cpu", init_scale=4.0)
        >>> scaler.scale((w * 0.5).sum()).backward()
        >>> w.grad
        tensor([2., 2.])
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> w, scaler.get_scale()
        (tensor([0.5000, 0.5000], requires_grad=True), 4.0)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        from ....runtime.cuda import driver as drivers  # imported only if a program scales gradients

        if enabled and device == "cuda" and not drivers.is_available():
            warnings.warn("GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2)
            self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
        self._init_scale = init_scale
        self._init_growth_tracker = 0
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        self._states: dict[int, _OptimizerState] = {}

    @overload
    def scale(self, outputs: Tensor) -> Tensor: ...

    @overload
    def scale(self, outputs: list[Any]) -> list[Any]: ...

    @overload
    def scale(self, outputs: tuple[Any, ...]) -> tuple[Any, ...]: ...

    @overload
    def scale(self, outputs: Iterable[Any]) -> Iterable[Any]: ...

    def scale(self, outputs: Tensor | Iterable[Any]) -> Tensor | Iterable[Any]:
        """Multiply a tensor, or each of an iterable of tensors, by the scale; lists and tuples keep their type.

        Raises ValueError for other types.
        """
        return self._scaled(outputs, {}) if self._enabled else outputs

    def _scaled(self, value: object, copies: dict[Device, Tensor]) -> Tensor | Iterable[Any]:
        if isinstance(value, Tensor):
            scale = self._scale
            if scale is None:
                scale = self._scale = ops.full((), self._init_scale, dtype=float32, device=value.device)
                self._growth_tracker = ops.full(
                    (), self._init_growth_tracker, dtype=int32, device=value.device
                )
            if value.device not in copies:
                copies[value.device] = scale.to(value.device)
            return value * copies[value.device]
        if isinstance(value, Iterable):
            scaled = (self._scaled(each, copies) for each in value)
            return type(value)(scaled) if isinstance(value, list | tuple) else scaled
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def _started(self, asked_by: str) -> tuple[Tensor, Tensor]:
        """Return the scale and the growth tracker. Raises AssertionError before the first `scale`."""
        if self._scale is None or self._growth_tracker is None:
            raise AssertionError(
                f"Attempted {asked_by} but _scale is None.  This may indicate your script did not use "
                "scaler.scale(loss or outputs) earlier in the iteration."
            )
        return self._scale, self._growth_tracker

    def _state_of(self, optimizer: Optimizer) -> _OptimizerState:
        return self._states.setdefault(id(optimizer), _OptimizerState())

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, and record infinities.

        Raises:
            RuntimeError: a second call since the last `update`, or a call after `step`.
            ValueError: for gradients in float16, which could underflow.
        """
        if not self._enabled:
            return
        scale, _ = self._started("unscale_")
        state = self._state_of(optimizer)
        if state.stage is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if state.stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        state.found_inf = self._check_gradients(optimizer, scale.to(float64).reciprocal().to(float32))
        state.stage = OptState.UNSCALED

    def _check_gradients(self, optimizer: Optimizer, inverse: Tensor | None) -> dict[Device, Tensor]:
        """Return whether gradients hold infinities, by device; with `inverse`, multiply them by it."""
        by_device: dict[Device, list[Tensor]] = {}
        for grad in _gradients(optimizer):
            if inverse is not None and grad.dtype is float16:
                raise ValueError("Attempting to unscale FP16 gradients.")
            by_device.setdefault(grad.device, []).append(grad)
        inf_flags: dict[Device, Tensor] = {}
        with no_grad():
            for device, grads in by_device.items():
                inf_flags[device] = ops.full((), 0.0, dtype=float32, device=device)
                # A scale of 1 only checks for infinities.
                factor = (
                    ops.full((), 1.0, dtype=float32, device=device) if inverse is None else inverse.to(device)
                )
                ops._amp_foreach_non_finite_check_and_unscale_(grads, inf_flags[device], factor)
        return inf_flags

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Run `unscale_` if needed, then ``optimizer.step(*args, **kwargs)`` unless infinities were found.

        An optimizer with ``_step_supports_amp_scaling`` is stepped in any case: it finds ``grad_scale`` (None if
        gradients are unscaled) and ``found_inf`` among its attributes.

        Returns:
            The result of the optimizer's step; None if it was skipped.

        Raises:
            RuntimeError: for a second call since the last `update`, and for a ``closure``.
            AssertionError: if no parameter has a gradient.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        scale, _ = self._started("step")
        state = self._state_of(optimizer)
        if state.stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            return self._step_fused(optimizer, state, scale, args, kwargs)
        if state.stage is OptState.READY:
            self.unscale_(optimizer)
        if not state.found_inf:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None
        if not any(flag.item() for flag in state.found_inf.values()):
            result = optimizer.step(*args, **kwargs)
        state.stage = OptState.STEPPED
        return result

    def _step_fused(
        self,
        optimizer: Any,
        state: _OptimizerState,
        scale: Tensor,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if state.stage is OptState.READY:
            state.found_inf = self._check_gradients(optimizer, None)
            optimizer.grad_scale = scale
        else:
            optimizer.grad_scale = None
        optimizer.found_inf = _combined(state.found_inf.values(), scale.device)
        try:
            result = optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf
        state.stage = OptState.STEPPED
        return result

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """End an iteration: adapt the scale to what was found, or set it to `new_scale`, a float or a tensor of one.

        Raises AssertionError if no gradients were checked, and for a tensor that requires grad, has several elements
        or is on another type of device.
        """
        if not self._enabled:
            return
        scale, _ = self._started("update")
        with no_grad():
            if new_scale is None:
                inf_flags = [each for state in self._states.values() for each in state.found_inf.values()]
                if not inf_flags:
                    raise AssertionError("No inf checks were recorded prior to update.")
                self._adapt(ops.gt(_combined(inf_flags, scale.device), 0))
            elif isinstance(new_scale, float):
                scale.fill_(new_scale)
            else:
                if (
                    not isinstance(new_scale, Tensor)
                    or new_scale.device.type != self._device
                    or new_scale.numel() != 1
                    or new_scale.requires_grad
                ):
                    raise AssertionError(
                        f"new_scale should be a float or a 1-element tensor on {self._device} with "
                        f"requires_grad=False, got {new_scale!r}"
                    )
                scale.copy_(new_scale.reshape(()))
        self._states = {}

    def _adapt(self, has_infs: Tensor) -> None:
        """Multiply by the backoff factor after infinities; else grow at the end of an interval, unless to infinity."""
        scale, tracker = self._started("update")
        successful = ops.add(tracker, 1)
        ends = ops.eq(successful, self._growth_interval)
        grown = ops.mul(scale, self._growth_factor)
        grown = ops.where(ops.logical_and(ends, ops.isfinite(grown)), grown, scale)
        scale.copy_(ops.where(has_infs, scale * self._backoff_factor, grown))
        restarts = ops.logical_or(has_infs, ends)
        tracker.copy_(successful * ops.logical_not(restarts).to(int32))

    def get_scale(self) -> float:
        """Return the scale; 1.0 if disabled. Waits for the device."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale.item())

    def get_growth_factor(self) -> float:
        """Return the growth factor."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set the growth factor."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """Return the backoff factor."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set the backoff factor."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """Return the growth interval."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set the growth interval."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else int(self._growth_tracker.item())

    def is_enabled(self) -> bool:
        """Return True if the scaler scales."""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Return scale, factors, interval and growth tracker as numbers; empty if disabled. Call this after
        `update`.
        """
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a `state_dict`. Raises RuntimeError for an empty one; does nothing if disabled."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        if self._scale is not None and self._growth_tracker is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self) -> dict[str, Any]:
        if self._states:
            raise AssertionError(
                "A GradScaler instance may only be pickled at the beginning of an iteration, or at the end after "
                "scaler.update()."
            )
        return self.__dict__ | {
            "_init_scale": self.get_scale() if self._enabled else self._init_scale,
            "_init_growth_tracker": self._get_growth_tracker(),
            "_scale": None,
            "_growth_tracker": None,
        }


def _combined(flags: Iterable[Tensor], device: Device) -> Tensor:
    """Combine the infinity flags of all devices on the scale's device."""
    combined = ops.full((), 0.0, dtype=float32, device=device)
    for each in flags:
        combined = combined + each.to(device)
    return combined


def _gradients(optimizer: Optimizer) -> Iterable[Tensor]:
    """Yield the existing gradients. Raises AssertionError for a parameter that is not a tensor."""
    for group in optimizer.param_groups:
        for param in group["params"]:
            if not isinstance(param, Tensor):
                raise AssertionError(f"expected param to be triten.Tensor, got {type(param).__name__}")
            if param.grad is not None:
                yield param.grad
