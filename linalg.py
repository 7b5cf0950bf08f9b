"""Linear algebra (`torch.linalg`): operators named ``linalg_*``, without the prefix."""

from .dispatch.generated.functions import linalg_cross as cross
from .dispatch.generated.functions import linalg_diagonal as diagonal
from .dispatch.generated.functions import linalg_multi_dot as multi_dot
from .dispatch.generated.functions import linalg_vecdot as vecdot

__all__ = ["cross", "diagonal", "multi_dot", "vecdot"]
