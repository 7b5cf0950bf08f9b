"""Variables of a program under construction, and random choices among them."""

import random
import warnings
from collections.abc import Callable
from typing import Any

import triten as tt

MAX_ELEMENTS = 2048
TAME = 1e3

FLOATS = (tt.float32, tt.float64, tt.float16, tt.bfloat16)
INTEGERS = (tt.int64, tt.int32, tt.uint8)

Predicate = Callable[[tt.Tensor], bool]


class NoOperandError(Exception):
    """No variable fits the statement: another kind is drawn."""


def any_tensor(_: tt.Tensor) -> bool:
    return True


def real_float(tensor: tt.Tensor) -> bool:
    return tensor.is_floating_point()


def inexact(tensor: tt.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def real(tensor: tt.Tensor) -> bool:
    return not tensor.is_complex()


def number(tensor: tt.Tensor) -> bool:
    return tensor.dtype is not tt.bool


def real_number(tensor: tt.Tensor) -> bool:
    return number(tensor) and real(tensor)


def integral(tensor: tt.Tensor) -> bool:
    return tensor.dtype in (*INTEGERS, tt.bool)


def truth(tensor: tt.Tensor) -> bool:
    return tensor.dtype is tt.bool


def matrix(tensor: tt.Tensor) -> bool:
    return tensor.dim() == 2 and tensor.dtype is not tt.bool


def has_dims(least: int, kind: Predicate = any_tensor) -> Predicate:
    """Return a predicate: at least `least` dimensions, none of them empty."""
    return lambda tensor: tensor.dim() >= least and tensor.numel() > 0 and kind(tensor)


def broadcasts(shape: Any, onto: Any) -> bool:
    """Return True if the two shapes broadcast."""
    return all(a == b or a == 1 or b == 1 for a, b in zip(reversed(shape), reversed(onto), strict=False))


def fits_into(shape: Any, onto: Any) -> bool:
    """Return True if a shape expands to another."""
    return len(shape) <= len(onto) and all(
        a in (b, 1) for a, b in zip(reversed(shape), reversed(onto), strict=False)
    )


class Scope:
    """Variables by name, as they are after the statements so far.

    Args:
        rng: what draws.
        most_elements: larger results are undone.
    """

    def __init__(self, rng: random.Random, most_elements: int = MAX_ELEMENTS) -> None:
        self.rng = rng
        self.most_elements = most_elements
        self.names: dict[str, Any] = {"tt": tt}
        self.count = 0

    def tensors(self) -> dict[str, tt.Tensor]:
        """Return the variables that are tensors."""
        return {name: value for name, value in self.names.items() if isinstance(value, tt.Tensor)}

    def __getitem__(self, name: str) -> tt.Tensor:
        tensor: tt.Tensor = self.names[name]
        return tensor

    def new(self) -> str:
        """Return an unused name."""
        self.count += 1
        return f"v{self.count - 1}"

    def pick(self, fits: Predicate = any_tensor, *, tame: bool = True) -> str:
        """Choose a variable that fits; later ones are more likely.

        Raises:
            NoOperandError: there is none.
        """
        fitting = [name for name, value in self.tensors().items() if _holds(fits, value)]
        while fitting:
            share = max(self.rng.random(), self.rng.random())
            name = fitting.pop(int(share * len(fitting)))
            if not tame or is_tame(self[name]):
                return name
        raise NoOperandError

    def partner(self, name: str, fits: Predicate = any_tensor) -> str:
        """Choose a variable that broadcasts with another; rarely any variable."""
        if self.rng.random() < 0.03:
            return self.pick(fits)
        shape = self[name].shape
        return self.pick(lambda each: fits(each) and broadcasts(each.shape, shape))

    def choice(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def dim(self, tensor: tt.Tensor) -> int:
        """Choose a dimension, counted from either end; rarely one that is out of range."""
        rank = tensor.dim()
        if self.rng.random() < 0.01:
            return rank + 1
        return self.rng.randrange(-rank, rank) if rank else self.rng.choice((0, -1))

    def scalar(self) -> str:
        """Choose a number, as Python source."""
        return str(self.choice("2", "3", "-1", "0.5", "1.5", "-0.25", "2.0", "0", "1", "True", "1e-3"))

    def execute(self, text: str) -> Exception | None:
        """Run a statement on the variables. Returns its exception; one of more elements than wanted is undone."""
        before = dict(self.names)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                exec(text, self.names)
            except Exception as error:
                return error
        if any(each.numel() > self.most_elements or each.dim() > 6 for each in self.tensors().values()):
            self.names = before
            return NoOperandError()
        return None


def _holds(fits: Predicate, tensor: tt.Tensor) -> bool:
    try:
        return fits(tensor)
    except RuntimeError:  # a view whose history is forbidden
        return False


def is_tame(tensor: tt.Tensor) -> bool:
    """Return True if all numbers are finite and not large."""
    plain = tensor.detach()
    if not plain.numel() or plain.dtype in (tt.bool, tt.uint8):
        return True
    return bool((plain.abs() <= TAME).all())
