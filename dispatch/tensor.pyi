from ..runtime.tensor_impl import TensorImpl
from .generated.methods import TensorMethods
from .methods.array_api import ArrayApiMethods
from .methods.autograd import AutogradMethods
from .methods.casts import CastMethods
from .methods.conversions import ConversionMethods
from .methods.former import FormerMethods
from .methods.interchange import InterchangeMethods
from .methods.names import NamedMethods
from .methods.numpy_protocol import NumPyMethods
from .methods.python_elementwise import PythonElementwiseMethods
from .methods.queries import QueryMethods
from .methods.reflected_operators import ReflectedOperators
from .methods.sparse import SparseMethods
from .methods.subclasses import SubclassMethods
from .methods.subscripts import SubscriptMethods
from .methods.tensor_types import TypeMethods
from .methods.unique import UniqueMethods
from .tensor_meta import TensorMeta

class Tensor(
    ConversionMethods,
    CastMethods,
    SubscriptMethods,
    AutogradMethods,
    ReflectedOperators,
    SparseMethods,
    SubclassMethods,
    InterchangeMethods,
    NumPyMethods,
    NamedMethods,
    QueryMethods,
    PythonElementwiseMethods,
    UniqueMethods,
    TypeMethods,
    FormerMethods,
    ArrayApiMethods,
    TensorMethods,
    TensorImpl,
    metaclass=TensorMeta,
):
    __array_priority__: int
    def __hash__(self) -> int: ...

def blank_tensor() -> Tensor: ...
