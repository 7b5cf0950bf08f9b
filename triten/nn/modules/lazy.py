"""Layers that learn the size of their inputs from the first one, and then are ordinary layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...autograd import no_grad
from ...dispatch.generated import functions as _ops
from ...runtime.scalar_type import int64
from .batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from .conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from .instancenorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d
from .linear import Linear
from .module import Module
from .uninitialized import UninitializedBuffer, UninitializedParameter, is_lazy

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = [
    *(f"Lazy{kind}{rank}d" for kind in ("BatchNorm", "Conv", "ConvTranspose", "InstanceNorm") for rank in (1, 2, 3)),
    "LazyLinear",
    "LazyModuleMixin",
]  # fmt: skip


class LazyModuleMixin(Module):
    """Mixin for modules whose first call initializes them (`torch.nn.modules.lazy.LazyModuleMixin`).

    A lazy class derives from the mixin first, then from the class that it becomes. Its parameters are
    `UninitializedParameter`. Its ``initialize_parameters(*inputs)`` gives them shapes (`materialize`). The parameter
    objects stay the same, so an optimizer may be created before the first call.

    Example:
        >>> import triten as tt
        >>> layer = tt.nn.LazyLinear(3)
        >>> layer(tt.ones(2, 5)).shape, layer
        (triten.Size([2, 3]), Linear(in_features=5, out_features=3, bias=True))
    """

    cls_to_become: type | None = None
    """What an instance is once it is initialized; None: what it is."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "_initialized" in self.__dict__:
            return super().__call__(*args, **kwargs)
        self.initialize_parameters(*args, **kwargs)
        if self.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
        if self.cls_to_become is None:
            self.__dict__["_initialized"] = True
        else:
            self.__class__ = self.cls_to_become
        return self(*args, **kwargs)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Materialize parameters and buffers with shapes that match the inputs. Subclasses override this method.

        Raises:
            NotImplementedError: The subclass does not override it.
        """
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def has_uninitialized_params(self) -> bool:
        """Return whether a parameter or a buffer has no shape yet."""
        return any(is_lazy(each) for each in (*self._parameters.values(), *self._buffers.values()))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        """Materialize uninitialized members with the shapes in `state_dict`, then load them."""
        for name, member in (self._parameters | self._buffers).items():
            loaded = state_dict.get(prefix + name)
            if is_lazy(member) and loaded is not None and not is_lazy(loaded):
                with no_grad():
                    member.materialize(loaded.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` that takes `in_features` from its first input (`torch.nn.LazyLinear`).

    Example:
        >>> import triten as tt
        >>> net = tt.nn.Sequential(tt.nn.LazyLinear(4), tt.nn.ReLU(), tt.nn.LazyLinear(2))
        >>> net(tt.ones(1, 7)).shape, net[0].weight.shape
        (triten.Size([1, 2]), triten.Size([4, 7]))
    """

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: DeviceLike = None, dtype: ScalarType | None = None
    ) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        _wait(self, ("weight", "bias") if bias else ("weight",), device, dtype)

    def reset_parameters(self) -> None:
        """Reinitialize the parameters; do nothing before they have a shape."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Infer `in_features` from the input, and initialize the parameters unless they were loaded.

        Raises:
            AssertionError: The loaded weight has another number of columns than the input.
        """
        waiting = self.has_uninitialized_params()
        if not waiting and self.in_features == 0 and input.shape[-1] != self.weight.shape[-1]:
            raise AssertionError(
                f"The in_features inferred from input: {input.shape[-1]} is not equal to in_features from self.weight: "
                f"{self.weight.shape[-1]}"
            )
        self.in_features = input.shape[-1]
        if waiting:
            _materialize(self, weight=(self.out_features, self.in_features), bias=(self.out_features,))


class _LazyConvolution(LazyModuleMixin):
    """A convolution that takes `in_channels` from its first input."""

    rank: int
    transposed: bool
    in_channels: int
    out_channels: int
    groups: int
    kernel_size: tuple[int, ...]

    def reset_parameters(self) -> None:
        """Reinitialize the parameters; do nothing before they have a shape."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *rest: Any, **named: Any) -> None:
        """Infer `in_channels` from the input, and initialize the parameters unless they were loaded.

        Raises:
            RuntimeError: The input has another number of dimensions.
            ValueError: `groups` does not divide the channels.
        """
        if input.dim() not in (self.rank + 1, self.rank + 2):
            raise RuntimeError(
                f"Expected {self.rank + 1}D (unbatched) or {self.rank + 2}D (batched) input to {type(self).__name__}, "
                f"but got input of size: {tuple(input.shape)}"
            )
        waiting = self.has_uninitialized_params()
        self.in_channels = input.shape[-self.rank - 1]
        if waiting:
            if self.in_channels % self.groups:
                raise ValueError("in_channels must be divisible by groups")
            first, second = self.out_channels, self.in_channels
            if self.transposed:
                first, second = second, first
            sizes = (first, second // self.groups, *self.kernel_size)
            _materialize(self, weight=sizes, bias=(self.out_channels,))


class _LazyNorm(LazyModuleMixin):
    """A normalization of channels that takes their number from its first input."""

    num_features: int

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine, self.track_running_stats = affine, track_running_stats
        if affine:
            _wait(self, ("weight", "bias") if bias else ("weight",), device, dtype)
        if track_running_stats:
            for name in ("running_mean", "running_var"):
                setattr(self, name, UninitializedBuffer(device=device, dtype=dtype))
            self.num_batches_tracked = _ops.zeros((), dtype=int64, device=device)

    def reset_parameters(self) -> None:
        """Reset statistics, the weight to ones and the bias to zeros; do nothing before they have a shape."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the number of channels from the input."""
        self._check_input_dim(input)
        waiting = self.has_uninitialized_params()
        self.num_features = input.shape[1]
        if waiting:
            size = (self.num_features,)
            _materialize(self, weight=size, bias=size, running_mean=size, running_var=size)


def _wait(module: Module, names: tuple[str, ...], device: DeviceLike, dtype: ScalarType | None) -> None:
    for name in names:
        setattr(module, name, UninitializedParameter(device=device, dtype=dtype))


def _materialize(module: LazyModuleMixin, **sizes: tuple[int, ...]) -> None:
    with no_grad():
        for name, size in sizes.items():
            if is_lazy(getattr(module, name)):
                getattr(module, name).materialize(size)
        module.reset_parameters()


class _LazyForward(_LazyConvolution):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: str | int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )  # fmt: skip
        self.out_channels = out_channels
        _wait(self, ("weight", "bias") if bias else ("weight",), device, dtype)


class _LazyTransposed(_LazyConvolution):
    def __init__(
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
        )  # fmt: skip
        self.out_channels = out_channels
        _wait(self, ("weight", "bias") if bias else ("weight",), device, dtype)


class LazyConv1d(_LazyForward, Conv1d):
    """`Conv1d` that takes `in_channels` from its first input (`torch.nn.LazyConv1d`)."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyForward, Conv2d):
    """`Conv2d` that takes `in_channels` from its first input (`torch.nn.LazyConv2d`).

    Example:
        >>> import triten as tt
        >>> layer = tt.nn.LazyConv2d(8, 3, padding=1)
        >>> layer(tt.ones(2, 3, 5, 5)).shape, layer.in_channels
        (triten.Size([2, 8, 5, 5]), 3)
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyForward, Conv3d):
    """`Conv3d` that takes `in_channels` from its first input (`torch.nn.LazyConv3d`)."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTransposed, ConvTranspose1d):
    """`ConvTranspose1d` that takes `in_channels` from its first input (`torch.nn.LazyConvTranspose1d`)."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, ConvTranspose2d):
    """`ConvTranspose2d` that takes `in_channels` from its first input (`torch.nn.LazyConvTranspose2d`)."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, ConvTranspose3d):
    """`ConvTranspose3d` that takes `in_channels` from its first input (`torch.nn.LazyConvTranspose3d`)."""

    cls_to_become = ConvTranspose3d


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """`BatchNorm1d` that takes `num_features` from its first input (`torch.nn.LazyBatchNorm1d`)."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """`BatchNorm2d` that takes `num_features` from its first input (`torch.nn.LazyBatchNorm2d`).

    Example:
        >>> import triten as tt
        >>> layer = tt.nn.LazyBatchNorm2d()
        >>> layer(tt.randn(2, 3, 4, 4)).shape, layer.num_features
        (triten.Size([2, 3, 4, 4]), 3)
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """`BatchNorm3d` that takes `num_features` from its first input (`torch.nn.LazyBatchNorm3d`)."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """`InstanceNorm1d` that takes `num_features` from its first input (`torch.nn.LazyInstanceNorm1d`)."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """`InstanceNorm2d` that takes `num_features` from its first input (`torch.nn.LazyInstanceNorm2d`)."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """`InstanceNorm3d` that takes `num_features` from its first input (`torch.nn.LazyInstanceNorm3d`)."""

    cls_to_become = InstanceNorm3d
