"""Steps of optimizers over lists of tensors, for the gate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .sample import FLOATING, Sample, empty, tt

SGD: dict[str, Any] = {
    "weight_decay": 0.1,
    "momentum": 0.9,
    "lr": 0.1,
    "dampening": 0.0,
    "nesterov": True,
    "maximize": False,
    "is_first_step": False,
}
ADAM: dict[str, Any] = {
    "lr": 0.1,
    "beta1": 0.9,
    "beta2": 0.999,
    "weight_decay": 0.1,
    "eps": 1e-8,
    "amsgrad": False,
    "maximize": False,
}


def lists(dtype: str, operands: int) -> list[list[Any]]:
    """So many lists of a few tensors."""
    return [[empty(size, dtype=dtype) for size in (4096, 1000, 1 << 20)] for _ in range(operands)]


def optimizers(capability: int) -> Iterator[Sample]:
    for dtype in FLOATING:
        rows, counts = lists(dtype, 5), [empty() for _ in range(3)]
        scale, found_inf, rate = empty(), empty(), empty()
        amp = {"grad_scale": scale, "found_inf": found_inf}
        for label, wide, changes in (
            ("", ("fused_sgd",), {}),
            (" scaled", ("fused_sgd",), amp),
            (" of the first step", (), {"is_first_step": True, "nesterov": False, "maximize": True}),
            (" at a rate in memory", (), {"lr": rate}),
            (" without momentum", (), {"momentum": 0.0}),
            (" without decay", (), {"weight_decay": 0.0}),
        ):
            yield Sample(
                f"fused sgd {dtype}{label}",
                lambda r=rows, c=changes: tt._fused_sgd_(*r[:3], **SGD | c),
                wide,
            )
        for name in ("adamw", "adam"):
            for label, wide, amsgrad, changes in (
                ("", ("fused_adam",), False, {}),
                (" with amsgrad, scaled", ("fused_adam",), True, {**amp, "amsgrad": True}),
                (" at a rate in memory", (), False, {"lr": rate, "maximize": True}),
                (" without decay", (), False, {"weight_decay": 0.0}),
            ):
                yield Sample(
                    f"fused {name} {dtype}{label}",
                    lambda n=name, r=rows, a=amsgrad, s=counts, c=changes: getattr(tt, f"_fused_{n}_")(
                        *r[:4], r[4] if a else [], s, **ADAM | c
                    ),
                    wide,
                )
        yield Sample(
            f"unscale {dtype}",
            lambda g=rows[0], f=found_inf, s=scale: tt._amp_foreach_non_finite_check_and_unscale_(g, f, s),
            ("unscale",),
        )
