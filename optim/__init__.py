"""Optimizers: what `step` does to parameters, from their gradients (`torch.optim`).

`optimizer.py` is the base: groups, state, saving; `single.py` that of algorithms which are an update of one parameter.
A file beside them is an algorithm, `lr_scheduler` how rates change. A name's module is imported with its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy_import import lazy_names

_MODULES = {
    ".adafactor": "Adafactor",
    ".adam": "Adam AdamW",
    ".adam_kin": "Adamax NAdam RAdam",
    ".adaptive": "Adadelta Adagrad RMSprop",
    ".averaged_sgd": "ASGD",
    ".lbfgs": "LBFGS",
    ".muon": "Muon",
    ".optimizer": "Optimizer",
    ".resilient": "Rprop",
    ".sgd": "SGD",
}
_SUBMODULES = ("lr_scheduler", "swa_utils")

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
    __getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES, _SUBMODULES)
