"""`Tensor`: a `TensorImpl` with operators, autograd and conversions, each from its own mixin."""

from __future__ import annotations

from ..runtime.tensor_impl import TensorImpl
from .autograd.variable import AutogradMethods
from .casts import CastMethods
from .conversions import ConversionMethods
from .core.tensor_function import plain_classes
from .generated.tensor_methods import TensorMethods
from .indexing import IndexingMethods
from .interchange import InterchangeMethods
from .named_methods import NamedMethods
from .operators import ReflectedOperators
from .python_elementwise import PythonElementwiseMethods
from .query_methods import QueryMethods
from .schema import register_exact_type
from .subclasses import SubclassMethods
from .tensor_meta import TensorMeta
from .tensor_types import TypeMethods
from .unique_methods import UniqueMethods


class Tensor(
    ConversionMethods,
    CastMethods,
    IndexingMethods,
    AutogradMethods,
    ReflectedOperators,
    SubclassMethods,
    InterchangeMethods,
    NamedMethods,
    QueryMethods,
    PythonElementwiseMethods,
    UniqueMethods,
    TypeMethods,
    TensorMethods,
    TensorImpl,
    metaclass=TensorMeta,
):
    """A multi-dimensional array with elements of one dtype on one device (`torch.Tensor`).

    Made by factories such as `tt.tensor`, `tt.zeros`, `tt.from_numpy`; methods carry PyTorch's names.

    Example:
        >>> import triten as tt
        >>> x = tt.ones(2, 3)
        >>> (x + x).sum().item()
        12.0
    """

    __slots__ = ()
    __hash__ = TensorImpl.__hash__
    __array_priority__ = 1000


register_exact_type("Tensor", Tensor)
plain_classes.add(Tensor)
