"""Optimizers: what `step` does to parameters, from their gradients (`torch.optim`).

`optimizer.py` is the base: groups, state, saving; `single.py` that of algorithms which are an update of one parameter.
A file beside them is an algorithm, `lr_scheduler` how rates change. A name's module is imported with its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy_names import lazy_names

_MODULES = {
    "adafactor": "Adafactor",
    "adam": "Adam AdamW",
    "adam_kin": "Adamax NAdam RAdam",
    "adaptive": "Adadelta Adagrad RMSprop",
    "averaged_sgd": "ASGD",
    "lbfgs": "LBFGS",
    "muon": "Muon",
    "optimizer": "Optimizer",
    "resilient": "Rprop",
    "sgd": "SGD",
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names.split()}
_SUBMODULES = {"lr_scheduler": "lr_scheduler", "swa_utils": "swa_utils"}

if TYPE_CHECKING:
    from . import lr_scheduler as lr_scheduler
    from . import swa_utils as swa_utils
    from .adafactor import *
    from .adam import *
    from .adam_kin import *
    from .adaptive import *
    from .averaged_sgd import *
    from .lbfgs import *
    from .muon import *
    from .optimizer import *
    from .resilient import *
    from .sgd import *
else:
    __all__ = sorted([*_PLACES, *_SUBMODULES])
    __getattr__, __dir__ = lazy_names(__name__, __name__, _PLACES, _SUBMODULES)
