"""Optimizers: what `step` does to parameters, from their gradients (`torch.optim`).

`optimizer.py` is the base: groups, state, saving; `single.py` that of algorithms which are an update of one parameter.
A file beside them is an algorithm, `lr_scheduler` how rates change. A name's module is imported with its first use.
"""

from __future__ import annotations

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

__all__ = sorted([*_PLACES, *_SUBMODULES])

__getattr__, __dir__ = lazy_names(__name__, __name__, _PLACES, _SUBMODULES)
