"""Which operators the database has, and the callable of ours that each one means."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from torch.testing._internal import common_cuda
from torch.testing._internal.opinfo.core import OpInfo

import triten as tt

# The database says of CUDA what the machine's GPU has: without one it is to mean compute capability 9.0.
common_cuda.SM53OrLater = common_cuda.SM80OrLater = True
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

# Random results or uninitialized memory: only their shapes and dtypes are compared.
RANDOM = re.compile(
    r"(bernoulli|cauchy|empty.*|exponential|geometric|log_normal|multinomial|native_dropout|new_empty.*|normal.*|rand.*"
    r"|uniform|nn\.functional\.(.*dropout.*|rrelu|fractional_max_pool.*|scaled_dot_product.*"
    r"|multi_head_attention_forward))$"
)
# The sign, the order or the pivots of the result are free.
FREE = re.compile(r"(svd.*|linalg\.(svd|eig|eigh|ldl.*|lu.*)|lu.*|geqrf|ormqr|(svd|pca)_lowrank)$")
# Tools of PyTorch's own, a composition of the database's own, and operators of sparse and masked tensors.
OUTSIDE = re.compile(
    r"(jiterator_.*|max_pool2d_with_indices_backward|torch\.ops\..*|masked\..*|sparse\..*|to_sparse)$"
)
OUTSIDE_VARIANTS = {
    ("as_strided", "partial_views"),
    ("linalg.lstsq", "grad_oriented"),
    ("linalg.pinv", "singular"),
}
# The database calls these through a function of its own, which takes the arguments in another order.
ORDER = {
    "polygamma": (1, 0),
    "special.polygamma": (1, 0),
    "where": (1, 0, 2),
    "nn.functional.embedding": (1, 0),
    "nn.functional.embedding_bag": (1, 0),
}
# The database gives these a matrix as two factors, and multiplies them itself, after setting a seed.
FACTORED = {"svd_lowrank", "pca_lowrank"}
ONLY_IN_PLACE = {"cauchy", "exponential", "geometric", "log_normal", "uniform"}


class MissingError(Exception):
    """There is no such operator, or it lacks the form or a dtype that is asked for."""


def chosen(pattern: str, dtype: Any = None) -> Iterator[OpInfo]:
    """Yield the database's operators whose names match `pattern` and which take `dtype`, if given, on the CPU."""
    for operator in op_db:
        variant = (operator.name, operator.variant_test_name)
        if (
            OUTSIDE.match(operator.name)
            or variant in OUTSIDE_VARIANTS
            or not re.search(pattern, operator.name)
        ):
            continue
        if dtype is None or dtype in operator.supported_dtypes("cpu"):
            yield operator


def title(operator: Any) -> str:
    """Return the operator's name, with its variant if it has several."""
    variant = getattr(operator, "variant_test_name", "")
    return f"{operator.name}.{variant}" if variant else str(operator.name)


def values_are_free(operator: OpInfo) -> bool:
    """Return True if only the shapes and dtypes of the operator's results are determined."""
    return bool(RANDOM.match(operator.name) or FREE.match(operator.name))


def ordered(operator: OpInfo, arguments: list[Any]) -> list[Any]:
    """Return the database's positional arguments in the operator's own order."""
    if operator.name == "einsum" and len(arguments) == 2:
        return [arguments[1], *arguments[0]]
    order = ORDER.get(operator.name, ())
    if len(arguments) < len(order):
        return arguments
    return [arguments[position] for position in order] + arguments[len(order) :]


def functional(operator: OpInfo, library: Any = tt) -> Callable[..., Any]:
    """Ours of that name: ``nn.functional.relu`` is `triten.nn.functional.relu`, ``add`` `triten.add` or the method.

    Another library's, if one is given.

    Raises MissingError if there is none.
    """
    name = operator.name.removeprefix("torch.")
    if name in ONLY_IN_PLACE or operator.variant_test_name == "in_place":
        name += "_"
    found = _reach(library, name)
    if name in FACTORED and callable(found):
        return lambda a, b, **named: found(a @ b.mT, **named)
    if callable(found):
        return found
    method = getattr(library.Tensor, name, None)
    if method is None:
        raise MissingError(name)
    return method if callable(method) else lambda tensor: getattr(tensor, name)


def in_place(operator: OpInfo) -> Callable[..., Any]:
    """Return the in-place form: the method ``name_``, or the function with ``inplace=True``.

    Raises MissingError if there is none.
    """
    last = operator.name.rpartition(".")[2]
    name = getattr(operator.inplace_variant, "__name__", "<lambda>")
    method = getattr(tt.Tensor, name if name.endswith("_") else f"{last}_", None)
    if callable(method):
        return method
    function = _reach(tt, operator.name)
    if operator.name.startswith("nn.functional.") and callable(function):
        return partial(function, inplace=True)
    raise MissingError(f"{last}_")


def _reach(namespace: Any, dotted: str) -> Any:
    for part in dotted.split("."):
        namespace = getattr(namespace, part, None)
    return namespace
