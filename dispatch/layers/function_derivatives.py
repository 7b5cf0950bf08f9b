"""`tt.autograd.functional`: derivatives of functions by their graphs (torch/autograd/functional.py).

Each calls the function once on new tensors, and runs backward through the recorded graph. `tt.func` has the same
derivatives as transforms of functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.grad_mode import is_grad_enabled
from ...runtime.tensor_impl import TensorImpl
from ...runtime.traceback_filter import api_boundary
from ...runtime.transform_stack import OR_FUNCTIONAL, refuse_inside_transform
from ..autograd.grad_mode import enable_grad, set_grad_enabled
from ..autograd.gradients import grad
from ..generated import functions as ops
from .transforms import jvp as jvp_of
from .vmap import vmap

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Tensors = tuple[Any, ...]
Func = Callable[..., Any]

# Strict-mode messages for a missing derivative, by its kind.
INDEPENDENT = {
    "vjp": "The output of the user-provided function is independent of input {}. This is not allowed in strict mode.",
    "vhp": "The jacobian of the user-provided function is independent of input {}. This is not allowed in strict mode.",
    "jvp": "The gradient with respect to the input is independent of entry {} in the grad_outputs when using the "
    "double backward trick to compute forward mode gradients. This is not allowed in strict mode.",
    "hvp": "The hessian of the user-provided function is independent of entry {} in the grad_jacobian. This is not "
    "allowed in strict mode as it prevents from using the double backward trick to replace forward mode AD.",
}
CONSTANT = {
    "outputs": "Output {} of the user-provided function does not require gradients. The outputs must be computed in a "
    "differentiable manner from the input when running in strict mode.",
    "gradients": "The gradient with respect to input {} is independent of the inputs of the user-provided function. "
    "This is not allowed in strict mode.",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided function with respect to "
    "input {} is independent of the input. This is not allowed in strict mode. You should ensure that your function is "
    "twice differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for "
    "example).",
}


class _Call:
    """Call of a function on new tensors: inputs and outputs, and whether either was a tuple."""

    def __init__(self, name: str, func: Func, inputs: Any, create_graph: bool, strict: bool) -> None:
        self.name, self.func, self.create_graph, self.strict = name, func, create_graph, strict
        self.takes_tuple, tensors = _tensors(inputs, "inputs", name)
        # New tensors, so that captured tensors of `func` are distinct from its arguments.
        self.inputs = tuple(_fresh(t, create_graph, True) for t in tensors)
        self.gives_tuple = False
        self.outputs: Tensors = ()

    def run(self) -> None:
        self.gives_tuple, self.outputs = _tensors(
            self.func(*self.inputs), "outputs of the user-provided function", self.name
        )
        self.check(self.outputs, "outputs")

    def check(self, values: Sequence[Any], kind: str) -> None:
        """Raise RuntimeError in strict mode for a value that depends on no input."""
        if self.strict:
            for number, value in enumerate(values):
                if value is None:
                    raise RuntimeError(INDEPENDENT["vjp"].format(number))
                if not value.requires_grad:
                    raise RuntimeError(CONSTANT[kind].format(number))

    def vector(self, v: Any, like: Tensors, is_tuple: bool, missing: str) -> Tensors | None:
        """Return the given vector, checked against its tensors; None if a single element needs no vector."""
        if v is None:
            if len(like) != 1 or like[0].numel() != 1:
                raise RuntimeError(f"The vector v can only be None if {missing}.")
            return None
        _, vectors = _tensors(v, "v", self.name)
        if len(vectors) != len(like):
            raise RuntimeError(
                f"v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}."
                if is_tuple
                else "The given v should contain a single Tensor."
            )
        for number, (each, other) in enumerate(zip(vectors, like, strict=True)):
            if each.shape != other.shape:
                entry = f"Entry {number} in " if is_tuple else ""
                raise RuntimeError(
                    f"{entry}v has invalid size: should be {other.shape} but got {each.shape}."
                )
        return tuple(_fresh(t, self.create_graph, False) for t in vectors)

    def scalar(self) -> None:
        """Raise RuntimeError unless the function returned one tensor of one element."""
        if self.gives_tuple:
            raise RuntimeError(f"The function given to {self.name} should return a single Tensor")
        if self.outputs[0].numel() != 1:
            raise RuntimeError(
                f"The Tensor returned by the function given to {self.name} should contain a single element"
            )

    def filled(self, grads: Sequence[Any], like: Tensors) -> Tensors:
        """Return zeros for missing values, or raise an error in strict mode."""
        results = []
        for number, (each, other) in enumerate(zip(grads, like, strict=True)):
            if each is None and self.strict:
                raise RuntimeError(INDEPENDENT[self.name].format(number))
            if self.strict and self.create_graph and not each.requires_grad:
                noun = "jacobian" if self.name in ("vjp", "jvp") else "hessian"
                raise RuntimeError(
                    f"The {noun} of the user-provided function is independent of input {number}. This is not allowed "
                    "in strict mode when create_graph=True."
                )
            results.append(ops.zeros_like(other) if each is None else each)
        return tuple(results)

    def last(self, outputs: Tensors, inputs: Tensors, v: Tensors | None) -> Sequence[Any]:
        """Return the final gradients, recorded if the caller may differentiate them."""
        with set_grad_enabled(self.create_graph or is_grad_enabled()):
            return _gradients(outputs, inputs, v, self.create_graph)

    def finish(self, values: Tensors, as_tuple: bool) -> Any:
        """Return the values without history, unless the caller requests it."""
        results = values if self.create_graph else tuple(t.detach() for t in values)
        return results if as_tuple else results[0]


def _tensors(value: Any, noun: str, name: str) -> tuple[bool, Tensors]:
    is_tuple = isinstance(value, tuple)
    values = value if is_tuple else (value,)
    for number, each in enumerate(values):
        if not isinstance(each, TensorImpl):
            which = f"value at index {number}" if is_tuple else f"given {noun}"
            raise TypeError(
                f"The {noun} given to {name} must be either a Tensor or a tuple of Tensors but the {which} has type "
                f"{type(each)}."
            )
    return is_tuple, values


def _fresh(tensor: Tensor, create_graph: bool, requires_grad: bool) -> Tensor:
    if create_graph and tensor.requires_grad:
        return tensor.view_as(tensor)
    return tensor.detach()._set_requires_grad(requires_grad)


def _gradients(
    outputs: Tensors, inputs: Tensors, grads: Tensors | None, create_graph: bool, **options: Any
) -> Sequence[Any]:
    """Return `grad` of the outputs that require it; None for independent ones."""
    root_grads = grads or (None,) * len(outputs)
    pairs = [(o, g) for o, g in zip(outputs, root_grads, strict=True) if o is not None and o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    roots, weights = zip(*pairs, strict=True)
    return grad(roots, inputs, weights, create_graph=create_graph, allow_unused=True, **options)


@api_boundary
def vjp(
    func: Func,
    inputs: Tensor | tuple[Tensor, ...],
    v: Tensor | tuple[Tensor, ...] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return the function's value, and v times its Jacobian (`torch.autograd.functional.vjp`).

    Args:
        func: Function from tensors to a tensor or a tuple of them.
        inputs: A tensor, or a tuple of them.
        v: Vector with the outputs' shapes; None for an output of one element.
        create_graph: If True, the results can be differentiated. Default: False.
        strict: If True, an output that is independent of an input is an error; otherwise its derivatives are zeros.

    Raises:
        TypeError: for other than tensors.
        RuntimeError: for a vector that does not fit, and in strict mode.

    Example:
        >>> import triten as tt
        >>> tt.autograd.functional.vjp(lambda x: x * x, tt.tensor([1.0, 2.0]), tt.tensor([1.0, 10.0]))
        (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        _refuse_inside_transform()
        call = _Call("vjp", func, inputs, create_graph, strict)
        call.run()
        v = call.vector(
            v,
            call.outputs,
            call.gives_tuple,
            "the user-provided function returns a single Tensor with a single element",
        )
    product = call.filled(call.last(call.outputs, call.inputs, v), call.inputs)
    return call.finish(call.outputs, call.gives_tuple), call.finish(product, call.takes_tuple)


_ONE_INPUT = "the input to the user-provided function is a single Tensor with a single element"


@api_boundary
def jvp(
    func: Func,
    inputs: Tensor | tuple[Tensor, ...],
    v: Tensor | tuple[Tensor, ...] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return the function's value, and its Jacobian times v (`torch.autograd.functional.jvp`).

    It runs backward twice; `tt.func.jvp` runs forward. Arguments and errors are `vjp`'s, `v` has the inputs' shapes.

    Example:
        >>> import triten as tt
        >>> tt.autograd.functional.jvp(lambda x: x * x, tt.tensor([1.0, 2.0]), tt.tensor([1.0, 10.0]))
        (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    with enable_grad():
        _refuse_inside_transform()
        call = _Call("jvp", func, inputs, create_graph, strict)
        v = call.vector(v, call.inputs, call.takes_tuple, _ONE_INPUT)
        call.run()
        # The gradients are linear in these, so their values do not matter.
        weights = tuple(ops.zeros_like(out)._set_requires_grad() for out in call.outputs)
        gradients = tuple(_gradients(call.outputs, call.inputs, weights, True))
        call.check(gradients, "gradients")
    product = call.filled(call.last(gradients, weights, v), call.outputs)
    return call.finish(call.outputs, call.gives_tuple), call.finish(product, call.gives_tuple)


@api_boundary
def vhp(
    func: Func,
    inputs: Tensor | tuple[Tensor, ...],
    v: Tensor | tuple[Tensor, ...] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return the function's value, and v times its Hessian (`torch.autograd.functional.vhp`).

    `func` gives one element. Arguments and errors are `vjp`'s, `v` has the inputs' shapes.

    Example:
        >>> import triten as tt
        >>> tt.autograd.functional.vhp(lambda x: (x**3).sum(), tt.tensor([1.0, 2.0]), tt.tensor([1.0, 10.0]))
        (tensor(9.), tensor([  6., 120.]))
    """
    call, v, gradients = _first_of_two("vhp", func, inputs, v, create_graph, strict)
    product = call.filled(call.last(gradients, call.inputs, v), call.inputs)
    return call.finish(call.outputs, call.gives_tuple), call.finish(product, call.takes_tuple)


@api_boundary
def hvp(
    func: Func,
    inputs: Tensor | tuple[Tensor, ...],
    v: Tensor | tuple[Tensor, ...] | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Return the function's value, and its Hessian times v (`torch.autograd.functional.hvp`).

    `func` returns one element. It runs backward three times. If the Hessian is symmetric, `vhp` gives the same result
    and runs backward twice. Arguments and errors are `vjp`'s, `v` has the inputs' shapes.

    Example:
        >>> import triten as tt
        >>> tt.autograd.functional.hvp(lambda x: (x**3).sum(), tt.tensor([1.0, 2.0]), tt.tensor([1.0, 10.0]))
        (tensor(9.), tensor([  6., 120.]))
    """
    call, v, gradients = _first_of_two("hvp", func, inputs, v, create_graph, strict)
    with enable_grad():
        weights = tuple(ops.zeros_like(t)._set_requires_grad() for t in call.inputs)
        twice = tuple(_gradients(gradients, call.inputs, weights, True))
    product = call.filled(call.last(twice, weights, v), call.inputs)
    return call.finish(call.outputs, call.gives_tuple), call.finish(product, call.takes_tuple)


def _first_of_two(
    name: str,
    func: Func,
    inputs: Tensor | tuple[Tensor, ...],
    v: Tensor | tuple[Tensor, ...] | None,
    create_graph: bool,
    strict: bool,
) -> tuple[_Call, Tensors | None, Tensors]:
    with enable_grad():
        _refuse_inside_transform()
        call = _Call(name, func, inputs, create_graph, strict)
        vector = call.vector(v, call.inputs, call.takes_tuple, _ONE_INPUT)
        call.run()
        call.scalar()
        gradients = tuple(_gradients(call.outputs, call.inputs, None, True))
        call.check(gradients, "jacobian")
    return call, vector, gradients


def _refuse_inside_transform() -> None:
    refuse_inside_transform("requires_grad_", OR_FUNCTIONAL)


def _check_strategy(strategy: str) -> None:
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')


@api_boundary
def jacobian(
    func: Func,
    inputs: Tensor | tuple[Tensor, ...],
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """Compute the Jacobian of a function (`torch.autograd.functional.jacobian`).

    Args:
        func: A function from tensors to a tensor or a tuple of them.
        inputs: A tensor, or a tuple of tensors.
        create_graph: If True, the result can be differentiated. Default: False.
        strict: If True, an output that is independent of an input is an error. Default: False.
        vectorize: If True, compute all rows, or columns, at once by `tt.vmap`. Default: False.
        strategy: ``"reverse-mode"`` computes rows, ``"forward-mode"`` columns, with `vectorize` alone.

    Returns:
        A tensor for each output and input, with the output's shape followed by the input's. It is nested like their
        tuples.

    Raises:
        TypeError: for values other than tensors.
        RuntimeError: in strict mode, and for strict with `vectorize`.
        NotImplementedError: for combinations that forward mode does not support.
        RuntimeError: in reverse mode, inside a function that `tt.func.grad` or a similar transform differentiates.

    Example:
        >>> import triten as tt
        >>> tt.autograd.functional.jacobian(lambda x: x * x, tt.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    _check_strategy(strategy)
    if strategy == "forward-mode":
        return _by_columns(func, inputs, create_graph, strict, vectorize)
    _refuse_inside_transform()
    return _by_rows(func, inputs, create_graph, strict, vectorize)


def _by_rows(func: Func, inputs: Any, create_graph: bool, strict: bool, vectorize: bool) -> Any:
    with enable_grad():
        call = _Call("jacobian", func, inputs, create_graph, strict)
        call.run()
        if vectorize and strict:
            raise RuntimeError(
                "jacobian: `strict=True` and `vectorized=True` are not supported together. Please either set "
                "`strict=False` or `vectorize=False`."
            )
        rows_of = _rows_at_once if vectorize else _rows
        jacobians = tuple(
            tuple(
                rows.reshape((*output.shape, *source.shape))
                for rows, source in zip(rows_of(call, number), call.inputs, strict=True)
            )
            for number, output in enumerate(call.outputs)
        )
    nested = tuple(call.finish(each, call.takes_tuple) for each in jacobians)
    return nested if call.gives_tuple else nested[0]


def _rows(call: _Call, number: int) -> list[Any]:
    """Return the derivatives of each element of an output with respect to every input, one after the other."""
    flat = call.outputs[number].reshape(-1)
    rows: list[list[Any]] = [[] for _ in call.inputs]
    for i in range(flat.numel()):
        grads = _gradients((flat[i],), call.inputs, None, call.create_graph, retain_graph=True)
        for index, (each, source) in enumerate(zip(grads, call.inputs, strict=True)):
            if call.strict and each is None:
                raise RuntimeError(
                    f"Output {number} of the user-provided function is independent of input {index}. This is not "
                    "allowed in strict mode."
                )
            if call.strict and call.create_graph and not each.requires_grad:
                raise RuntimeError(
                    f"The jacobian of the user-provided function is independent of input {number}. This is not allowed "
                    "in strict mode when create_graph=True."
                )
            rows[index].append(ops.zeros_like(source) if each is None else each)
    return [
        ops.stack(each) if each else source.new_zeros((0, *source.shape))
        for each, source in zip(rows, call.inputs, strict=True)
    ]


def _rows_at_once(call: _Call, number: int) -> list[Any]:
    output = call.outputs[number]
    count = output.numel()
    (basis,) = _construct_standard_basis_for((output,), (count,))
    grads = _gradients(
        (output.reshape(-1),),
        call.inputs,
        (basis,),
        call.create_graph,
        retain_graph=True,
        is_grads_batched=True,
    )
    return [
        source.new_zeros((count, *source.shape)) if each is None else each
        for each, source in zip(grads, call.inputs, strict=True)
    ]


def _construct_standard_basis_for(tensors: Tensors, tensor_numels: Sequence[int]) -> Tensors:
    """Return an identity matrix in parts: the columns for each tensor, of its class, dtype and device.

    Args:
        tensors: The tensors, at least one.
        tensor_numels: The number of elements of each.

    Raises:
        AssertionError: There is no tensor, or not one number for each.
    """
    if len(tensors) != len(tensor_numels):
        raise AssertionError(
            "Expected tensors and tensor_numels to have the same length, but got "
            f"{len(tensors)} and {len(tensor_numels)}"
        )
    if not tensors:
        raise AssertionError("Expected at least one tensor")
    total = sum(tensor_numels)
    parts = tuple(
        tensor.new_zeros((total, count)) for tensor, count in zip(tensors, tensor_numels, strict=True)
    )
    start = 0
    for part, count in zip(parts, tensor_numels, strict=True):
        part.diagonal(-start).fill_(1)
        start += count
    return parts


def _by_columns(func: Func, inputs: Any, create_graph: bool, strict: bool, vectorize: bool) -> Any:
    name = 'jacobian: `{}` and `strategy="forward-mode"` are not supported together (yet). Please either set `{}` or '
    if create_graph:
        raise NotImplementedError(
            name.format("create_graph=True", "create_graph=False") + '`strategy="reverse-mode"`.'
        )
    if strict:
        raise RuntimeError(name.format("strict=True", "strict=False") + '`strategy="reverse-mode"`.')
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
            "`vectorize=True`."
        )
    takes_tuple, tensors = _tensors(inputs, "inputs", "jacobian")
    gives_tuple = False

    def checked(*values: Tensor) -> Tensors:
        nonlocal gives_tuple
        gives_tuple, outputs = _tensors(func(*values), "outputs of the user-provided function", "jacobian")
        return outputs

    counts = [each.numel() for each in tensors]
    bases = [
        basis.reshape(-1, *each.shape)
        for basis, each in zip(_construct_standard_basis_for(tensors, counts), tensors, strict=True)
    ]
    columns = vmap(lambda *tangents: jvp_of(checked, tensors, tangents)[1])(*bases)
    nested = []
    for each in columns:
        parts = tuple(
            part.movedim(0, -1).reshape((*each.shape[1:], *source.shape))
            for part, source in zip(each.split(counts), tensors, strict=True)
        )
        nested.append(parts if takes_tuple else parts[0])
    return tuple(nested) if gives_tuple else nested[0]


@api_boundary
def hessian(
    func: Func,
    inputs: Tensor | tuple[Tensor, ...],
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Compute the Hessian of a function that returns one element (`torch.autograd.functional.hessian`).

    Arguments and errors are `jacobian`'s; `outer_jacobian_strategy` selects how the gradient is differentiated.

    Example:
        >>> import triten as tt
        >>> tt.autograd.functional.hessian(lambda x: (x**3).sum(), tt.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    _refuse_inside_transform()
    takes_tuple, tensors = _tensors(inputs, "inputs", "hessian")
    _check_strategy(outer_jacobian_strategy)

    def one_element(*values: Tensor) -> Any:
        gives_tuple, outputs = _tensors(func(*values), "outputs of the user-provided function", "hessian")
        if strict and not all(out.requires_grad for out in outputs):
            raise RuntimeError(CONSTANT["outputs"].format(0))
        if gives_tuple:
            raise RuntimeError("The function given to hessian should return a single Tensor")
        if outputs[0].numel() != 1:
            raise RuntimeError(
                "The Tensor returned by the function given to hessian should contain a single element"
            )
        return outputs[0].squeeze()

    def gradients(*values: Tensor) -> Tensors:
        if outer_jacobian_strategy == "forward-mode":
            values = tuple(value._set_requires_grad() for value in values)
        rows: Tensors = _by_rows(one_element, values, True, False, False)
        for number, each in enumerate(rows):
            if strict and not each.requires_grad:
                raise RuntimeError(CONSTANT["jacobian"].format(number))
        return rows

    result = jacobian(gradients, tensors, create_graph, strict, vectorize, outer_jacobian_strategy)
    return result if takes_tuple else result[0][0]
