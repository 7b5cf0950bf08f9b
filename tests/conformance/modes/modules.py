"""Each entry of PyTorch's ModuleInfo database behaves as PyTorch's module, with the parameters copied over by
name.

The checks, in training and in evaluation mode, are: results; gradients of inputs and parameters; buffers
after the call; the names and the order of `state_dict`; `repr`; pickling; conversion to other dtypes; strided
and channels-last operands; refusals.
"""

import pickle
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.testing._internal.common_modules import ModuleErrorEnum, ModuleInfo, ModuleInput, module_db

import triten as tt

from ..conversion import Conversion, OutsideError, copied
from ..operators import MissingError
from ..outcome import Difference, compare_outcomes, compare_values, outcome, refusal_differs
from .mode import Check, Mode, Settings, tensors_of

Prepared = Callable[[torch.Tensor], torch.Tensor]


def chosen(pattern: str, dtype: torch.dtype | None) -> Iterator[ModuleInfo]:
    """Yield the database's modules whose names match `pattern` and which take `dtype`."""
    for info in module_db:
        if re.search(pattern, info.name) and (dtype is None or dtype in info.supported_dtypes("cpu")):
            yield info


def cases(info: ModuleInfo, settings: Settings) -> Iterator[tuple[str, Check]]:
    ours = getattr(tt.nn, info.name.removeprefix("nn."), None)
    if ours is None:
        raise MissingError(info.name)
    for training in (True, False) if info.train_and_eval_differ else (True,):
        torch.manual_seed(0)
        asked = {"device": "cpu", "dtype": settings.dtype, "requires_grad": True, "training": training}
        for sample in settings.some(info.module_inputs_func(info, **asked)):
            pair = partial(Pair, info, ours, settings, sample, training)
            yield "modules values", lambda pair=pair: pair().run()
            yield "modules names", lambda pair=pair: pair().names()
            yield "modules pickle", lambda pair=pair: pair().pickled()
            yield "modules conversion", lambda pair=pair: pair().converted()
            yield "modules stepped", lambda pair=pair: pair(stepped).run()
            yield "modules channels-last", lambda pair=pair: pair(channels_last).in_channels_last()
        for refused in info.module_error_inputs_func(info, **asked) if info.module_error_inputs_func else ():
            yield "modules refusal", partial(_refusal, info, ours, settings, refused, training)


def same(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def stepped(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same values as a view with step 2 along the last dimension."""
    if tensor.dim() == 0:
        return tensor
    wide = tensor.detach().repeat_interleave(2, -1)[..., ::2]
    return wide.requires_grad_() if tensor.requires_grad else wide


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    kept = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
    if kept is None:
        return tensor
    return tensor.detach().contiguous(memory_format=kept).requires_grad_(tensor.requires_grad)


class Pair:
    """One module of both, with the same parameters, and the operands of a call."""

    def __init__(
        self,
        info: ModuleInfo,
        ours: Any,
        settings: Settings,
        sample: ModuleInput,
        training: bool,
        prepared: Prepared = same,
    ) -> None:
        self.info, self.settings = info, settings
        built = sample.constructor_input
        torch.manual_seed(0)
        self.theirs = info.module_cls(*built.args, **built.kwargs).to(settings.dtype).train(training)
        self.dtype = getattr(tt, str(settings.dtype).removeprefix("torch."))
        arguments = settings.conversion()
        self.ours = ours(
            *[_argument(arguments, value) for value in built.args],
            **{name: _argument(arguments, value) for name, value in built.kwargs.items()},
        )
        self.ours = self.ours.to(device=settings.device, dtype=self.dtype).train(training)
        given = sample.forward_input
        if given is None:
            raise OutsideError("the database calls it in no way")
        self.given = _prepared((list(given.args), dict(given.kwargs)), prepared)

    def called(self) -> tuple[Any, Any]:
        """Call both modules and return the outcomes; `leaves` keeps the leaves of both."""
        positional, named = copied(self.given)
        convert = self.settings.conversion(gradients=True)
        mine, mine_named = convert(positional), convert(named)
        self.leaves = convert.leaves
        torch.manual_seed(1)
        theirs = outcome(lambda: self.theirs(*positional, **named))
        given = outcome(lambda: self.ours(*mine, **mine_named))
        return theirs, given

    def load(self) -> None:
        """Load the state of PyTorch's module, by name, into triten's."""
        if self.info.is_lazy:
            compare_outcomes(*self.called(), free=True)
        convert = self.settings.conversion()
        self.ours.load_state_dict({name: convert(value) for name, value in self.theirs.state_dict().items()})

    def run(self) -> None:
        """Compare results, buffers and gradients."""
        self.load()
        free = self._is_random()
        self.load()
        theirs, given = self.called()
        compare_outcomes(theirs, given, free=free)
        if theirs.raised is not None:
            return
        buffers = [list(dict(module.named_buffers()).values()) for module in (self.theirs, self.ours)]
        compare_values(*buffers, free=free, what="buffer")
        wanted = [leaf for leaf in tensors_of(theirs.value) if leaf.requires_grad and leaf.numel()]
        mine = [leaf for leaf in tensors_of(given.value, tt.Tensor) if leaf.requires_grad and leaf.numel()]
        if len(wanted) != len(mine):
            raise Difference(f"{len(wanted)} results that require grad expected, {len(mine)} given")
        if not wanted:
            return
        weights = [torch.rand_like(leaf) for leaf in wanted]
        convert = self.settings.conversion()
        mine_weights = [convert(weight) for weight in weights]
        backward = outcome(lambda: torch.autograd.backward(wanted, weights))
        if backward.raised is not None:
            return
        tt.autograd.backward(mine, mine_weights)
        pairs = [*self.leaves, *zip(self.theirs.parameters(), self.ours.parameters(), strict=True)]
        for number, (want, got) in enumerate(pairs):
            if (want.grad is None) != (got.grad is None):
                raise Difference(f"gradient {number}: {'none' if want.grad is None else 'one'} expected")
            if want.grad is not None:
                compare_values(want.grad, got.grad, free=free, what=f"gradient {number}")

    def names(self) -> None:
        """Compare the state's names, order, shapes and dtypes; `repr`; children; trainable parameters."""
        if self.info.is_lazy:
            if repr(self.theirs) != repr(self.ours):
                raise Difference(f"{self.theirs!r} expected, {self.ours!r} given")
            compare_outcomes(*self.called(), free=True)
        theirs, given = self.theirs.state_dict(), self.ours.state_dict()
        if list(theirs) != list(given):
            raise Difference(f"state {list(theirs)} expected, {list(given)} given")
        compare_values(list(theirs.values()), list(given.values()), free=True, what="state")
        for of in ("named_parameters", "named_buffers", "named_modules"):
            expected, ours = (
                [name for name, _ in getattr(module, of)()] for module in (self.theirs, self.ours)
            )
            if expected != ours:
                raise Difference(f"{of} {expected} expected, {ours} given")
        trains = [[p.requires_grad for p in module.parameters()] for module in (self.theirs, self.ours)]
        if trains[0] != trains[1]:
            raise Difference("other parameters require grad")
        if repr(self.theirs) != _in_their_words(repr(self.ours)):
            raise Difference(f"{self.theirs!r} expected, {self.ours!r} given")

    def pickled(self) -> None:
        """Check that a pickled and unpickled module computes as before."""
        self.load()
        again = pickle.loads(pickle.dumps(self.ours))
        if repr(again) != repr(self.ours) or list(again.state_dict()) != list(self.ours.state_dict()):
            raise Difference(f"{self.ours!r} expected, {again!r} given")
        free = self._is_random()
        self.load()
        self.ours = again
        compare_outcomes(*self.called(), free=free)

    def converted(self) -> None:
        """Check the dtypes after `to`, `half` and `double`, including those of non-float buffers."""
        if self.info.is_lazy:
            compare_outcomes(*self.called(), free=True)
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            self.theirs.to(dtype)
            self.ours.to(getattr(tt, str(dtype).removeprefix("torch.")))
            theirs, given = self.theirs.state_dict(), self.ours.state_dict()
            compare_values(list(theirs.values()), list(given.values()), free=True, what=f"{dtype} state")

    def in_channels_last(self) -> None:
        """Compare results and strides with channels-last modules and operands."""
        dims = {tensor.dim() for tensor in tensors_of(self.given)}
        if not dims & {4, 5} or self.info.is_lazy:
            raise OutsideError("no operand of four or five dimensions")
        parameters = {parameter.dim() for parameter in self.theirs.parameters()}
        if 4 in dims and 5 in dims | parameters:
            raise OutsideError("no memory format is of both")
        name = "channels_last" if 4 in dims else "channels_last_3d"
        self.theirs.to(memory_format=getattr(torch, name))
        self.ours.to(memory_format=getattr(tt, name))
        self.run()
        self.load()
        theirs, given = self.called()
        for want, got in zip(tensors_of(theirs.value), tensors_of(given.value, tt.Tensor), strict=True):
            if want.stride() != tuple(got.stride()):
                raise Difference(f"strides {want.stride()} expected, {tuple(got.stride())} given")

    def _is_random(self) -> bool:
        """Return True if PyTorch's module gives another result for another seed."""
        results = []
        for seed in (1, 2, 3):
            positional, named = copied(self.given)
            torch.manual_seed(seed)
            results.append(outcome(lambda p=positional, n=named: self.theirs(*p, **n)))
        changes = any(buffer.is_floating_point() for buffer in self.theirs.buffers())
        if results[0].raised is not None or (changes and self.theirs.training):
            return False
        first, *others = (tensors_of(result.value) for result in results)
        return not all(
            torch.equal(a.nan_to_num(), b.nan_to_num())
            for other in others
            for a, b in zip(first, other, strict=True)
        )


def _in_their_words(text: str) -> str:
    """Replace triten's module names by PyTorch's in a `repr`."""
    return text.replace("triten.", "torch.")


def _prepared(value: Any, prepare: Prepared) -> Any:
    if isinstance(value, torch.Tensor):
        return prepare(value)
    if isinstance(value, list | tuple):
        return type(value)(_prepared(item, prepare) for item in value)
    if isinstance(value, dict):
        return {name: _prepared(item, prepare) for name, item in value.items()}
    return value


def _argument(convert: Conversion, value: Any) -> Any:
    """Convert a constructor's argument: functions by name, and the layer that encoders take."""
    if isinstance(value, torch.nn.TransformerEncoderLayer):
        layer = tt.nn.TransformerEncoderLayer(
            value.linear1.in_features,
            value.self_attn.num_heads,
            value.linear1.out_features,
            value.dropout.p,
            getattr(tt.nn.functional, value.activation.__name__),
            value.norm1.eps,
            value.self_attn.batch_first,
            value.norm_first,
            value.linear1.bias is not None,
        )
        return layer.to(convert(value.linear1.weight.dtype))
    if callable(value) and not isinstance(value, type):
        return getattr(tt.nn.functional, value.__name__)
    return convert(value)


def _refusal(info: ModuleInfo, ours: Any, settings: Settings, refused: Any, training: bool) -> None:
    sample = refused.module_error_input
    built = sample.constructor_input
    if refused.error_on is ModuleErrorEnum.CONSTRUCTION_ERROR:
        convert = settings.conversion()
        theirs = outcome(lambda: info.module_cls(*built.args, **built.kwargs))
        given = outcome(
            lambda: ours(
                *[_argument(convert, value) for value in built.args],
                **{name: _argument(convert, value) for name, value in built.kwargs.items()},
            )
        )
    else:
        theirs, given = Pair(info, ours, settings, sample, training).called()
    if theirs.raised is None:
        raise OutsideError("this build of PyTorch takes it")
    if given.raised is None:
        raise Difference(f"{type(theirs.raised).__name__} expected ({theirs.raised}), nothing raised")
    if differs := refusal_differs(theirs.raised, given.raised):
        raise Difference(differs)


MODULES = Mode("modules", lambda info, settings: True, cases, chosen)
