"""Workers of data loaders, and the seeds that NumPy's generator gets in them."""

from ..worker import WorkerInfo as WorkerInfo
from ..worker import _generate_state as _generate_state
from ..worker import get_worker_info as get_worker_info
