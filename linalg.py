"""Linear algebra (`torch.linalg`): operators named ``linalg_*``, without the prefix."""

from .dispatch.generated.functions import linalg_cross as cross
from .dispatch.generated.functions import linalg_diagonal as diagonal
from .dispatch.generated.functions import linalg_matrix_norm as matrix_norm
from .dispatch.generated.functions import linalg_multi_dot as multi_dot
from .dispatch.generated.functions import linalg_norm as norm
from .dispatch.generated.functions import linalg_vander as vander
from .dispatch.generated.functions import linalg_vecdot as vecdot
from .dispatch.generated.functions import linalg_vector_norm as vector_norm

__all__ = ["cross", "diagonal", "matrix_norm", "multi_dot", "norm", "vander", "vecdot", "vector_norm"]
