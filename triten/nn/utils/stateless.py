"""Modules called with other parameters (`torch.nn.utils.stateless`), which is `tt.func.functional_call` today."""

from ..modules.functional_call import functional_call

__all__ = ["functional_call"]
