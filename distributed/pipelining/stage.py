"""`PipelineStage`: the layers of a model that one process has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ...autograd import backward as autograd_backward
from ...autograd import enable_grad
from ...dispatch.generated.functions import empty, zeros_like
from ...dispatch.layers.tensor_of_parts import TensorOfParts
from ...dispatch.tensor import Tensor
from ...nn.modules.module import Module
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...utils._pytree import tree_map
from ..groups import Group, group_or_default

__all__ = ["PipelineStage", "TensorMeta"]

Tensors = tuple[Tensor, ...]


class TensorMeta(NamedTuple):
    """Metadata of a tensor before it exists."""

    shape: tuple[int, ...]
    dtype: ScalarType
    requires_grad: bool

    @staticmethod
    def of(tensor: Tensor) -> TensorMeta:
        """Return the metadata of a tensor."""
        return TensorMeta(tuple(tensor.shape), tensor.dtype, tensor.requires_grad)

    def made(self, device: Any) -> Tensor:
        """Return an uninitialized tensor with this metadata."""
        made: Tensor = empty(self.shape, dtype=self.dtype, device=device)
        return made


class PipelineStage:
    """Stage of a pipeline (`torch.distributed.pipelining.PipelineStage`).

    The first stage gets the batch's arguments. Every other stage gets the output of the previous stage: a
    tensor or a tuple of tensors, of the same shape and dtype for all microbatches.

    At the first step, shapes travel through the stages. Each stage but the last runs on Meta tensors to infer
    its output. A stage that cannot run on Meta tensors, or has sharded parameters, needs `output_args`.

    Args:
        submodule: Layers of the stage. It must not be a data parallel module; apply `fully_shard` to the
            layers before.
        stage_index: Index of the stage, from 0.
        num_stages: Number of stages.
        device: Device of the computation.
        input_args: Example inputs, compared with the actual inputs.
        output_args: Example outputs, which replace the run on Meta tensors.
        group: Group of the pipeline. Default: all ranks.

    Raises:
        ValueError: there is no such stage.
        NotImplementedError: the submodule is a `DistributedDataParallel`.
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any,
        input_args: Tensor | Tensors | None = None,
        output_args: Tensor | Tensors | None = None,
        group: Group = None,
    ) -> None:
        from ...nn.parallel import DistributedDataParallel

        if not 0 <= stage_index < num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        if isinstance(submodule, DistributedDataParallel):
            raise NotImplementedError(
                "PipelineStage: DistributedDataParallel would reduce the gradients of each microbatch; use fully_shard"
            )
        self.submod = submodule
        self.stage_index, self.num_stages = stage_index, num_stages
        self.device = Device(device)
        self.group = group_or_default(group)
        self.group_rank, self.group_size = self.group.rank(), self.group.size()
        if self.group_size > num_stages:
            raise ValueError(
                f"Pipeline group size {self.group_size} cannot be larger than num_stages {num_stages}"
            )
        self._given = None if input_args is None else _metas(_tuple(input_args))
        self._returned = None if output_args is None else _metas(_tuple(output_args))
        self.input_metas: tuple[TensorMeta, ...] | None = None
        self.output_metas: tuple[TensorMeta, ...] | None = None
        self.is_inferred = False
        self.clear()

    @property
    def is_first(self) -> bool:
        """True if the stage gets the batch's arguments."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """True if the stage returns the model's result."""
        return self.stage_index == self.num_stages - 1

    def clear(self) -> None:
        """Forget the microbatches."""
        self.outputs: list[Any] = []
        self._inputs: dict[int, Tensors] = {}
        self._results: dict[int, Tensors] = {}
        self._gradients: dict[int, Sequence[Tensor]] = {}

    # Shapes

    def infer(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[TensorMeta, ...]:
        """Infer the metadata of the stage's outputs on Meta tensors.

        Args:
            args: For the first stage, a microbatch's arguments. For other stages, the metadata of the inputs.
            kwargs: Keyword arguments of a microbatch.

        Raises:
            ValueError: what comes is not like `input_args`, or parameters are sharded.
            TypeError: something else than tensors is returned.
        """
        if not self.is_first:
            self.input_metas = tuple(args)
            if self._given is not None:
                self._check(self._given, self.input_metas, "input_args")
            args = tuple(each.made("meta").requires_grad_(each.requires_grad) for each in self.input_metas)
        self.is_inferred = True
        if self._returned is None and self.is_last:
            return ()
        if self._returned is None:
            self.output_metas = self._run_on_meta(tree_map(_to_meta, args), tree_map(_to_meta, dict(kwargs)))
        else:
            trained = any(each.requires_grad for each in self.submod.parameters()) or any(
                each.requires_grad for each in args if isinstance(each, Tensor)
            )
            self.output_metas = tuple(
                each._replace(requires_grad=trained and each.dtype.is_floating_point)
                for each in self._returned
            )
        return self.output_metas

    def _run_on_meta(self, args: Any, kwargs: Any) -> tuple[TensorMeta, ...]:
        from ...func import functional_call

        if any(isinstance(each, TensorOfParts) for each in self.submod.parameters()):
            raise ValueError(
                f"stage {self.stage_index} has sharded parameters, so Meta tensors cannot give its output shapes; pass "
                "`output_args`, example results of one microbatch, to PipelineStage"
            )
        state = {
            name: value.detach().to("meta").requires_grad_(value.requires_grad)
            for name, value in [*self.submod.named_parameters(), *self.submod.named_buffers()]
        }
        with enable_grad():
            returned = functional_call(self.submod, state, args, kwargs)
        return _metas(self._checked(returned))

    def _checked(self, returned: Any) -> Tensors:
        results = _tuple(returned)
        if not self.is_last:
            for each in results:
                if not isinstance(each, Tensor):
                    raise TypeError(
                        f"stage {self.stage_index}: expected a tensor or a tuple of tensors as the result, but got "
                        f"{type(each).__name__} in it"
                    )
        return tuple(each for each in results if isinstance(each, Tensor))

    def _check(self, expected: Sequence[TensorMeta], actual: Sequence[TensorMeta], name: str) -> None:
        if [each[:2] for each in expected] != [each[:2] for each in actual]:
            raise ValueError(
                f"stage {self.stage_index}: expected {name} of shapes {[list(each.shape) for each in expected]} and "
                f"dtypes {[each.dtype for each in expected]}, but got {[list(each.shape) for each in actual]} and "
                f"{[each.dtype for each in actual]}"
            )

    # Microbatches

    def room_for_inputs(self) -> list[Tensor]:
        """Allocate buffers for the outputs of the previous stage."""
        return [each.made(self.device) for each in self.input_metas or ()]

    def room_for_gradients(self) -> list[Tensor]:
        """Memory for the gradients that the stage behind sends."""
        return [each.made(self.device) for each in self.output_metas or () if each.requires_grad]

    def take_inputs(self, microbatch: int, tensors: Sequence[Tensor], has_backward: bool) -> None:
        """Store the outputs of the previous stage as inputs of a microbatch."""
        metas = self.input_metas or ()
        self._inputs[microbatch] = tuple(
            each.detach().requires_grad_(has_backward and meta.requires_grad)
            for each, meta in zip(tensors, metas, strict=True)
        )

    def take_gradients(self, microbatch: int, tensors: Sequence[Tensor]) -> None:
        """Store the gradients of this stage's outputs."""
        self._gradients[microbatch] = tensors

    def forward(
        self,
        microbatch: int,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        keep: bool,
        has_backward: bool,
    ) -> tuple[Any, list[Tensor]]:
        """Compute a microbatch.

        Args:
            microbatch: Index of the microbatch.
            args: the first stage's arguments; others have taken theirs.
            kwargs: keyword arguments.
            keep: If True, the last stage keeps the result.
            has_backward: True if `backward` follows.

        Returns:
            What the layers return, and what is sent on.

        Raises:
            ValueError: the result is not like that of the first microbatch.
        """
        inputs = args if self.is_first else self._inputs[microbatch]
        returned = self.submod(*inputs, **kwargs)
        results = self._checked(returned)
        if self.output_metas is None:
            self.output_metas = _metas(results)
        else:
            self._check(self.output_metas, _metas(results), "results")
        if has_backward:
            self._results[microbatch] = results
        else:
            self._inputs.pop(microbatch, None)
        if self.is_last and keep:
            self.outputs.append(returned)
        return returned, [each.detach().contiguous() for each in results] if not self.is_last else []

    def backward(self, microbatch: int, loss: Tensor | None, is_last_backward: bool) -> list[Tensor]:
        """Compute the gradients of a microbatch, which are added to the parameters'.

        Args:
            microbatch: Index of the microbatch.
            loss: Loss of the last stage.
            is_last_backward: True for the last microbatch, when `fully_shard` reduces gradients.

        Returns:
            The gradients that the stage before gets.
        """
        results = self._results.pop(microbatch)
        inputs = self._inputs.pop(microbatch, ())
        synchronize = getattr(self.submod, "set_requires_gradient_sync", None)
        if synchronize is not None:
            synchronize(is_last_backward)
            self.submod.set_is_last_backward(is_last_backward)
        if loss is not None:
            autograd_backward([loss])
        else:
            metas = self.output_metas or ()
            trained = [each for each, meta in zip(results, metas, strict=True) if meta.requires_grad]
            if trained:
                autograd_backward(trained, list(self._gradients.pop(microbatch)))
        return [
            (zeros_like(each) if each.grad is None else each.grad).contiguous()
            for each in inputs
            if each.requires_grad
        ]

    def scale_grads(self, factor: int) -> None:
        """Divide the gradients of the parameters, after the last microbatch."""
        if factor != 1:
            for parameter in self.submod.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(factor)


def _tuple(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def _metas(values: Sequence[Tensor]) -> tuple[TensorMeta, ...]:
    return tuple(map(TensorMeta.of, values))


def _to_meta(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.detach().to("meta").requires_grad_(value.requires_grad)
