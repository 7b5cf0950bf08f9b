"""A `DistributedDataParallel` that computes in another dtype than its parameters have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...autograd import no_grad
from ...dispatch.layers.pytree import tree_map
from ...dispatch.tensor import Tensor
from ...distributed.collectives import all_reduce

if TYPE_CHECKING:
    from ...distributed.data_parallel.grad_bucket import GradBucket
    from ...runtime.scalar_type import dtype as ScalarType
    from .distributed import DistributedDataParallel

__all__ = ["LowPrecision"]


@dataclass(frozen=True)
class _MixedPrecision:
    """Dtypes for `DistributedDataParallel` (`torch.nn.parallel.distributed._MixedPrecision`).

    Attributes:
        param_dtype: in which the module computes, and to which floating inputs are converted.
        reduce_dtype: in which gradients travel; `param_dtype` if nothing is said.
        buffer_dtype: The dtype of floating buffers.
    """

    param_dtype: ScalarType | None = None
    reduce_dtype: ScalarType | None = None
    buffer_dtype: ScalarType | None = None


class LowPrecision:
    """Parameters in a narrow dtype from a forward until the end of its backward.

    Args:
        ddp: the module.
        config: the dtypes.
    """

    def __init__(self, ddp: DistributedDataParallel, config: _MixedPrecision) -> None:
        self.ddp, self.config = ddp, config
        self.params = [each for each in ddp.module.parameters() if not getattr(each, "_ddp_ignored", False)]
        self._wide: list[Tensor] = []
        if config.buffer_dtype is not None:
            for buffer in ddp.module.buffers():
                if buffer.is_floating_point() and not getattr(buffer, "_ddp_ignored", False):
                    buffer.data = buffer.to(config.buffer_dtype)
        if config.param_dtype is not None:
            ddp.reducer._set_mixed_precision_param_dtype(config.param_dtype)
        ddp.reducer.finish = self.end
        ddp.register_comm_hook(None, self._reduce)

    def begin(self, inputs: Any, kwargs: Any) -> tuple[Any, Any]:
        """Narrow the parameters and the gradients that are there; the inputs, narrowed."""
        dtype = self.config.param_dtype
        if dtype is None:
            return inputs, kwargs
        if not self._wide:
            with no_grad():
                self._wide = [each.data for each in self.params]
                for param in self.params:
                    param.data = param.data.to(dtype)
                    if param.grad is not None:
                        param.grad = param.grad.to(dtype)

        def narrowed(value: Any) -> Any:
            is_number = isinstance(value, Tensor) and value.is_floating_point()
            return value.to(dtype) if is_number else value

        return tree_map(narrowed, inputs), tree_map(narrowed, kwargs)

    def end(self) -> None:
        """Give the parameters and gradients the dtype that parameters have outside."""
        wide, self._wide = self._wide, []
        for param, data in zip(self.params, wide, strict=False):
            grad, param.grad = param.grad, None
            param.data = data
            if grad is not None:
                param.grad = grad.to(data.dtype)

    def _reduce(self, state: Any, bucket: GradBucket) -> Any:
        """Average a bucket in `reduce_dtype`."""
        line = bucket.buffer()
        dtype = self.config.reduce_dtype
        if dtype is not None and dtype is not line.dtype:
            line = line.to(dtype)
        group = self.ddp.process_group
        line.div_(group.size())
        work = all_reduce(line, group=group, async_op=True)
        assert work is not None
        return work.get_future().then(lambda done: done.value()[0])
