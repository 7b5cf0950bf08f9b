"""Learning rate schedulers (`torch.optim.lr_scheduler`).

`scheduler.py` is the base: a subclass says the rates of an epoch, from the last ones where it can. A name's module is
imported with its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.lazy_import import lazy_names

_MODULES = {
    ".combined": "ChainedScheduler SequentialLR",
    ".cosine": "CosineAnnealingLR CosineAnnealingWarmRestarts",
    ".cyclic": "CyclicLR OneCycleLR",
    ".factors": (
        "ConstantLR ExponentialLR LambdaLR LinearLR MultiStepLR MultiplicativeLR PolynomialLR StepLR"
    ),
    ".plateau": "ReduceLROnPlateau",
    ".scheduler": "EPOCH_DEPRECATION_WARNING LRScheduler _LRScheduler",
}

if TYPE_CHECKING:
    from .combined import *
    from .cosine import *
    from .cyclic import *
    from .factors import *
    from .plateau import *
    from .scheduler import *
    from .scheduler import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
    from .scheduler import _LRScheduler as _LRScheduler
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES)
