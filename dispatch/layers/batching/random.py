"""Random operators inside vmap: refused, one sample for all examples, or one for each (BatchRulesRandomness.cpp).

Arguments do not show that a random operator runs inside a vmap: a factory has no tensors, and other operators may have
unmapped ones. The first vmap of a process therefore wraps the plans of random operators permanently.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.fork_lock import forkable
from ....runtime.scalar_type import bool_
from ....runtime.tensor_impl import TensorImpl
from ...core.bound_arguments import tensors_in
from ...core.dispatcher import Dispatcher
from ...core.kernel_function import Plan
from ...core.operator_entry import Interception, OperatorEntry, interceptions
from ...generated import functions as ops
from ..batched_tensor import batched, level_of
from ..levels import VmapLevel, innermost_vmap, run_outside
from .layout import Batch, Dims, Rule, aligned, front, rank_of, refuse_inplace, sizes_of, whole
from .pointwise import pointwise

if TYPE_CHECKING:
    from ...tensor import Tensor

TAG = "nondeterministic_seeded"
_MAYBE_RANDOM = {
    "aten::dropout",
    "aten::dropout_",
    "aten::scaled_dot_product_attention",
    "aten::_fused_sdp_choice",
    "aten::_scaled_dot_product_attention_math",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_efficient_attention_backward",
}
"""Operators that need no random numbers in some or all cases; for composites, their parts are wrapped instead."""

_DRAWING: dict[str, Callable[[Sequence[Any]], bool]] = {
    "aten::native_dropout": lambda args: args[2] is not False,
    "aten::_scaled_dot_product_efficient_attention": lambda args: bool(args[5]),
    **dict.fromkeys(
        (
            f"aten::{kind}dropout{suffix}"
            for kind in ("alpha_", "feature_", "feature_alpha_")
            for suffix in ("", "_")
        ),
        lambda args: args[2] and args[1] not in (0, 1),
    ),
    **dict.fromkeys(("aten::rrelu", "aten::rrelu_"), lambda args: args[3]),
    **dict.fromkeys(
        ("aten::rrelu_with_noise", "aten::rrelu_with_noise_", "aten::rrelu_with_noise.out"),
        lambda args: args[4],
    ),
}
"""For operators that draw for some arguments alone, such as in training: whether they draw for bound arguments."""

_lock = forkable(threading.Lock())


def start_watching() -> None:
    """Make random operators check for an enclosing vmap from now on."""
    if _WATCH not in interceptions:
        with _lock:
            if _WATCH not in interceptions:
                interceptions.append(_WATCH)
                Dispatcher.singleton().forget_all()


def _is_drawn(op: OperatorEntry) -> bool:
    return TAG in op.tags and op.name not in _MAYBE_RANDOM


def _watched(op: OperatorEntry, args: Sequence[Any], plan: Plan) -> Plan:
    whole_call = op.rebind(lambda *values: values, args)
    is_drawing = _DRAWING.get(op.name)

    def watched(*values: Any) -> Any:
        level = innermost_vmap()
        if level is None:
            return plan(*values)
        all_args = whole_call(*values)
        if is_drawing is not None and not is_drawing(all_args):
            return plan(*values)
        if level.randomness == "error":
            raise RuntimeError(
                f"vmap: called random operation while in randomness error mode ({op.name}). Please either use the "
                "'same' or 'different' randomness flags on vmap or perform the randomness operation out of vmap"
            )
        if any(level_of(tensor) is level for tensor in tensors_in(all_args)):
            return plan(*values)
        return _draw(op, level, all_args)

    return watched


_WATCH = Interception(_is_drawn, _watched)


def _draw(op: OperatorEntry, level: VmapLevel, args: Sequence[Any]) -> Any:
    """Run a random operator inside a vmap if none of its arguments is mapped."""
    if level.randomness == "same":
        return run_outside(level, op.call, *args)
    if op.is_mutable:
        raise RuntimeError(
            f"vmap: Cannot ask for different inplace randomness on an unbatched tensor ({op.name}). This will appear "
            "like same randomness."
        )
    new_args = list(args)
    for position, value in enumerate(new_args):
        if isinstance(value, TensorImpl):
            tensor: Any = value
            new_args[position] = batched(tensor.expand((level.batch_size, *tensor._spec.sizes)), 0, level)
            return op.call(*new_args)
    names = [a.name for a in op.schema.arguments]
    if "size" not in names:
        draws = [run_outside(level, op.call, *args) for _ in range(level.batch_size)]
        return batched(run_outside(level, ops.stack, draws), 0, level)
    position = names.index("size")
    new_args[position] = (level.batch_size, *new_args[position])
    return batched(run_outside(level, op.call, *new_args), 0, level)


def refuse_same(batch: Batch) -> None:
    """Raise RuntimeError if examples that differ would share one sample."""
    if batch.level.randomness == "same":
        raise RuntimeError(
            f"Vmap does not currently support same randomness with a batched tensor input ({batch.op.name})."
        )


def like(batch: Batch, dims: Dims, self: Tensor, *options: Any) -> tuple[Any, Any]:
    """Run `rand_like` or `randn_like`: with "same", one unmapped sample."""
    *leading, _ = options
    if batch.level.randomness == "same":
        example = self.new_empty(sizes_of(self, dims[0]))
        return batch.op.call(example, *leading, None), None
    return batch.op.call(front(self, dims[0]), *leading, None), 0


def inplace(batch: Batch, dims: Dims, self: Tensor, *args: Any) -> tuple[Any, Any]:
    """Run ``normal_`` or a similar operator; "same" generates once and copies."""
    if dims[0] is None:
        refuse_inplace(batch)
    aligned_args = [aligned(a, d, rank_of(self, dims[0])) for a, d in zip(args, dims[1:], strict=True)]
    if batch.level.randomness == "same":
        if any(d is not None for d in dims[1:]):
            refuse_same(batch)
        drawn = self.new_empty(sizes_of(self, dims[0]))
        batch.op.call(drawn, *args)
        front(self, dims[0]).copy_(drawn)
    else:
        batch.op.call(front(self, dims[0]), *aligned_args)
    return None, None


def functional(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
    """Run an operator with tensor parameters, with examples one after another: `_sample_dirichlet` reads rows, and
    random numbers follow the order of the elements.
    """
    refuse_same(batch)
    opened = [a if d is None else front(a, d) for a, d in zip(args, dims, strict=True)]
    return pointwise(batch, tuple([None if d is None else 0 for d in dims]), *opened)


def multinomial(batch: Batch, dims: Dims, self: Tensor, count: int, *rest: Any) -> tuple[Any, Any]:
    """Run `multinomial` over rows."""
    refuse_same(batch)
    x = whole(self, dims[0], batch.size)
    lead = x._spec.sizes[:-1]
    rows = 1
    for n in lead:
        rows *= n
    drawn = batch.op.call(x.reshape((rows, x._spec.sizes[-1])), count, *rest)
    return drawn.reshape((*lead, count)), 0


def native_dropout(batch: Batch, dims: Dims, input: Tensor, p: float, train: bool | None) -> tuple[Any, Any]:
    """Run `native_dropout`; with "same" all examples share one mask."""
    if train is False or batch.level.randomness != "same":
        return batch.op.call(input, p, train), (dims[0], dims[0])
    x = front(input, dims[0])
    keep = x.new_empty(x._spec.sizes[1:]).bernoulli_(1.0 - p)
    return (x * keep * (0.0 if p == 1 else 1.0 / (1.0 - p)), keep.to(bool_)), (0, None)


RULES: dict[str, Rule] = {
    "rand_like": like,
    "randn_like": like,
    "rand_like.generator": like,
    "randn_like.generator": like,
    "bernoulli": functional,
    "bernoulli.p": functional,
    "normal.Tensor_Tensor": functional,
    "normal.Tensor_float": functional,
    "normal.float_Tensor": functional,
    "_sample_dirichlet": functional,
    "_standard_gamma": functional,
    "binomial": functional,
    "multinomial": multinomial,
    "poisson": functional,
    "native_dropout": native_dropout,
    **dict.fromkeys(
        (
            "bernoulli_.Tensor",
            "bernoulli_.float",
            "cauchy_",
            "exponential_",
            "geometric_",
            "log_normal_",
            "normal_",
            "random_",
            "random_.from",
            "random_.to",
            "uniform_",
        ),
        inplace,
    ),
}
