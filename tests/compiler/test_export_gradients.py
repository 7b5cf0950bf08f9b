"""Exported programs are trainable: gradients agree with the module's, or do not exist."""

import io
from typing import Any

import pytest

import triten as tt
from triten import nn
from triten.tests.compiler.beside_eager import drawn
from triten.tests.compiler.exported_models import CASES, made

TRAINED = [
    "perceptron",
    "convolutions",
    "convolutions in training",
    "transformer",
    "containers",
    "tied",
    "dropout",
]


def leaves_of(value: Any) -> list[tt.Tensor]:
    return [x for x in tt.utils._pytree.tree_leaves(value) if isinstance(x, tt.Tensor)]


def saved_and_loaded(program: tt.export.ExportedProgram) -> tt.export.ExportedProgram:
    file = io.BytesIO()
    tt.export.save(program, file)
    file.seek(0)
    return tt.export.load(file)


def requiring_grad(args: Any) -> Any:
    return tt.utils._pytree.tree_map_only(
        tt.Tensor, lambda x: x.requires_grad_() if x.is_floating_point() else x, args
    )


@pytest.mark.parametrize("wants_arguments", [False, True])
@pytest.mark.parametrize("name", TRAINED)
def test_a_program_is_trained_as_its_module(name: str, wants_arguments: bool, device: str) -> None:
    module = made(name, device)
    program = tt.export.export(module, *CASES[name].arguments(device))
    trained = [module, *[each.module() for each in (program, saved_and_loaded(program))]]
    if device == "cuda":
        trained = trained[:2]
    trained[1] = tt.export.export(made(name, device), *CASES[name].arguments(device)).module()
    found: list[list[tt.Tensor]] = []
    for each in trained:
        optimizer = tt.optim.SGD(each.parameters(), 0.05)
        for step in range(2):
            tt.manual_seed(step)
            args, kwargs = CASES[name].arguments(device)
            if wants_arguments:
                args, kwargs = requiring_grad((args, kwargs))
            optimizer.zero_grad()
            results = [x for x in leaves_of(each(*args, **kwargs)) if x.requires_grad]
            sum(((x * x).sum() for x in results), tt.zeros((), device=device)).backward()
            optimizer.step()
        given = [x for x in leaves_of((args, kwargs)) if x.is_floating_point()] if wants_arguments else []
        state = [x for _, x in sorted(each.state_dict().items())]
        found.append([*results, *[x.grad for x in given if x.grad is not None], *state])
    for other in found[1:]:
        assert len(other) == len(found[0])
        for mine, theirs in zip(other, found[0], strict=True):
            assert tt.allclose(mine, theirs, rtol=1e-4, atol=1e-5), (mine, theirs)


def test_a_call_without_anything_that_requires_grad_has_none() -> None:
    module = made("perceptron", "cpu")
    compiled = tt.export.export(module, (drawn(4, 6),)).module()
    with tt.no_grad():
        assert not compiled(drawn(4, 6)).requires_grad
    compiled.requires_grad_(False)
    assert not compiled(drawn(4, 6)).requires_grad
    assert compiled(drawn(4, 6, grad=True)).requires_grad


def test_gradients_at_every_size() -> None:
    module = made("perceptron", "cpu")
    shapes = {"input": {0: tt.export.Dim("batch")}}
    compiled = tt.export.export(module, (drawn(4, 6),), dynamic_shapes=shapes).module()
    for size in (3, 9):
        found = tt.autograd.grad(compiled(drawn(size, 6)).square().sum(), list(compiled.parameters()))
        expected = tt.autograd.grad(module(drawn(size, 6)).square().sum(), list(module.parameters()))
        for mine, theirs in zip(found, expected, strict=True):
            assert tt.allclose(mine, theirs, rtol=1e-4, atol=1e-6)


def test_parts_of_a_tensor_may_be_joined_again() -> None:
    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 6)

        def forward(self, x: tt.Tensor) -> tt.Tensor:
            a, b, c = self.linear(x).chunk(3, -1)
            d, e = c.unbind(-1)
            return a * b + d[:, None] * e[:, None]

    module = Parts()
    compiled = tt.export.export(module, (drawn(3, 4),)).module()
    found = tt.autograd.grad(compiled(drawn(3, 4)).square().sum(), list(compiled.parameters()))
    expected = tt.autograd.grad(module(drawn(3, 4)).square().sum(), list(module.parameters()))
    for mine, theirs in zip(found, expected, strict=True):
        assert tt.allclose(mine, theirs, rtol=1e-4, atol=1e-6)


class Rounded(tt.autograd.Function):
    """Rounding with the identity's gradient."""

    @staticmethod
    def forward(ctx: Any, x: tt.Tensor) -> tt.Tensor:
        return x.round()

    @staticmethod
    def backward(ctx: Any, grad: tt.Tensor) -> tt.Tensor:
        return grad


def without_gradients(x: tt.Tensor) -> tt.Tensor:
    with tt.no_grad():
        return x * 2


OTHERWISE: dict[str, Any] = {
    "no_grad": without_gradients,
    "detach": lambda x: x.detach() * 2,
    "a part that is detached": lambda x: x * x.detach(),
    "a function of its own": lambda x: Rounded.apply(x) * 2,
}


@pytest.mark.parametrize("what", OTHERWISE)
def test_a_derivative_that_is_not_the_operators_is_not_made_up(what: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: tt.Tensor) -> tt.Tensor:
            return self.second(OTHERWISE[what](self.first(x)))

    program = tt.export.export(Net(), (drawn(2, 3),))
    for compiled in (program.module(), saved_and_loaded(program).module()):
        assert not compiled(drawn(2, 3)).requires_grad
        with pytest.raises(RuntimeError, match="argument x requires grad: this exported program computes no"):
            compiled(drawn(2, 3, grad=True))
