"""Base class of quantized tensors, which consist of other tensors and can be moved, saved and multiplied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.generated import functions as ops
from ..dispatch.layers.tensor_of_parts import TensorOfParts
from ..dispatch.tensor import Tensor
from ..runtime.device import device as Device
from ..runtime.scalar_type import bfloat16, float16, float32
from ..runtime.scalar_type import dtype as ScalarType

FLOATS = (float32, float16, bfloat16)
"""The dtypes of weights and activations."""

Handler = Callable[..., Any]
HANDLERS: dict[str, Handler] = {}
"""Implementations of operators for quantized tensors, by the operator's name."""


class QuantizedTensor(TensorOfParts):
    """Quantized weight: a matrix of `dtype` to a program, low-bit integers or floats with scales in memory.

    A subclass lists its tensors in `PARTS` and its options in `SETTINGS`. It implements `check_parts`, `dequantized`
    and `product`. ``t()`` is a view that is marked as transposed. A matmul with a transposed weight, as in a linear
    layer, uses the quantized data. Every other matmul, also that for the gradient of activations, uses the dequantized
    weight. The weight itself has no gradient.
    """

    STATE = ("_transposed",)

    _transposed: bool

    @classmethod
    def of_parts(
        cls,
        shape: Sequence[int],
        dtype: ScalarType,
        parts: Sequence[Tensor],
        settings: Sequence[Any],
        transposed: bool = False,
    ) -> Self:
        """Build a tensor over its parts; `shape` is the shape of the matrix before transposition.

        Raises:
            ValueError: The parts do not match this class.
        """
        rows, columns = shape
        where = parts[0].device
        sizes, strides = ((columns, rows), (1, columns)) if transposed else ((rows, columns), (columns, 1))
        made = cls._make_wrapper_subclass(cls, sizes, strides, dtype=dtype, device=where)
        for name, part in zip((*cls.PARTS, *cls.SETTINGS), (*parts, *settings), strict=True):
            setattr(made, name, part)
        made._transposed = transposed
        made.check_parts(*shape)
        return made

    def check_parts(self, rows: int, columns: int) -> None:
        """Check that the parts make a matrix of these sizes. Every subclass overrides this method.

        Raises:
            ValueError: A part has another dtype or shape, or an option is invalid.
            NotImplementedError: The subclass does not override this method.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what its parts are")

    def dequantized(self) -> Tensor:
        """Dequantize the matrix before transposition, in `dtype`. Every subclass overrides this method.

        Raises:
            NotImplementedError: The subclass does not override this method.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say what it stands for")

    def product(self, x: Tensor) -> Tensor:
        """Compute ``x @ weight.T`` for activations `x` (M, K). Every subclass overrides this method.

        Raises:
            NotImplementedError: The subclass does not override this method.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how it is multiplied")

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """The numbers of rows and columns before transposition."""
        first, second = self._spec.sizes
        return (second, first) if self._transposed else (first, second)

    def like(
        self,
        parts: Sequence[Tensor] | None = None,
        dtype: ScalarType | None = None,
        transposed: bool | None = None,
    ) -> Self:
        """Return a copy with other parts, another dtype, or transposed."""
        return type(self).of_parts(
            self.matrix_shape,
            self._spec.dtype if dtype is None else dtype,
            self.parts if parts is None else parts,
            self.settings,
            self._transposed if transposed is None else transposed,
        )

    def moved(self, device: Device | None, dtype: ScalarType | None, copy: bool) -> Self:
        """Move to a device and convert to a dtype."""
        parts = [part.to(device=part.device if device is None else device, copy=copy) for part in self.parts]
        return self.like(parts, dtype)

    def dequantize(self) -> Tensor:
        """Dequantize to a plain tensor of the same shape and dtype.

        Example:
            >>> import triten as tt
            >>> weight = tt.quantization.Int8Tensor.from_float(tt.tensor([[0.5, -1.0]]))
            >>> weight.dequantize()
            tensor([[ 0.5020, -0.9961]])
        """
        full = self.dequantized()
        return full.t() if self._transposed else full

    def __repr__(self) -> str:
        own = ", ".join(f"{name}={getattr(self, name)}" for name in self.SETTINGS)
        parts = ", ".join(
            f"{name}={part.dtype}{list(part.shape)}"
            for name, part in zip(self.PARTS, self.parts, strict=True)
        )
        text = f"{type(self).__name__}(shape={list(self.shape)}, dtype={self.dtype}, device='{self.device}', {parts}"
        return f"{text}, {own})" if own else f"{text})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        kind = type(self).__name__, self.matrix_shape, self.dtype, self._transposed
        return rebuilt, (*kind, self.parts, self.settings, getattr(self, "_is_param", False))

    @classmethod
    def __tensor_dispatch__(cls, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        handler = HANDLERS.get(func.name())
        if handler is None:
            raise NotImplementedError(
                f"{func.name()}: not supported for {cls.__name__}; it takes products, t(), to(), clone() and "
                "detach(), and dequantize() makes a plain tensor of it"
            )
        return handler(*args, **(kwargs or {}))


KINDS: dict[str, type[QuantizedTensor]] = {}
"""The classes that a file may hold, by name; `savable` registers a class."""


def savable(kind: type[QuantizedTensor]) -> type[QuantizedTensor]:
    """Register a class that `tt.load` may create."""
    KINDS[kind.__name__] = kind
    return kind


def rebuilt(
    kind: str,
    shape: Sequence[int],
    dtype: ScalarType,
    transposed: bool,
    parts: Sequence[Tensor],
    settings: Sequence[Any],
    is_parameter: bool,
) -> QuantizedTensor:
    """Rebuild a tensor from a pickle.

    Raises:
        ValueError: The class is not known, or the parts do not match it.
    """
    if kind not in KINDS:
        raise ValueError(f"quantized tensor: expected one of {', '.join(KINDS)}, got {kind!r:.100}")
    made = KINDS[kind].of_parts(shape, dtype, parts, settings, transposed)
    if is_parameter:
        made._is_param = True
    return made


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Return a decorator that registers a function as the implementation of operators."""

    def enter(function: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, function))
        return function

    return enter


def plain(value: Any) -> Any:
    """Dequantize a quantized tensor; return any other value unchanged."""
    return value.dequantize() if isinstance(value, QuantizedTensor) else value


@handles("aten::detach", "aten::alias")
def same(self: QuantizedTensor) -> QuantizedTensor:
    """Return a new tensor over the same parts."""
    return self.like()


@handles("aten::t")
def transposed(self: QuantizedTensor) -> QuantizedTensor:
    """Transpose the matrix; the parts stay the same."""
    return self.like(transposed=not self._transposed)


@handles("aten::transpose.int")
def swapped(self: QuantizedTensor, dim0: int, dim1: int) -> QuantizedTensor:
    """Transpose the matrix if the dimensions differ; the parts stay the same."""
    return self.like(transposed=self._transposed ^ (dim0 % 2 != dim1 % 2))


@handles("aten::clone")
def cloned(self: QuantizedTensor, memory_format: Any = None) -> QuantizedTensor:
    """Copy the tensor with its parts."""
    return self.like([part.clone() for part in self.parts])


@handles("aten::_to_copy")
def to_copy(
    self: QuantizedTensor,
    dtype: ScalarType | None = None,
    layout: Any = None,
    device: Device | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> QuantizedTensor:
    """Copy the tensor to a device and dtype.

    Raises:
        TypeError: The dtype is not one of `FLOATS`.
    """
    if dtype is not None and dtype not in FLOATS:
        raise TypeError(
            f"{type(self).__name__}.to(): expected a dtype of {', '.join(map(str, FLOATS))}, got {dtype}"
        )
    return self.moved(device, dtype, True)


@handles("aten::copy_")
def copied(self: QuantizedTensor, src: Tensor, non_blocking: bool = False) -> QuantizedTensor:
    """Copy the parts of another quantized tensor into these, in-place.

    Raises:
        RuntimeError: `src` is of another class, has other options, or only one of both is transposed.
    """
    alike = isinstance(src, QuantizedTensor) and type(src) is type(self)
    if not alike or (src.settings, src._transposed) != (self.settings, self._transposed):  # type: ignore[attr-defined]
        own = dict(zip(self.SETTINGS, self.settings, strict=True))
        got = src if isinstance(src, QuantizedTensor) else type(src).__name__
        raise RuntimeError(f"copy_(): expected a {type(self).__name__} with {own}, got {got}")
    moved: QuantizedTensor = src.moved(self.device, None, False)  # type: ignore[attr-defined]
    for part, source in zip(self.parts, moved.parts, strict=True):
        part.copy_(source)
    return self


@handles("aten::mm")
def mm(self: Tensor, mat2: Tensor) -> Tensor:
    """Multiply activations by a quantized weight; dequantize both operands in all other cases."""
    if isinstance(mat2, QuantizedTensor) and mat2._transposed and not isinstance(self, QuantizedTensor):
        check_product(self, mat2)
        return mat2.product(self)
    return ops.mm(plain(self), plain(mat2))


@handles("aten::addmm")
def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """Compute beta * self + alpha * (mat1 @ mat2)."""
    made = mm(mat1, mat2)
    if alpha != 1:
        made = made * alpha
    return made if beta == 0 else ops.add(made, plain(self), alpha=beta)


@handles("aten::mv")
def mv(self: Tensor, vec: Tensor) -> Tensor:
    """Multiply by a vector."""
    if isinstance(self, QuantizedTensor) and not self._transposed:
        row = vec.unsqueeze(0)
        check_product(row, self.t())
        return self.product(row).squeeze(0)
    return ops.mv(plain(self), plain(vec))


def check_product(x: Tensor, weight: Tensor) -> None:
    """Check that activations match a transposed weight.

    Raises:
        RuntimeError: The dtypes, K dimensions or devices differ.
    """
    name = type(weight).__name__
    if x.dtype is not weight.dtype:
        raise RuntimeError(
            f"mm: expected activations to have the dtype of the {name}, {weight.dtype}, got {x.dtype}"
        )
    if x.shape[1] != weight.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({x.shape[0]}x{x.shape[1]} and {weight.shape[0]}x"
            f"{weight.shape[1]}): mat2 is an {name}"
        )
    if x.device != weight.device:
        raise RuntimeError(f"mm: expected activations on {weight.device}, as the {name} is, got {x.device}")


def check_weight(name: str, weight: Tensor) -> None:
    """Check that a weight is a floating-point matrix.

    Raises:
        ValueError: The weight does not have two dimensions, or its dtype is not one of `FLOATS`.
    """
    if weight.dim() != 2 or weight.dtype not in FLOATS:
        raise ValueError(
            f"{name}: expected a weight of two dimensions and a dtype of {', '.join(map(str, FLOATS))}, got "
            f"{weight.dim()} and {weight.dtype}"
        )


def check_part(
    name: str, argument: str, part: Tensor, dtypes: Sequence[ScalarType], shape: Sequence[int]
) -> None:
    """Check the dtype and the shape of a part.

    Raises:
        ValueError: The part is not a tensor, or has another dtype or shape.
    """
    if not isinstance(part, Tensor) or part.dtype not in dtypes or tuple(part.shape) != tuple(shape):
        received = f"{part.dtype} and {list(part.shape)}" if isinstance(part, Tensor) else type(part).__name__
        raise ValueError(
            f"{name}: expected `{argument}` of {' or '.join(map(str, dtypes))} and shape {list(shape)}, got {received}"
        )
