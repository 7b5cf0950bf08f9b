"""Pruning: masks that set elements or slices of a parameter to zero (`torch.nn.utils.prune`).

Pruning replaces the parameter ``weight`` by the parameter ``weight_orig`` and the buffer ``weight_mask``. A hook sets
``weight`` to their elementwise product before each forward pass, so that the remaining elements get gradients.
`remove` makes the masked weight permanent. Pruning again selects among the remaining elements.

Example:
    >>> import triten as tt
    >>> from triten.nn.utils import prune
    >>> module = tt.nn.Linear(2, 2)
    >>> module.weight.data = tt.tensor([[1.0, -4.0], [3.0, 2.0]])
    >>> prune.l1_unstructured(module, "weight", amount=0.5).weight
    tensor([[ 0., -4.],
            [ 3.,  0.]], grad_fn=<MulBackward0>)
    >>> prune.remove(module, "weight").weight
    Parameter containing:
    tensor([[ 0., -4.],
            [ 3.,  0.]], requires_grad=True)
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from ...dispatch.generated import functions as _ops
from ...dispatch.tensor import Tensor
from ...runtime.memory_format import contiguous_format
from ..modules.module import Module
from ..modules.parameter import Parameter

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

ModuleT = TypeVar("ModuleT", bound=Module)


class BasePruningMethod(ABC):
    """Pruning method, and the hook that applies its mask (`torch.nn.utils.prune.BasePruningMethod`).

    A subclass writes `compute_mask`, and says in `PRUNING_TYPE` what is left of a parameter that was pruned before:
    ``"unstructured"``, ``"structured"`` (with the slices along its `dim`) or ``"global"``.
    """

    PRUNING_TYPE: str
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        """Mask the parameter; this is the forward pre-hook."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Compute the mask from importances: 0 where an element is pruned, else 1.

        Args:
            t: The importances.
            default_mask: The previous mask, of the same shape. Its zeros stay zero.
        """

    def apply_mask(self, module: Module) -> Tensor:
        """Return a module's parameter times its mask."""
        name = self._tensor_name
        mask: Tensor = getattr(module, f"{name}_mask")
        original: Tensor = getattr(module, f"{name}_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a module's parameter. If that fails the module stays as it was.

        Args:
            module: the module.
            name: The name of the parameter.
            args, kwargs: Arguments of the method's constructor.
            importance_scores: Scores that replace the parameter's elements in comparisons, of its shape.

        Returns:
            The hook: this method, or a `PruningContainer` of it and those from before.

        Raises:
            AssertionError: the scores have another shape.
            ValueError: an amount does not fit, or the method's `PRUNING_TYPE` is unknown.
        """
        earlier = _hook_of(module, name)
        method = cls(*args, **kwargs)
        method._tensor_name = name
        original: Tensor = getattr(module, name if earlier is None else f"{name}_orig")
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, got {scores.shape} vs "
                f"{original.shape}"
            )
        hook: BasePruningMethod = method
        if earlier is None:
            before = _ops.ones_like(original)
        else:
            before = getattr(module, f"{name}_mask")
            hook = PruningContainer(
                *(earlier[1] if isinstance(earlier[1], PruningContainer) else [earlier[1]])
            )
            hook._tensor_name = name
            hook.add_pruning_method(method)
        mask = hook.compute_mask(scores.detach(), default_mask=before.detach().clone())
        if earlier is None:
            assert isinstance(original, Parameter)
            del module._parameters[name]
            module.register_parameter(f"{name}_orig", original)
            module.register_buffer(f"{name}_mask", mask)
        else:
            del module._forward_pre_hooks[earlier[0]]
            setattr(module, f"{name}_mask", mask)
        setattr(module, name, hook.apply_mask(module))
        module.register_forward_pre_hook(hook)
        return hook

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """Return a copy of `t` with the pruned elements set to zero.

        Args:
            t: The tensor.
            default_mask: The previous mask. Default: all ones.
            importance_scores: Scores, of the shape of `t`, that select the pruned elements. Default: `t`.

        Raises:
            AssertionError: The scores have another shape.
        """
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as tensor t, got {scores.shape} vs {t.shape}"
            )
        before = _ops.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=before)

    def remove(self, module: Module) -> None:
        """Make the masked parameter the parameter, in the memory that it had; its mask goes.

        Raises:
            AssertionError: this method is not applied to a parameter.
        """
        name = getattr(self, "_tensor_name", None)
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        masked = self.apply_mask(module)
        original = module._parameters[f"{name}_orig"]
        assert original is not None
        delattr(module, name)
        original.data = masked.data
        del module._parameters[f"{name}_orig"]
        del module._buffers[f"{name}_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several methods of one parameter, of which the last decides anew and the others by their masks.

    Raises:
        TypeError: one of them is no `BasePruningMethod`.
        ValueError: they are of different parameters.
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for method in args:
            if not self._pruning_methods and isinstance(method, BasePruningMethod):
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod) -> None:
        """Append a method of the same parameter.

        Raises:
            TypeError: `method` is not a `BasePruningMethod`.
            ValueError: `method` prunes another parameter.
        """
        if not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        own = getattr(self, "_tensor_name", None)
        if own is not None and method._tensor_name != own:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{own}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Combine the previous mask with the one that the last method computes for the remaining elements.

        Raises:
            AttributeError: A structured method has no attribute `dim`.
            ValueError: The method's `PRUNING_TYPE` is unknown.
        """
        method = self._pruning_methods[-1]
        mask = default_mask.to(dtype=t.dtype).clone()
        rest: Any
        if method.PRUNING_TYPE == "unstructured":
            rest = mask == 1
        elif method.PRUNING_TYPE == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError(
                    "Pruning methods of PRUNING_TYPE 'structured' need to have the attribute `dim` defined."
                )
            dim = method.dim % t.dim()
            other_dims = [each for each in range(t.dim()) if each != dim]
            rest = (slice(None),) * dim + (mask.sum(other_dims) != 0,)
        elif method.PRUNING_TYPE == "global":
            rest = slice(None)
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask[rest] = method.compute_mask(t[rest], default_mask=mask[rest]).to(dtype=mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing, but has a mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _ByAmount(BasePruningMethod):
    """Prunes so much: an int is a number of elements or slices, a float in [0, 1] a share."""

    amount: float

    def __init__(self, amount: float) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _count(self, size: int) -> int:
        """Return the number of elements to prune out of `size`.

        Raises:
            ValueError: `amount` exceeds `size`.
        """
        count = _compute_nparams_toprune(self.amount, size)
        _validate_pruning_amount(count, size)
        return count


class _Unstructured(_ByAmount):
    PRUNING_TYPE = "unstructured"

    def _importance(self, t: Tensor) -> Tensor:
        """Return the importance of each element; the lowest are pruned."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        mask = default_mask.clone(memory_format=contiguous_format)
        count = self._count(t.numel())
        if count:
            least = self._importance(t).reshape(-1).topk(count, largest=False)[1]
            mask.view(-1)[least] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Prunes elements by chance, each as likely as the others.

    Args:
        amount: The number of elements to prune (int), or their fraction (float).
    """

    def _importance(self, t: Tensor) -> Tensor:
        return _ops.rand(t.shape, device=t.device)


class L1Unstructured(_Unstructured):
    """Prunes the elements of least absolute value.

    Args:
        amount: The number of elements to prune (int), or their fraction (float).
    """

    def _importance(self, t: Tensor) -> Tensor:
        return t.abs()


class _Structured(_ByAmount):
    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _importance(self, t: Tensor) -> Tensor:
        """Return the importance of each slice along `dim`; the lowest are pruned."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        size = t.shape[self.dim]
        count = self._count(size)
        if not count:
            return default_mask
        kept_indices = self._importance(t).topk(size - count)[1]
        along = [1] * t.dim()
        along[self.dim] = size
        slices = _ops.zeros(size, dtype=default_mask.dtype, device=t.device)
        slices[kept_indices] = 1
        return default_mask * slices.view(along)


class RandomStructured(_Structured):
    """Prunes slices by chance, each as likely as the others.

    Args:
        amount: The number of elements to prune (int), or their fraction (float).
        dim: the dimension along which the slices lie.
    """

    def _importance(self, t: Tensor) -> Tensor:
        return _ops.rand(t.shape[self.dim], device=t.device)


class LnStructured(_Structured):
    """Prunes the slices of least norm.

    Args:
        amount: The number of elements to prune (int), or their fraction (float).
        n: the order of the norm, as `tt.norm` has it.
        dim: the dimension along which the slices lie.
    """

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _importance(self, t: Tensor) -> Tensor:
        dim = self.dim % t.dim()
        return t.norm(p=self.n, dim=[each for each in range(t.dim()) if each != dim])


class CustomFromMask(BasePruningMethod):
    """Pruning by a given mask.

    Args:
        mask: zeros where a parameter, of the mask's shape, is pruned.
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype, device=default_mask.device)


def identity(module: ModuleT, name: str) -> ModuleT:
    """Give a parameter a mask of ones; returns the module. As the others below, which say more."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: ModuleT, name: str, amount: float) -> ModuleT:
    """Prune elements of a parameter by chance (`torch.nn.utils.prune.random_unstructured`).

    Args:
        module: The module, modified in-place.
        name: The name of the parameter.
        amount: an int is a number of elements, a float in [0, 1] a share of those that are left.

    Returns:
        The module.

    Raises:
        ValueError: `amount` does not fit.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: ModuleT, name: str, amount: float, importance_scores: Tensor | None = None
) -> ModuleT:
    """Prune the elements of a parameter that are least in absolute value (`torch.nn.utils.prune.l1_unstructured`).

    Args:
        module: The module, modified in-place.
        name: The name of the parameter.
        amount: an int is a number of elements, a float in [0, 1] a share of those that are left.
        importance_scores: Scores that replace the elements in comparisons, of the parameter's shape.

    Returns:
        The module.

    Raises:
        ValueError: `amount` does not fit.
        AssertionError: the scores have another shape.
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: ModuleT, name: str, amount: float, dim: int) -> ModuleT:
    """Prune slices of a parameter by chance (`torch.nn.utils.prune.random_structured`).

    Args:
        module: The module, modified in-place.
        name: The name of the parameter.
        amount: an int is a number of slices, a float in [0, 1] a share of those that are left.
        dim: the dimension along which they lie.

    Returns:
        The module.

    Raises:
        ValueError: `amount` does not fit, or the parameter has fewer than two dimensions.
        IndexError: there is no such dimension.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: ModuleT,
    name: str,
    amount: float,
    n: Any,
    dim: int,
    importance_scores: Tensor | None = None,
) -> ModuleT:
    """Prune the slices of a parameter that have the least norm (`torch.nn.utils.prune.ln_structured`).

    Args:
        module: The module, modified in-place.
        name: The name of the parameter.
        amount: an int is a number of slices, a float in [0, 1] a share of those that are left.
        n: the order of the norm, as `tt.norm` has it.
        dim: the dimension along which they lie.
        importance_scores: Scores that replace the elements in comparisons, of the parameter's shape.

    Returns:
        The module.

    Raises:
        ValueError: `amount` does not fit, or the parameter has fewer than two dimensions.
        IndexError: there is no such dimension.
        AssertionError: the scores have another shape.

    Example:
        >>> import triten as tt
        >>> from triten.nn.utils import prune
        >>> module = tt.nn.Linear(2, 3)
        >>> module.weight.data = tt.tensor([[1.0, 1.0], [0.0, 1.0], [2.0, 0.0]])
        >>> prune.ln_structured(module, "weight", amount=1, n=2, dim=0).weight_mask
        tensor([[1., 1.],
                [0., 0.],
                [1., 1.]])
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: ModuleT, name: str, mask: Tensor) -> ModuleT:
    """Prune what a mask says (`torch.nn.utils.prune.custom_from_mask`).

    Args:
        module: The module, modified in-place.
        name: The name of the parameter.
        mask: zeros where it is pruned, of the parameter's shape.

    Returns:
        The module.

    Raises:
        AssertionError: the mask has another shape.
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]],
    pruning_method: type[BasePruningMethod],
    importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune several parameters as if they were one (`torch.nn.utils.prune.global_unstructured`).

    Args:
        parameters: Pairs of a module and the name of its parameter.
        pruning_method: A method whose `PRUNING_TYPE` is ``"unstructured"``.
        importance_scores: Scores to compare instead of the elements, by pair. Default: None.
        kwargs: Arguments of the method's constructor.

    Raises:
        TypeError: The method has another type, or the scores are not a dict.
        AssertionError: Scores have another shape than their parameter.

    Example:
        >>> import triten as tt
        >>> from triten.nn.utils import prune
        >>> a, b = tt.nn.Linear(1, 2, bias=False), tt.nn.Linear(2, 1, bias=False)
        >>> a.weight.data, b.weight.data = tt.tensor([[1.0], [5.0]]), tt.tensor([[3.0, 2.0]])
        >>> prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=2)
        >>> a.weight_mask.flatten().tolist(), b.weight_mask.flatten().tolist()
        ([0.0, 1.0], [1.0, 0.0])
    """
    pairs = list(parameters)
    importance = {} if importance_scores is None else importance_scores
    if not isinstance(importance, Mapping):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    if getattr(pruning_method, "PRUNING_TYPE", None) != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {getattr(pruning_method, 'PRUNING_TYPE', None)}"
        )
    scores = [importance.get((module, name), getattr(module, name)) for module, name in pairs]
    before = [getattr(module, f"{name}_mask", None) for module, name in pairs]
    masks = [
        _ops.ones_like(score) if mask is None else mask for score, mask in zip(scores, before, strict=True)
    ]
    # One container for all parameters does not choose elements that were pruned before.
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    joined = container.compute_mask(
        _ops.cat([score.detach().reshape(-1) for score in scores]),
        default_mask=_ops.cat([mask.reshape(-1) for mask in masks]),
    )
    parts = joined.split([score.numel() for score in scores])
    for (module, name), part in zip(pairs, parts, strict=True):
        custom_from_mask(module, name, part.reshape(getattr(module, name).shape))


def remove(module: ModuleT, name: str) -> ModuleT:
    """Make a pruned parameter an ordinary one, with zeros where it was pruned (`torch.nn.utils.prune.remove`).

    Args:
        module: The module, modified in-place.
        name: The name of the parameter.

    Returns:
        The module.

    Raises:
        ValueError: The parameter is not pruned.
    """
    entry = _hook_of(module, name)
    if entry is None:
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    number, hook = entry
    hook.remove(module)
    del module._forward_pre_hooks[number]
    return module


def is_pruned(module: Module) -> bool:
    """Return whether any parameter of a module or its submodules is pruned (`torch.nn.utils.prune.is_pruned`).

    Example:
        >>> import triten as tt
        >>> from triten.nn.utils import prune
        >>> module = tt.nn.Sequential(tt.nn.Linear(2, 2))
        >>> before = prune.is_pruned(module)
        >>> _ = prune.identity(module[0], "weight")
        >>> before, prune.is_pruned(module)
        (False, True)
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for each in module.modules()
        for hook in each._forward_pre_hooks.values()
    )


def _hook_of(module: Module, name: str) -> tuple[int, BasePruningMethod] | None:
    """Return the hook that masks a parameter, and its id."""
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return number, hook
    return None


# PyTorch's names for the checks of a pruning method: pruning methods outside of this module call them.


def _validate_pruning_amount_init(amount: float) -> None:
    """Check that `amount` is an int of at least 0 or a float in [0, 1].

    Raises:
        TypeError: `amount` is not a number.
        ValueError: `amount` is out of range.
    """
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (not isinstance(amount, numbers.Integral) and amount > 1.0):
        raise ValueError(
            f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
        )


def _validate_pruning_amount(amount: float, tensor_size: int) -> None:
    """Check that an int `amount` is at most the number of elements or slices, `tensor_size`.

    Raises:
        ValueError: `amount` exceeds `tensor_size`.
    """
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(
            f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}"
        )


def _validate_structured_pruning(t: Tensor) -> None:
    """Check that `t` has slices to prune, that is at least two dimensions.

    Raises:
        ValueError: `t` has one dimension or none.
    """
    if t.dim() <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
            f"{t.shape} with {t.dim()} dims"
        )


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    """Check that `dim` is a dimension of `t`; negative values count from the last one.

    Raises:
        IndexError: `dim` is out of range.
    """
    if not -t.dim() <= dim < t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")


def _compute_nparams_toprune(amount: float, tensor_size: int) -> int:
    """Return the number of elements to prune: an int `amount` itself, a float's fraction of `tensor_size`."""
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)
