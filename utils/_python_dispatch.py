"""Where PyTorch has dispatch modes (`torch.utils._python_dispatch`); ours is `tt.TensorDispatchMode`."""

from ..dispatch.layers.python_key import TensorDispatchMode

__all__ = ["TensorDispatchMode", "is_traceable_wrapper_subclass"]


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Whether a tensor is of a class with ``__tensor_flatten__`` and ``__tensor_unflatten__``."""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")
