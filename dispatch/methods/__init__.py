"""Methods of `Tensor` written by hand, a mixin for each concern; those of operators are generated.

Whatever is a method only because PyTorch spells it so belongs here: conversions, subscripts, printing, pickling,
autograd's attributes. `Tensor` itself is bare, so that everything that makes tensors can import it; `attach` gives it
these methods when the operators are made known. Nothing below imports this folder. Type checkers read the mixins in
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
"""What `Tensor` gets its methods from, the first of a name counting; all come before the generated ones."""

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
    """Give `Tensor` the mixins' methods; called once, by the package's root."""
    for mixin in reversed(MIXINS):
        for name, attribute in vars(mixin).items():
            if name not in _OF_THE_MIXIN:
                setattr(Tensor, name, attribute)
