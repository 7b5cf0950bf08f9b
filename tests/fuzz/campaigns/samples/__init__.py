"""Fuzz targets ``samples``, ``samples_meta`` and ``samples_cuda``: calls with mutated arguments, compared
with PyTorch.

A case names a call as users write it (``nn.functional.relu``, ``Tensor.add_``). It holds the arguments with
every byte of their storages, so a rerun needs no PyTorch database. The modules are:

- `campaign`: the fuzz targets and the outcomes of a case;
- `values`: arguments as JSON, and their construction for either library;
- `database`: unmutated calls, from PyTorch's operator samples (imports PyTorch);
- `mutations`: mutations of tensors; `mutations_of_numbers`: of all other arguments and of whole calls;
- `oracle`: the call under both libraries, and their differences (imports PyTorch);
- `expectations`: PyTorch's results as stored with a found case, compared without PyTorch;
- `shrinking`, `programs`: a smaller case, and a case as a program.
"""

from .campaign import Samples, SamplesOnCuda, SamplesOnMeta

__all__ = ["Samples", "SamplesOnCuda", "SamplesOnMeta"]
