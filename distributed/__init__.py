"""`tt.distributed`: distributed programs (`torch.distributed`).

`init_process_group` creates the group of all ranks, which find each other through a store (`stores`). `world`
holds this group, `subgroups` creates smaller groups, and `groups` has their queries. `collectives`,
`object_collectives`, `point_to_point` and `barriers` are the communications. `backends` implements them: MPI
for hosts, NCCL for GPUs.

Example:
    >>> import triten as tt
    >>> from triten import distributed as dist
    >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
    >>> x = tt.ones(3)
    >>> dist.all_reduce(x); x
    tensor([1., 1., 1.])
    >>> dist.destroy_process_group()
"""

from typing import TYPE_CHECKING

from ..runtime.lazy_import import lazy_names as _lazy_names
from .process_group import GroupMember as GroupMember
from .process_group import group as group

_NAMES = {
    ".backend": "Backend BackendConfig get_default_backend_for_device is_backend_available is_gloo_available "
    "is_mpi_available is_nccl_available is_ucc_available is_xccl_available",
    ".barriers": "barrier monitored_barrier",
    ".coalescing": "all_gather_coalesced all_reduce_coalesced",
    ".collectives": "all_gather all_gather_into_tensor all_gather_single all_reduce all_to_all all_to_all_single "
    "broadcast gather reduce reduce_scatter reduce_scatter_single reduce_scatter_tensor scatter",
    ".data_parallel.grad_bucket": "GradBucket",
    ".data_parallel.reducer": "Reducer",
    ".debug_level": "DebugLevel get_debug_level set_debug_level set_debug_level_from_env",
    ".device_mesh": "DeviceMesh init_device_mesh",
    ".errors": "DistBackendError DistError DistNetworkError DistStoreError QueueEmptyError",
    ".groups": "NOT_INITIALIZED get_backend get_backend_config get_global_rank get_group_rank get_node_local_rank "
    "get_pg_count get_process_group_ranks get_rank get_world_size is_available is_initialized is_torchelastic_launched",
    ".object_collectives": "all_gather_object broadcast_object_list gather_object recv_object_list scatter_object_list "
    "send_object_list",
    ".options": "AllToAllOptions AllreduceCoalescedOptions AllreduceOptions BarrierOptions BroadcastOptions "
    "GatherOptions ReduceOptions ReduceScatterOptions ScatterOptions",
    ".point_to_point": "P2POp batch_isend_irecv irecv isend recv send",
    ".process_group": "ProcessGroup",
    ".reduce_op": "ReduceOp supports_complex",
    ".rendezvous": "register_rendezvous_handler rendezvous",
    ".stores.file_store": "FileStore",
    ".stores.hash_store": "HashStore",
    ".stores.prefix_store": "PrefixStore",
    ".stores.store": "Store",
    ".stores.tcp_store": "TCPStore",
    ".subgroups": "new_group new_subgroups new_subgroups_by_enumeration split_group",
    ".work": "Work",
    ".world": "destroy_process_group init_process_group",
}
_MODULES = (
    "_composable _functional_collectives algorithms checkpoint device_mesh distributed_c10d fsdp nn optim "
    "pipelining rpc tensor"
)

if TYPE_CHECKING:
    from .backend import *
    from .barriers import *
    from .coalescing import all_gather_coalesced as all_gather_coalesced
    from .coalescing import all_reduce_coalesced as all_reduce_coalesced
    from .collectives import *
    from .data_parallel.grad_bucket import GradBucket as GradBucket
    from .data_parallel.reducer import Reducer as Reducer
    from .debug_level import *
    from .device_mesh import DeviceMesh as DeviceMesh
    from .device_mesh import init_device_mesh as init_device_mesh
    from .errors import *
    from .groups import *
    from .object_collectives import *
    from .options import *
    from .point_to_point import *
    from .process_group import ProcessGroup as ProcessGroup
    from .reduce_op import ReduceOp as ReduceOp
    from .reduce_op import supports_complex as supports_complex
    from .rendezvous import register_rendezvous_handler as register_rendezvous_handler
    from .rendezvous import rendezvous as rendezvous
    from .stores.file_store import FileStore as FileStore
    from .stores.hash_store import HashStore as HashStore
    from .stores.prefix_store import PrefixStore as PrefixStore
    from .stores.store import Store as Store
    from .stores.tcp_store import TCPStore as TCPStore
    from .subgroups import *
    from .work import Work as Work
    from .world import *

__getattr__, __dir__, __all__ = _lazy_names(__name__, _NAMES, _MODULES.split())
__all__ += ["GroupMember", "group"]
