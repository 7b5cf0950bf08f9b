"""Defaults of `tt.load` and `tt.save`, each a class with settings (`torch.utils.serialization.config`)."""

import sys

from ...serialization.settings import load as load
from ...serialization.settings import save as save
from .._config_module import install_config_module

install_config_module(sys.modules[__name__])
