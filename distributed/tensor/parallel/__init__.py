"""Tensor parallelism: modules with sharded parameters (`torch.distributed.tensor.parallel`).

`parallelize_module` (in `api`) changes a module by a plan: a style for each submodule. Styles are in `style`;
those that change no parameters are in `prepare`. `loss` has a cross entropy over sharded classes.
"""

from typing import TYPE_CHECKING

from ....runtime.lazy_import import lazy_names as _lazy_names

_NAMES = {
    ".api": "parallelize_module",
    ".loss": "loss_parallel",
    ".prepare": "PrepareModuleInput PrepareModuleInputOutput PrepareModuleOutput",
    ".style": "ColwiseParallel ParallelStyle RowwiseParallel SequenceParallel",
}

if TYPE_CHECKING:
    from .api import parallelize_module as parallelize_module
    from .loss import loss_parallel as loss_parallel
    from .prepare import PrepareModuleInput as PrepareModuleInput
    from .prepare import PrepareModuleInputOutput as PrepareModuleInputOutput
    from .prepare import PrepareModuleOutput as PrepareModuleOutput
    from .style import ColwiseParallel as ColwiseParallel
    from .style import ParallelStyle as ParallelStyle
    from .style import RowwiseParallel as RowwiseParallel
    from .style import SequenceParallel as SequenceParallel

__getattr__, __dir__, __all__ = _lazy_names(__name__, _NAMES, ())
