"""Distributed checkpoints: states that all ranks save together, each its own shards
(`torch.distributed.checkpoint`).

`save` and `load` agree on a plan and carry it out.

- `planner` defines the items of plans; `default_planner` plans a state flattened by `nested_dict`, with
  `save_plans` and `read_items`.
- `coordination` runs the steps on all ranks, and raises an error of one rank on each.
- `storage` is the interface to storage, implemented by `filesystem_writer` and `filesystem_reader`.
- `shard_file` and `metadata_file` define the files; `pytorch_metadata` reads PyTorch's, and `metadata_checks`
  validates both.
- `hf_storage` reads and writes safetensors files of Hugging Face's libraries.
- `state_dict` returns states of models and optimizers under names that do not depend on the distribution.
"""

from typing import TYPE_CHECKING

from ...runtime.lazy_import import lazy_names as _lazy_names

_NAMES = {
    ".api": "CheckpointException",
    ".default_planner": "DefaultLoadPlanner DefaultSavePlanner",
    ".filesystem_reader": "FileSystemReader",
    ".filesystem_writer": "FileSystemWriter",
    ".hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
    ".metadata": "BytesStorageMetadata ChunkStorageMetadata Metadata MetadataIndex StorageMeta TensorProperties "
    "TensorStorageMetadata",
    ".planner": "LoadPlan LoadPlanner ReadItem SavePlan SavePlanner WriteItem",
    ".state_dict_loader": "load",
    ".state_dict_saver": "async_save save",
    ".stateful": "Stateful",
    ".storage": "StorageReader StorageWriter",
}
_MODULES = (
    "api default_planner filesystem format_utils hf_storage metadata planner state_dict state_dict_loader "
    "state_dict_saver"
)

if TYPE_CHECKING:
    from .api import CheckpointException as CheckpointException
    from .default_planner import DefaultLoadPlanner as DefaultLoadPlanner
    from .default_planner import DefaultSavePlanner as DefaultSavePlanner
    from .filesystem_reader import FileSystemReader as FileSystemReader
    from .filesystem_writer import FileSystemWriter as FileSystemWriter
    from .hf_storage import HuggingFaceStorageReader as HuggingFaceStorageReader
    from .hf_storage import HuggingFaceStorageWriter as HuggingFaceStorageWriter
    from .metadata import BytesStorageMetadata as BytesStorageMetadata
    from .metadata import ChunkStorageMetadata as ChunkStorageMetadata
    from .metadata import Metadata as Metadata
    from .metadata import MetadataIndex as MetadataIndex
    from .metadata import StorageMeta as StorageMeta
    from .metadata import TensorProperties as TensorProperties
    from .metadata import TensorStorageMetadata as TensorStorageMetadata
    from .planner import LoadPlan as LoadPlan
    from .planner import LoadPlanner as LoadPlanner
    from .planner import ReadItem as ReadItem
    from .planner import SavePlan as SavePlan
    from .planner import SavePlanner as SavePlanner
    from .planner import WriteItem as WriteItem
    from .state_dict_loader import load as load
    from .state_dict_saver import async_save as async_save
    from .state_dict_saver import save as save
    from .stateful import Stateful as Stateful
    from .storage import StorageReader as StorageReader
    from .storage import StorageWriter as StorageWriter

__getattr__, __dir__, __all__ = _lazy_names(__name__, _NAMES, _MODULES.split())
