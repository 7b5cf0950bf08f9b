"""The Python array API standard, 2025.12, over the same tensors (https://data-apis.org/array-api/2025.12).

``import triten.array_api as xp``, or `Tensor.__array_namespace__`: the standard's names, signatures and promotion.
Functions of PyTorch's names and semantics are in `triten` itself; what is no function of the standard does not belong
here. Modules have the names of the standard's chapters. `elementwise_functions` is generated from the table beside it;
`promotion`, `axes`, `special_cases` and `clipping` are what functions are composed of.

Example:
    >>> import triten.array_api as xp
    >>> x = xp.asarray([1, 2, 3], dtype=xp.int8)
    >>> xp.add(x, xp.asarray(1, dtype=xp.int16)).dtype
    triten.int16
    >>> x.__array_namespace__() is xp
    True
"""

from math import e, inf, nan, pi

from ..runtime.scalar_type import (
    bool_ as bool,
)
from ..runtime.scalar_type import (
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from . import fft, linalg, special
from .clipping import clip
from .creation_functions import *
from .data_type_functions import *
from .elementwise_functions import *
from .indexing_functions import *
from .inspection import __array_namespace_info__
from .linear_algebra_functions import *
from .manipulation_functions import *
from .searching_functions import *
from .set_functions import *
from .sorting_functions import *
from .statistical_functions import *
from .utility_functions import *

__array_api_version__ = "2025.12"
newaxis = None
