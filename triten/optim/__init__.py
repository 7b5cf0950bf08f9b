"""Optimizers: update parameters from their gradients (`torch.optim`).

`optimizer.py` is the base: groups, state, saving; `single.py` that of algorithms which are an update of one parameter.
A file beside them is an algorithm, `lr_scheduler` how rates change. A name's module is imported with its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy_import import lazy_names

_MODULES = {
    ".adadelta": "Adadelta",
    ".adafactor": "Adafactor",
    ".adagrad": "Adagrad",
    ".adam": "Adam AdamW",
    ".adamax": "Adamax",
    ".asgd": "ASGD",
    ".lbfgs": "LBFGS",
    ".muon": "Muon",
    ".nadam": "NAdam",
    ".optimizer": "Optimizer",
    ".radam": "RAdam",
    ".rmsprop": "RMSprop",
    ".rprop": "Rprop",
    ".sgd": "SGD",
    ".sparse_adam": "SparseAdam",
    ".swap_in": "swap_in_optimizer_params_and_state",
}
_SUBMODULES = ("adamw", "lr_scheduler", "swa_utils")


if TYPE_CHECKING:
    from . import adamw as adamw
    from . import lr_scheduler as lr_scheduler
    from . import swa_utils as swa_utils
    from .adadelta import *
    from .adafactor import *
    from .adagrad import *
    from .adam import *
    from .adamax import *
    from .asgd import *
    from .lbfgs import *
    from .muon import *
    from .nadam import *
    from .optimizer import *
    from .radam import *
    from .rmsprop import *
    from .rprop import *
    from .sgd import *
    from .sparse_adam import *
    from .swap_in import *
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__, _MODULES, (*(path[1:] for path in _MODULES), *_SUBMODULES)
    )
