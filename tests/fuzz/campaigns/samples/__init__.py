"""Campaigns ``samples``, ``samples_meta`` and ``samples_cuda``: calls with mutated arguments, held against PyTorch.

A case names a call as users write it (``nn.functional.relu``, ``Tensor.add_``) and has its arguments with every byte of
their storages, so that it needs no database of PyTorch's to be run again. What lives here:

* `campaign`: the campaigns, and what a case comes to;
* `values`: arguments as JSON, and made of it for either library;
* `database`: unmutated calls, from the samples of PyTorch's operators (imports PyTorch);
* `mutations`: of tensors, `mutations_of_numbers`: of everything else, and of whole calls;
* `oracle`: the call under both libraries, and where the two differ (imports PyTorch);
* `expectations`: what PyTorch gave, as it is stored with a found case and compared without it;
* `shrinking`, `programs`: a case made smaller, and as a program.
"""

from .campaign import Samples, SamplesOnCuda, SamplesOnMeta

__all__ = ["Samples", "SamplesOnCuda", "SamplesOnMeta"]
