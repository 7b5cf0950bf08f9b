"""First uses of parts of the package, each of which imports, registers and compiles what the part needs.

``python -P -m triten.tests.shared.first_uses MOMENTS [USE ...]`` interrupts them at so many moments each. It forks a
process that has imported nothing but the package, and prints each difference of a use that is made again.
"""

import sys
from collections.abc import Callable
from typing import Any

import triten as tt

from .interrupts import Moments, in_child, is_of_package


def bits(value: Any) -> Any:
    """Return a result as what can be compared and sent to another process."""
    if isinstance(value, tt.Tensor):
        host = value.detach().cpu().contiguous()
        return str(host.dtype), tuple(host.shape), host.numpy().tobytes()
    if isinstance(value, list | tuple):
        return [bits(each) for each in value]
    return value


def _gradient() -> Any:
    w = tt.arange(3.0).requires_grad_()
    (w.exp() * w).sum().backward()
    return w.grad


def _trained() -> Any:
    w = tt.nn.Parameter(tt.ones(2))
    optimizer = tt.optim.Adam([w])
    w.sum().backward()
    optimizer.step()
    return w


def _autocast() -> Any:
    with tt.autocast("cpu", dtype=tt.bfloat16):
        return tt.ones(2, 2) @ tt.ones(2, 2)


def _derivatives() -> Any:
    x = tt.arange(3.0)
    return tt.func.vmap(tt.sin)(x), tt.func.jvp(tt.sin, (x,), (x,)), tt.func.functionalize(tt.square)(x)


def _linalg() -> Any:
    a = tt.tensor([[2.0, 1.0], [1.0, 3.0]])
    return tt.linalg.inv(a), tt.linalg.ldl_factor(a)[0]


def _sparse() -> Any:
    eye = tt.eye(3)
    return eye.to_sparse() @ eye, (eye.to_sparse_csr() @ eye)


USES: dict[str, Callable[[], Any]] = {
    "linalg": _linalg,
    "special": lambda: (tt.special.i1e(tt.arange(3.0)), tt.lgamma(tt.arange(1.0, 4.0))),
    "fft": lambda: tt.fft.fft(tt.arange(6.0)).abs(),
    "sparse": _sparse,
    "rows": lambda: (tt.arange(6.0).view(2, 3).softmax(1), tt.sort(tt.tensor([2, 1]))[0]),
    "conv": lambda: tt.nn.functional.conv2d(tt.ones(1, 1, 4, 4), tt.ones(1, 1, 2, 2)),
    "print": lambda: repr(tt.arange(3.0) * 1.5),
    "gradient": _gradient,
    "trained": _trained,
    "autocast": _autocast,
    "derivatives": _derivatives,
    "random": lambda: tt.randn(3, generator=tt.Generator().manual_seed(1)),
    "distributions": lambda: tt.distributions.Normal(0.0, 1.0).log_prob(tt.ones(2)),
    "compiled": lambda: tt.compile(lambda x: (x.sin() * 2 + x).sum(-1))(tt.arange(6.0).view(2, 3)),
    "native": lambda: tt.compile(lambda x: (x.sin() * 2 + x).sum(-1))(tt.arange(60000.0).view(-1, 30)),
    "exported": lambda: tt.export.export(tt.nn.ReLU(), (tt.ones(2),)).module()(tt.ones(2)),
    "lazy": lambda: (tt.signal.windows.hann(4), tt.types.Number is not None, tt.fx.Graph is not None),
}
"""By name: what uses a part, and gives the same in every process."""

ON_CUDA: dict[str, Callable[[], Any]] = {
    "cuda": lambda: (
        tt.ones(3, device="cuda") + 1,
        tt.ones(16, 16, device="cuda") @ tt.eye(16, device="cuda"),
    ),
}
"""Those of the devices that Triton's interpreter stands in for."""


def interrupt(use: Callable[[], Any], at: int, own: bool = True) -> tuple[str, Any]:
    """Return where a use was interrupted, and what it gives when it is made again."""
    moments = Moments(at, is_of_package if own else lambda code: True)
    moments.interrupts(use)
    try:
        return moments.where, bits(use())
    except BaseException as error:
        raise RuntimeError(
            f"after an interrupt at {moments.where}: {type(error).__name__}: {error}"
        ) from error


def moments_of(use: Callable[[], Any], own: bool = True) -> int:
    """Return how many moments a use has in a process that made none before."""

    def count() -> int:
        moments = Moments(0, is_of_package if own else lambda code: True)
        moments.interrupts(use)
        return moments.count

    kind, found = in_child(count, 300)
    assert kind == "value", (kind, found)
    return int(found)


def main(samples: int, names: list[str]) -> None:
    """Interrupt the named uses, or all of them."""
    for number, name in enumerate(names or USES):
        use = USES[name]
        expected = in_child(lambda use=use: bits(use()))
        count = moments_of(use)
        step = max(1, count // samples)
        for at in range(1 + (number * 7919) % step, count + 1, step):
            kind, found = in_child(lambda use=use, at=at: interrupt(use, at))
            if kind != "value":
                print(f"{name}, moment {at}: {kind} {found}")
            elif found[1] != expected[1]:
                print(f"{name}, moment {at}: after an interrupt at {found[0]} another result")
    print("done")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
