"""`Tensor`: a `TensorImpl` with operators, autograd and conversions, each from its own mixin."""

from __future__ import annotations

from ..runtime.tensor_impl import TensorImpl
from .core.tensor_function import plain_classes
from .generated.methods import TensorMethods
from .methods.autograd import AutogradMethods
from .methods.casts import CastMethods
from .methods.conversions import ConversionMethods
from .methods.indexing import IndexingMethods
from .methods.interchange import InterchangeMethods
from .methods.names import NamedMethods
from .methods.python_elementwise import PythonElementwiseMethods
from .methods.queries import QueryMethods
from .methods.reflected_operators import ReflectedOperators
from .methods.subclasses import SubclassMethods
from .methods.tensor_types import TypeMethods
from .methods.unique import UniqueMethods
from .schema import register_exact_type
from .tensor_meta import TensorMeta


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
