"""`tt.func`: functions of functions (`torch.func`): derivatives, mapping over a dimension, programs as graphs."""

from .dispatch.functional.jacobians import hessian, jacfwd, jacrev
from .dispatch.functional.transforms import grad, grad_and_value, jvp, vjp
from .dispatch.functional.vmap import vmap

__all__ = [
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "vjp",
    "vmap",
]
