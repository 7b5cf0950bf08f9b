"""`tt.masked`: reductions under a mask, and tensors that carry one (`torch.masked`).

An element counts where the mask is True, and a reduction of no elements is the operation's identity, or nan.

Example:
    >>> import triten as tt
    >>> x = tt.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> tt.masked.amax(x, 1, mask=tt.tensor([[True, False], [False, False]]))
    tensor([1., -inf])

In this folder `identities` has the values that do not count, `operators` the functions, `sparse` their sparse
reductions, `masked_tensor` the class and `rules` its table of calls.
"""

from . import rules  # noqa: F401 - it fills the table
from .identities import canonical_dim as _canonical_dim  # noqa: F401
from .identities import reduction_identity_tensor as _reduction_identity  # noqa: F401
from .masked_tensor import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor
from .operators import (
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    logsumexp,
    mean,
    median,
    norm,
    normalize,
    prod,
    softmax,
    softmin,
    std,
    sum,
    var,
)
from .private_names import combine_input_and_mask as _combine_input_and_mask  # noqa: F401
from .private_names import input_mask as _input_mask  # noqa: F401
from .private_names import output_mask as _output_mask  # noqa: F401
from .private_names import where as _where  # noqa: F401

__all__ = [
    "MaskedTensor",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "as_masked_tensor",
    "cumprod",
    "cumsum",
    "is_masked_tensor",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "masked_tensor",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]
