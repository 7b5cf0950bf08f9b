"""`tt.distributed.tensor`: tensors distributed over a mesh (`torch.distributed.tensor`).

- `placements` defines placements, and `spec` the metadata of a distributed tensor.
- `transitions` and `redistribute` change placements.
- `dtensor` is the tensor; `creation` and `distribute` create tensors.
- `dispatch` runs operators. `rules` lists the sharding strategies of each operator; `strategy` chooses the
  one with the least communication.
"""

from typing import TYPE_CHECKING

from ...runtime.lazy_import import lazy_names as _lazy_names

_NAMES = {
    "..device_mesh": "DeviceMesh init_device_mesh",
    ".creation": "empty full ones rand randn zeros",
    ".distribute": "distribute_module distribute_tensor",
    ".dtensor": "DTensor",
    ".placements": "Partial Placement Replicate Shard",
}
_MODULES = "debug experimental parallel"

if TYPE_CHECKING:
    from ..device_mesh import DeviceMesh as DeviceMesh
    from ..device_mesh import init_device_mesh as init_device_mesh
    from .creation import empty as empty
    from .creation import full as full
    from .creation import ones as ones
    from .creation import rand as rand
    from .creation import randn as randn
    from .creation import zeros as zeros
    from .distribute import distribute_module as distribute_module
    from .distribute import distribute_tensor as distribute_tensor
    from .dtensor import DTensor as DTensor
    from .placements import Partial as Partial
    from .placements import Placement as Placement
    from .placements import Replicate as Replicate
    from .placements import Shard as Shard

__getattr__, __dir__, __all__ = _lazy_names(__name__, _NAMES, _MODULES.split())
