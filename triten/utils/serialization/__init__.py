"""Defaults of `tt.save` and `tt.load` as a settings module (`torch.utils.serialization`)."""

from . import config as config

__all__ = ["config"]
