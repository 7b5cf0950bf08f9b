"""The ways of asking. Each module's `cases` yields, for one operator, a label and a check that raises Difference."""

from .derivatives import FORWARD_AD, GRADGRAD, GRADIENT, SECOND_ORDER
from .dtypes import DTYPE_SETS
from .errors import ERRORS
from .forward import FORWARD, REFERENCE
from .inplace import INPLACE
from .layouts import LAYOUT
from .modules import MODULES
from .optimizers import OPTIMIZERS
from .out import OUT
from .sparse import SPARSE
from .strides import STRIDES

BY_NAME = {
    mode.name: mode
    for mode in (
        *(FORWARD, REFERENCE, LAYOUT, STRIDES, DTYPE_SETS, ERRORS, OUT, INPLACE),
        *(GRADIENT, FORWARD_AD, GRADGRAD, SECOND_ORDER, MODULES, OPTIMIZERS, SPARSE),
    )
}
