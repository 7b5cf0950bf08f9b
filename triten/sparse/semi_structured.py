"""Matrices of which two in each four elements of a row are kept (2:4 semi-structured sparsity)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

from ..dispatch.composite.semi_structured import expanded, split
from ..dispatch.core.op_overload import OpOverload
from ..dispatch.generated import functions as ops
from ..dispatch.layers.tensor_of_parts import TensorOfParts
from ..dispatch.tensor import Tensor
from ..runtime.device import device as Device
from ..runtime.scalar_type import bfloat16, float16, float32, int8
from ..runtime.scalar_type import dtype as ScalarType
from ._semi_structured_conversions import sparse_semi_structured_to_dense_cutlass

PRODUCT_OF_TWO = (
    "`SparseSemiStructuredTensor @ SparseSemiStructuredTensor` is not supported by the hardware: expected a dense "
    "matrix"
)
NO_BROADCASTING = "`SparseSemiStructuredTensor` matmul: Broadcasting is not implemented"


class ShapeConstraints(NamedTuple):
    """Divisors of the sizes of a packed matrix, and of a dense matrix that it is multiplied with."""

    sparse_min_rows: int
    sparse_min_cols: int
    dense_min_rows: int
    dense_min_cols: int


class SparseSemiStructuredTensor(TensorOfParts):
    """Semi-structured sparse matrix: keeps two of every four elements of a row, one of two for float32.

    The matrix has the shape (M, K). Its memory holds the kept elements, and four bits of metadata for each two of
    them. It supports:

    - matmuls with dense matrices on either side, and `tt.nn.functional.linear` as a weight;
    - ``t()``, ``detach()``, ``clone()``, ``to`` another device;
    - ``values()``, ``indices()`` and ``to_dense()``.

    Kernels decompress a tile at a time in the cache or in registers. Triton has no sparse tensor cores, so the gain
    is memory.

    The subclasses are `SparseSemiStructuredTensorCUTLASS` and `SparseSemiStructuredTensorCUSPARSELT`. Their
    `from_dense`, or `to_sparse_semi_structured`, makes one. A matmul with the transposed matrix needs that packed
    too, for example for the gradient of a layer's input; `prune_dense_static_sort` packs both. The weight's own
    gradient is dense.

    Attributes:
        packed: The kept elements. In the CUSPARSELT class the metadata words follow them.
        meta: The metadata words, or None if `packed` holds them.
        packed_t: The kept elements of the transposed matrix, or None.
        meta_t: The metadata words of the transposed matrix, or None.
        compressed_swizzled_bitmask: The kept positions in tiles of 8x8 elements, uint8 (M / 8, K / 8, 8), or None.

    Unlike PyTorch, triten also has these tensors on the CPU and on meta, and ``to`` a device keeps them packed.

    Source: `torch.sparse.SparseSemiStructuredTensor`.
    """

    PARTS = ("packed", "meta", "packed_t", "meta_t", "compressed_swizzled_bitmask")
    SETTINGS = ("fuse_transpose_cusparselt", "alg_id_cusparselt")

    BACKEND: ClassVar[str]
    _DEFAULT_ALG_ID: ClassVar[int] = 0
    _DTYPE_SHAPE_CONSTRAINTS: ClassVar[Mapping[ScalarType, ShapeConstraints]] = {}
    _FORCE_CUTLASS: ClassVar[bool] = False
    _FUSE_TRANSPOSE: ClassVar[bool] = False

    packed: Tensor | None
    meta: Tensor | None
    packed_t: Tensor | None
    meta_t: Tensor | None
    compressed_swizzled_bitmask: Tensor | None
    fuse_transpose_cusparselt: bool
    alg_id_cusparselt: int

    def __new__(
        cls,
        shape: Sequence[int],
        packed: Tensor | None,
        meta: Tensor | None,
        packed_t: Tensor | None,
        meta_t: Tensor | None,
        compressed_swizzled_bitmask: Tensor | None,
        fuse_transpose_cusparselt: bool = False,
        alg_id_cusparselt: int = 0,
        requires_grad: bool = False,
    ) -> Self:
        """Build a tensor over its parts.

        Raises:
            ValueError: Both `packed` and `packed_t` are None.
        """
        known = packed if packed is not None else packed_t
        if known is None:
            raise ValueError("At least one of packed or packed_t must be provided")
        made = cls._make_wrapper_subclass(
            cls, tuple(shape), dtype=known.dtype, device=known.device, requires_grad=requires_grad
        )
        made.packed, made.meta, made.packed_t, made.meta_t = packed, meta, packed_t, meta_t
        made.compressed_swizzled_bitmask = compressed_swizzled_bitmask
        made.fuse_transpose_cusparselt = fuse_transpose_cusparselt
        made.alg_id_cusparselt = alg_id_cusparselt
        return made

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: `__new__` initializes the tensor."""

    @classmethod
    def from_dense(cls, original_tensor: Tensor, alg_id: int = _DEFAULT_ALG_ID) -> Self:
        """Pack a dense matrix. Both subclasses override this method.

        Raises:
            NotImplementedError: The class does not override this method.
        """
        raise NotImplementedError(f"{cls.__name__} does not say how it is packed")

    @classmethod
    def prune_dense_static_sort(cls, original_tensor: Tensor, algorithm: str = "") -> Self:
        """Keep at most two elements of each row and column of tiles of 4 x 4, and pack the matrix both ways.

        Args:
            original_tensor: A matrix of float16 or bfloat16, whose sizes are multiples of 32.
            algorithm: As for `tt._sparse_semi_structured_tile`.

        Raises:
            RuntimeError: The dtype, the sizes or the strides are not supported, or the algorithm is unknown.

        Example:
            >>> import triten as tt
            >>> weight = tt.arange(1024.0).reshape(32, 32).half()
            >>> pruned = tt.sparse.SparseSemiStructuredTensorCUTLASS.prune_dense_static_sort(weight)
            >>> pruned.to_dense()[0, :4], pruned.t().to_dense()[1, :4]
            (tensor([0., 1., 0., 0.], dtype=triten.float16), tensor([ 1., 33.,  0.,  0.], dtype=triten.float16))
        """
        raise NotImplementedError(f"{cls.__name__} does not say how it is packed")

    @classmethod
    def _validate_device_dim_dtype_shape(cls, original_tensor: Tensor) -> None:
        """Raise RuntimeError for a matrix that cannot be packed."""
        if original_tensor.dim() != 2:
            raise RuntimeError(
                f"Error original_tensor.dim = {original_tensor.dim()} is not supported! "
                "Only 2d tensors are currently supported."
            )
        if not original_tensor.is_contiguous():
            raise RuntimeError(
                "Error original_tensor is not contiguous!Only contiguous tensors are currently supported."
            )
        if original_tensor.dtype not in cls._DTYPE_SHAPE_CONSTRAINTS:
            raise RuntimeError(
                f"Error original_tensor.dtype {original_tensor.dtype} is not a supported dtype for {cls}!"
            )
        (m, n), least = original_tensor.shape, cls._DTYPE_SHAPE_CONSTRAINTS[original_tensor.dtype]
        rows, columns = least.sparse_min_rows, least.sparse_min_cols
        if m < rows or m % rows or n < columns or n % columns:
            raise RuntimeError(
                f"Error original_tensor.shape {original_tensor.shape} is not supported! "
                f"Both dimensions must be larger or equal than and a multiple of ({rows}, {columns})"
            )

    def kept_and_words(self) -> tuple[Tensor, Tensor]:
        """Return the kept elements (M, K / 2) and the metadata words that matmuls take.

        Raises:
            NotImplementedError: Only the transposed matrix is packed.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how it is packed")

    def _mm(
        self, B: Tensor, *, bias: Tensor | None = None, should_transpose_dense: bool = False, **kwargs: Any
    ) -> Tensor:
        """Compute ``self @ B + bias[:, None]``; if `should_transpose_dense`, ``(self @ B.t() + bias[:, None]).t()``."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is multiplied")

    def _check_product(self, B: Tensor) -> None:
        if isinstance(B, SparseSemiStructuredTensor):
            raise ValueError(PRODUCT_OF_TWO)
        name = type(self).__name__
        if self.dim() != 2 or B.dim() != 2:
            raise NotImplementedError(f"`{name}` matmul: Broadcasting is not implemented")
        if self.packed is None:
            raise NotImplementedError(
                f"`{name}` matmul: operation is not supported: expected the matrix to be packed as it stands in the "
                "product, and its transposed one is alone; prune_dense_static_sort() packs both"
            )

    def to_dense(self, dtype: ScalarType | None = None, *, masked_grad: bool | None = None) -> Tensor:
        """Decompress the matrix; pruned elements are 0.

        Example:
            >>> import triten as tt
            >>> x = tt.tensor([[0.0, 3.0, 0.0, 5.0] * 4] * 16).half()
            >>> bool((tt.sparse.to_sparse_semi_structured(x).to_dense() == x).all())
            True
        """
        dense = self.turned()._dense().t().contiguous() if self.packed is None else self._dense()
        return dense if dtype is None else dense.to(dtype)

    def _dense(self) -> Tensor:
        values, words = self.kept_and_words()
        return expanded(values, words)

    def like(self, parts: Sequence[Tensor | None] | None = None) -> Self:
        """Return a copy with other parts."""
        new_parts = self.parts if parts is None else parts
        return type(self)(self.shape, *new_parts, *self.settings)

    def turned(self) -> Self:
        """Return the transposed matrix, with both packed forms exchanged."""
        rows, columns = self.shape
        masks = self.compressed_swizzled_bitmask
        packed_forms = (self.packed_t, self.meta_t, self.packed, self.meta)
        return type(self)(
            (columns, rows), *packed_forms, None if masks is None else masks.transpose(0, 1), *self.settings
        )

    def packed_way(self) -> Self:
        """Return the matrix, or its transpose if only that is packed."""
        return self.turned() if self.packed is None else self

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        flags = self.requires_grad, getattr(self, "_is_param", False)
        return rebuilt, (type(self).__name__, tuple(self.shape), self.parts, self.settings, *flags)

    def __tensor_flatten__(self) -> tuple[list[str], tuple[Any, ...]]:
        """Return the names of the existing parts, and the metadata for `__tensor_unflatten__`."""
        names = [name for name in self.PARTS if getattr(self, name) is not None]
        return names, (self.shape, *self.settings, self.requires_grad)

    @classmethod
    def __tensor_unflatten__(
        cls,
        inner_tensors: Mapping[str, Tensor],
        tensor_meta: tuple[Any, ...],
        outer_size: Any,
        outer_stride: Any,
    ) -> Self:
        """Rebuild the tensor from its parts."""
        shape, fuse, algorithm, requires_grad = tensor_meta
        return cls(shape, *(inner_tensors.get(name) for name in cls.PARTS), fuse, algorithm, requires_grad)

    @classmethod
    def __tensor_dispatch__(cls, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        handler = HANDLERS.get(func.name())
        if handler is None:
            raise NotImplementedError(
                f"{cls.__name__} only supports a specific set of operations, can't perform requested op "
                f"({func.name()}); to_dense() makes a plain tensor of it"
            )
        return handler(*args, **(kwargs or {}))


class SparseSemiStructuredTensorCUTLASS(SparseSemiStructuredTensor):
    """Semi-structured matrix in CUTLASS's layout: two tensors, bitwise identical to PyTorch's class.

    float16, bfloat16 (M a multiple of 32, K of 64), float32 (32, 32) and int8 (16, 128).

    Example:
        >>> import triten as tt
        >>> weight = tt.tensor([[0.0, 3.0, 0.0, 5.0] * 8] * 32)
        >>> packed = tt.sparse.SparseSemiStructuredTensorCUTLASS.from_dense(weight)
        >>> packed, packed.values().shape, packed.indices().shape
        (SparseSemiStructuredTensorCUTLASS(shape=triten.Size([32, 32])), triten.Size([32, 16]), triten.Size([32, 4]))
    """

    BACKEND = "cutlass"
    _DTYPE_SHAPE_CONSTRAINTS: ClassVar[Mapping[ScalarType, ShapeConstraints]] = {
        int8: ShapeConstraints(16, 128, 16, 16),
        float16: ShapeConstraints(32, 64, 8, 8),
        bfloat16: ShapeConstraints(32, 64, 8, 8),
        float32: ShapeConstraints(32, 32, 4, 4),
    }

    @classmethod
    def from_dense(
        cls, original_tensor: Tensor, alg_id: int = SparseSemiStructuredTensor._DEFAULT_ALG_ID
    ) -> Self:
        """Pack a contiguous matrix: keep its nonzero elements, at most two of four, in PyTorch's order of preference.

        Raises:
            RuntimeError: The tensor is not a contiguous matrix, or its dtype or sizes are not supported.
        """
        cls._validate_device_dim_dtype_shape(original_tensor)
        values, words = ops._to_sparse_semi_structured(original_tensor.detach())
        requires_grad = original_tensor.requires_grad
        return cls(original_tensor.shape, values, words, None, None, None, requires_grad=requires_grad)

    @classmethod
    def prune_dense_static_sort(cls, original_tensor: Tensor, algorithm: str = "") -> Self:
        """Prune and pack the matrix; see `SparseSemiStructuredTensor`."""
        made = ops._sparse_semi_structured_tile(original_tensor.detach(), algorithm, use_cutlass=True)
        return cls(original_tensor.shape, *made)

    def kept_and_words(self) -> tuple[Tensor, Tensor]:
        """Return the kept elements and the metadata words.

        Raises:
            RuntimeError: `packed` or `meta` is None.
        """
        if self.packed is None or self.meta is None:
            raise RuntimeError(f"{type(self).__name__}: expected `packed` and `meta`, got neither or one")
        return self.packed, self.meta

    def _dense(self) -> Tensor:
        return sparse_semi_structured_to_dense_cutlass(*self.kept_and_words())

    def _mm(
        self, B: Tensor, *, bias: Tensor | None = None, should_transpose_dense: bool = False, **kwargs: Any
    ) -> Tensor:
        self._check_product(B)
        right = B.t() if should_transpose_dense else B
        return ops._semi_structured_mm(
            *self.kept_and_words(), right, bias, None, True, should_transpose_dense
        )


class SparseSemiStructuredTensorCUSPARSELT(SparseSemiStructuredTensor):
    """Semi-structured matrix in one tensor, of the size of cuSPARSELt's format; metadata words are in row order.

    float16, bfloat16 (M and K multiples of 16) and int8 (of 32). The vendor's order of words is not published, so
    ``indices()`` has other bits than PyTorch's; ``values()`` has the same.

    Example:
        >>> import triten as tt
        >>> weight = tt.tensor([[0.0, 3.0, 0.0, 5.0] * 4] * 16).half()
        >>> tt.sparse.SparseSemiStructuredTensorCUSPARSELT.from_dense(weight).packed.shape
        triten.Size([144])
    """

    BACKEND = "cusparselt"
    _DTYPE_SHAPE_CONSTRAINTS: ClassVar[Mapping[ScalarType, ShapeConstraints]] = {
        int8: ShapeConstraints(32, 32, 16, 16),
        float16: ShapeConstraints(16, 16, 8, 8),
        bfloat16: ShapeConstraints(16, 16, 8, 8),
    }

    @classmethod
    def from_dense(
        cls, original_tensor: Tensor, alg_id: int = SparseSemiStructuredTensor._DEFAULT_ALG_ID
    ) -> Self:
        """Pack a contiguous matrix; what is not 0 is kept, at most two of four elements, as of the other class.

        Raises:
            RuntimeError: The tensor is not a contiguous matrix, or its dtype or sizes are not supported.
        """
        cls._validate_device_dim_dtype_shape(original_tensor)
        return cls(
            original_tensor.shape,
            ops._cslt_compress(original_tensor.detach()),
            None,
            None,
            None,
            None,
            SparseSemiStructuredTensor._FUSE_TRANSPOSE,
            alg_id,
            original_tensor.requires_grad,
        )

    @classmethod
    def prune_dense_static_sort(cls, original_tensor: Tensor, algorithm: str = "") -> Self:
        """Prune and pack the matrix; see `SparseSemiStructuredTensor`."""
        packed, _, packed_t, _, masks = ops._sparse_semi_structured_tile(
            original_tensor.detach(), algorithm, use_cutlass=False
        )
        rows, columns = original_tensor.shape
        packed, packed_t = packed.reshape((rows, -1)), packed_t.reshape((columns, -1))
        return cls(original_tensor.shape, packed, None, packed_t, None, masks)

    def kept_and_words(self) -> tuple[Tensor, Tensor]:
        """Return the kept elements and the metadata words, views of `packed`.

        Raises:
            RuntimeError: `packed` is None.
        """
        if self.packed is None:
            raise RuntimeError(f"{type(self).__name__}: expected `packed`, got None")
        return split(self.packed, self.shape[1])

    def _mm(
        self, B: Tensor, *, bias: Tensor | None = None, should_transpose_dense: bool = False, **kwargs: Any
    ) -> Tensor:
        self._check_product(B)
        sizes = f"`A={tuple(self.shape)} @ B={tuple(B.shape)}`"
        for operand, name in ((B, "B"), (bias, "bias")):
            if operand is not None and operand.dtype is not self.dtype:
                raise NotImplementedError(
                    f"`{type(self).__name__}` matmul: trying to do {sizes}, with A.dtype={self.dtype} and "
                    f"{name}.dtype={operand.dtype}. This operation is only supported when A, B and bias have the same "
                    "data type."
                )
        right = B.t() if should_transpose_dense else B
        return ops._semi_structured_mm(
            *self.kept_and_words(), right, bias, None, False, should_transpose_dense
        )


def to_sparse_semi_structured(
    original_tensor: Tensor,
    transposed: bool = False,
    alg_id: int = SparseSemiStructuredTensor._DEFAULT_ALG_ID,
) -> SparseSemiStructuredTensor:
    """Pack a matrix of which at most two in each four elements of a row are not 0.

    Args:
        original_tensor: A contiguous matrix of float16, bfloat16 or int8, of sizes that are multiples of 16 (of 32 for
            int8), on any device. With ``SparseSemiStructuredTensor._FORCE_CUTLASS = True`` the sizes and dtypes are
            those of the other class, which has float32.
        transposed: Not used; deprecated in PyTorch, with a warning.
        alg_id: A number that is kept, there being one algorithm.

    Returns:
        A `SparseSemiStructuredTensorCUSPARSELT`, or with ``_FORCE_CUTLASS`` a `SparseSemiStructuredTensorCUTLASS`.

    Raises:
        RuntimeError: The dtype, number of dimensions, strides or sizes are not these.

    A matrix with more elements in four is not refused, in PyTorch as here: it loses some of them.

    Source: `torch.sparse.to_sparse_semi_structured`.

    Example:
        >>> import triten as tt
        >>> weight = tt.tensor([[0.0, 3.0, 0.0, 5.0] * 4] * 16).half()
        >>> packed = tt.sparse.to_sparse_semi_structured(weight)
        >>> (packed @ tt.ones(16, 2).half())[0], tt.nn.functional.linear(tt.ones(1, 16).half(), packed)[0, :2]
        (tensor([32., 32.], dtype=triten.float16), tensor([32., 32.], dtype=triten.float16))
    """
    if transposed:
        warnings.warn(
            "Setting transpose from `to_sparse_semi_structured` is deprecated and will be removed in a future release. "
            "`SparseSemiStructuredTensor` only support contiguous input tensors.",
            FutureWarning,
            stacklevel=2,
        )
    kind = (
        SparseSemiStructuredTensorCUTLASS
        if SparseSemiStructuredTensor._FORCE_CUTLASS
        else SparseSemiStructuredTensorCUSPARSELT
    )
    return kind.from_dense(original_tensor, alg_id=alg_id)


KINDS: Mapping[str, type[SparseSemiStructuredTensor]] = {
    each.__name__: each for each in (SparseSemiStructuredTensorCUTLASS, SparseSemiStructuredTensorCUSPARSELT)
}
"""The classes that a file may hold, by name."""


def rebuilt(
    kind: str,
    shape: Sequence[int],
    parts: Sequence[Tensor | None],
    settings: Sequence[Any],
    requires_grad: bool,
    is_parameter: bool,
) -> SparseSemiStructuredTensor:
    """Rebuild a tensor from a pickle.

    Raises:
        ValueError: The class is not known, or the parts do not match it.
    """
    if kind not in KINDS:
        raise ValueError(f"semi-structured tensor: expected one of {', '.join(KINDS)}, got {kind!r:.100}")
    if len(parts) != 5 or len(settings) != 2:
        raise ValueError(
            f"semi-structured tensor: expected 5 parts and 2 settings, got {len(parts)} and {len(settings)}"
        )
    made = KINDS[kind](shape, *parts, *settings, requires_grad)
    sizes = made.like([None if part is None else part.to("meta") for part in parts])
    for orientation in (sizes, sizes.turned()):
        if orientation.packed is not None:
            check_parts(orientation)
    if is_parameter:
        made._is_param = True
    return made


def check_parts(matrix: SparseSemiStructuredTensor) -> None:
    """Check that the parts of a matrix match its sizes.

    Raises:
        ValueError: The parts make no matrix, or one of another shape.
    """
    shape = tuple(matrix.shape)
    try:
        made = tuple(matrix._dense().shape)
    except (RuntimeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"semi-structured tensor: the parts make no matrix of {list(shape)}: {error}"
        ) from None
    if made != shape:
        raise ValueError(
            f"semi-structured tensor: the parts make a matrix of {list(made)}, not of {list(shape)}"
        )


Handler = Callable[..., Any]
HANDLERS: dict[str, Handler] = {}
"""Implementations of operators for semi-structured tensors, by the operator's name."""


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Return a decorator that registers a function as the implementation of operators."""

    def enter(function: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, function))
        return function

    return enter


@handles("aten::detach", "aten::alias")
def same(self: SparseSemiStructuredTensor) -> SparseSemiStructuredTensor:
    """Return a new tensor over the same parts."""
    return self.like()


@handles("aten::values")
def values(self: SparseSemiStructuredTensor) -> Tensor:
    """Return the kept elements (M, K / 2)."""
    return self.packed_way().kept_and_words()[0].detach()


@handles("aten::indices")
def indices(self: SparseSemiStructuredTensor) -> Tensor:
    """Return the metadata words, in the class's order."""
    return self.packed_way().kept_and_words()[1]


@handles("aten::t")
def t(self: SparseSemiStructuredTensor) -> SparseSemiStructuredTensor:
    """Transpose the matrix."""
    return self.turned()


@handles("aten::transpose.int")
def swapped(self: SparseSemiStructuredTensor, dim0: int, dim1: int) -> SparseSemiStructuredTensor:
    """Transpose the matrix if the dimensions differ."""
    return self.turned() if dim0 % 2 != dim1 % 2 else self.like()


@handles("aten::view", "aten::_unsafe_view")
def view(self: SparseSemiStructuredTensor, size: Sequence[int]) -> SparseSemiStructuredTensor:
    """Return a tensor over the same parts; only the matrix's own shape is supported.

    Raises:
        NotImplementedError: `size` is another shape.
    """
    if tuple(size) != tuple(self.shape):
        raise NotImplementedError(
            f"`view` is not implemented for SparseSemiStructuredTensor, except for the dummy case (shape={tuple(size)})"
        )
    return self.like()


@handles("aten::clone")
def clone(self: SparseSemiStructuredTensor, memory_format: Any = None) -> SparseSemiStructuredTensor:
    """Copy the tensor with its parts."""
    return self.like([None if part is None else part.clone() for part in self.parts])


@handles("aten::_to_copy")
def to_copy(
    self: SparseSemiStructuredTensor,
    dtype: ScalarType | None = None,
    layout: Any = None,
    device: Device | None = None,
    pin_memory: bool | None = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> SparseSemiStructuredTensor:
    """Copy the tensor to a device.

    Raises:
        NotImplementedError: `dtype` is another dtype, as in PyTorch.
    """
    if dtype is not None and dtype is not self.dtype:
        raise NotImplementedError(
            f"`_to_copy()` with dtype={dtype} is not implemented for SparseSemiStructuredTensor; to_dense() makes a "
            "plain tensor of it"
        )
    return self.like([None if part is None else part.to(device=device, copy=True) for part in self.parts])


@handles("aten::copy_")
def copy(
    self: SparseSemiStructuredTensor, src: Tensor, non_blocking: bool = False
) -> SparseSemiStructuredTensor:
    """Copy the parts of another semi-structured tensor into these, in-place.

    Raises:
        RuntimeError: `src` is of another class or shape, or has other parts.
    """
    source_parts = (
        src.parts if isinstance(src, SparseSemiStructuredTensor) and type(src) is type(self) else ()
    )
    if src.shape != self.shape or [p is None for p in source_parts] != [p is None for p in self.parts]:
        raise RuntimeError(
            f"copy_(): expected a {type(self).__name__} of shape {list(self.shape)} that is packed as this one is, got "
            f"a {type(src).__name__} of shape {list(src.shape)}"
        )
    for part, other in zip(self.parts, source_parts, strict=True):
        if part is not None:
            part.copy_(other)
    return self


@handles("aten::mm")
def mm(self: Tensor, mat2: Tensor) -> Tensor:
    """Multiply by a dense matrix on either side.

    Raises:
        NotImplementedError: An operand does not have two dimensions.
    """
    if self.dim() != 2 or mat2.dim() != 2:
        raise NotImplementedError(NO_BROADCASTING)
    if isinstance(self, SparseSemiStructuredTensor):
        return self._mm(mat2)
    right = mat2.t()
    assert isinstance(right, SparseSemiStructuredTensor)
    return right._mm(self, should_transpose_dense=True)


@handles("aten::addmm")
def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """Compute ``mat1 @ mat2`` plus a 1D bias, with `mat2` sparse.

    Raises:
        NotImplementedError: `mat1` or `mat2` is not a matrix, `self` is not 1D, `mat1` or `self` is sparse, or `beta`
            or `alpha` is not 1.
    """
    if mat1.dim() != 2 or mat2.dim() != 2:
        raise NotImplementedError(NO_BROADCASTING)
    if self.dim() != 1:
        raise NotImplementedError(
            f"`SparseSemiStructuredTensor` matmul: only bias dim=1 supported. Shape={self.shape}"
        )
    if isinstance(mat1, SparseSemiStructuredTensor) or isinstance(self, SparseSemiStructuredTensor):
        raise NotImplementedError(
            "`SparseSemiStructuredTensor` matmul: only operand B of `addmm` can be sparse"
        )
    if (beta, alpha) != (1, 1):
        raise NotImplementedError(
            f"`SparseSemiStructuredTensor` matmul: only beta=1 and alpha=1 supported, got {beta} and {alpha}"
        )
    right = mat2.t()
    assert isinstance(right, SparseSemiStructuredTensor)
    return right._mm(mat1, bias=self, should_transpose_dense=True)
