"""The names of `torch.distributed.distributed_c10d`, which programs import from there."""

from .backend import *
from .backend import DEFAULT_TIMEOUT as default_pg_timeout
from .barriers import *
from .coalescing import all_gather_coalesced as all_gather_coalesced
from .coalescing import all_reduce_coalesced as all_reduce_coalesced
from .coalescing import coalescing_manager as _coalescing_manager
from .collectives import *
from .debug_level import *
from .errors import *
from .groups import *
from .groups import group_by_name as _resolve_process_group
from .groups import group_or_default as _get_default_group
from .object_collectives import *
from .options import *
from .point_to_point import *
from .process_group import GroupMember as GroupMember
from .process_group import ProcessGroup as ProcessGroup
from .process_group import group as group
from .reduce_op import ReduceOp as ReduceOp
from .reduce_op import make_premultiplied_sum as _make_nccl_premul_sum
from .reduce_op import supports_complex as supports_complex
from .rendezvous import rendezvous as rendezvous
from .stores.prefix_store import PrefixStore as PrefixStore
from .stores.store import Store as Store
from .subgroups import *
from .work import Work as Work
from .world import *

__all__ = [
    "GroupMember",
    "PrefixStore",
    "ProcessGroup",
    "ReduceOp",
    "Store",
    "Work",
    "default_pg_timeout",
    "group",
]
