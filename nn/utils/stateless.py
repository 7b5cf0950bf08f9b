"""Modules called with other parameters (`torch.nn.utils.stateless`), which is `tt.func.functional_call` today."""

from ..modules.functional_call import functional_call, reparametrize_module

__all__ = ["functional_call"]

_functional_call = functional_call
_reparametrize_module = reparametrize_module
