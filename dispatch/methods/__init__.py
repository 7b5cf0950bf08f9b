"""Hand-written methods of `Tensor`, a mixin for each concern; operator methods are generated.

A method belongs here if it exists only for PyTorch's API: conversions, subscripts, printing, pickling, autograd's
attributes. `Tensor` itself is bare, so that all code that makes tensors can import it. `attach` adds these methods
when the operators are declared. Lower layers do not import this folder. Type checkers read the mixins in
``dispatch/tensor.pyi``.
"""

from ..tensor import Tensor
from .array_api import ArrayApiMethods
from .autograd import AutogradMethods
from .casts import CastMethods
from .conversions import ConversionMethods
from .floor_division import FloorDivision
from .former import FormerMethods
from .interchange import InterchangeMethods
from .names import NamedMethods
from .numpy_protocol import NumPyMethods
from .python_elementwise import PythonElementwiseMethods
from .queries import QueryMethods
from .reflected_operators import ReflectedOperators
from .sparse import SparseMethods
from .subclasses import SubclassMethods
from .subscripts import SubscriptMethods
from .tensor_types import TypeMethods
from .unique import UniqueMethods

MIXINS: tuple[type, ...] = (
    ConversionMethods,
    CastMethods,
    SubscriptMethods,
    AutogradMethods,
    FloorDivision,
    ReflectedOperators,
    SubclassMethods,
    InterchangeMethods,
    NumPyMethods,
    NamedMethods,
    QueryMethods,
    SparseMethods,
    PythonElementwiseMethods,
    UniqueMethods,
    TypeMethods,
    FormerMethods,
    ArrayApiMethods,
)
"""The mixins of `Tensor`. The first definition of a name applies; all precede the generated ones."""

_OF_THE_MIXIN = frozenset(vars(type("Empty", (), {"__slots__": ()}))) | {
    "__annotations__",
    "__dict__",
    "__firstlineno__",
    "__qualname__",
    "__slots__",
    "__static_attributes__",
    "__weakref__",
}


def attach() -> None:
    """Add the mixins' methods to `Tensor`. The package's root calls this once."""
    for mixin in reversed(MIXINS):
        for name, attribute in vars(mixin).items():
            if name not in _OF_THE_MIXIN:
                setattr(Tensor, name, attribute)
