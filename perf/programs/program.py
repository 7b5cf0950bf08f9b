"""Program: a model or a function of a third-party package, its inputs, and its training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"

FORWARD_TOLERANCE = 1e-4
GRADIENT_TOLERANCE = 1e-3
LOSS_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Program:
    """One line of the catalogue. All but the first two are Python, as text: only a worker imports the package.

    The expressions see what `setup` defines, ``torch``, and the drawing functions of `worker.Draws`: ``normal``,
    ``uniform``, ``integers``, ``true``.

    Args:
        name: Unique name of the program.
        package: the distribution that it is a program of, as in `requirements.txt`; "" for one of ours.
        setup: statements that run first, mostly imports.
        model: an `nn.Module`, or any callable.
        inputs: a tuple, the arguments of the call.
        call: the forward pass; may use ``model`` and ``inputs``.
        optimizer: Expression over ``parameters``. For a model without parameters, the inputs are optimized.
        script: a file of `scripts/` to run instead of `setup`; it may define ``model`` and ``inputs`` itself.
        draws: True if the forward pass generates random numbers. NumPy's replace them under both libraries.
        tolerance: Tolerance of the forward pass, if the model amplifies rounding.
    """

    name: str
    package: str
    setup: str = ""
    model: str = "model"
    inputs: str = "inputs"
    call: str = "model(*inputs)"
    optimizer: str = "torch.optim.AdamW(parameters, lr=1e-3)"
    script: str = ""
    draws: bool = False
    tolerance: float = FORWARD_TOLERANCE

    def request(self) -> dict[str, object]:
        """Return the request that describes the program to a worker."""
        setup = (SCRIPTS / self.script).read_text() if self.script else self.setup
        return {
            "name": self.name,
            "setup": setup,
            "model": self.model,
            "inputs": self.inputs,
            "call": self.call,
            "optimizer": self.optimizer,
            "draws": self.draws,
        }
