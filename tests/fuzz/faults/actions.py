"""Disturbed actions: each makes its objects, acts on them, and can detect and undo all its changes.

After a disturbed action, with its objects restored, the same action must give bitwise identical results to an
undisturbed run.
"""

import copy
import io
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import triten as tt
from triten import nn

F = nn.functional


class Action(NamedTuple):
    """An action that may fail half-way.

    Attributes:
        make: Return the objects for a device.
        act: Run the disturbed action; the check compares its result.
        writes: If True, the action changes objects in several steps, as an optimizer does, and a fault may leave
            some of them done. Default: False.
    """

    make: Callable[[str], Any]
    act: Callable[[Any], Any]
    writes: bool = False


class Training:
    """A model, an optimizer and a batch."""

    def __init__(self, device, model, optimizer, *batch):
        tt.manual_seed(0)
        self.model = model().to(device)
        self.optimizer = optimizer(self.model.parameters())
        self.batch = [each.to(device) for each in batch]
        # The optimizer's state is there before the first fault.
        self.forward().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def forward(self):
        tt.manual_seed(1)
        return self.model(*self.batch).square().mean()

    def tensors(self):
        """Return every tensor that a step may change."""
        found = list(self.model.parameters()) + list(self.model.buffers())
        for state in self.optimizer.state.values():
            found += [each for each in state.values() if isinstance(each, tt.Tensor)]
        return found


def _backward(training):
    training.optimizer.zero_grad()
    loss = training.forward()
    loss.backward()
    return [loss.detach(), *(p.grad for p in training.model.parameters())]


def _step(training):
    result = _backward(training)
    training.optimizer.step()
    return [*result, *training.tensors()]


class Attention(nn.Module):
    """One layer of a transformer, with dropout."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)

    def forward(self, x):
        return self.layer(x)


class Sequence(nn.Module):
    """An embedding and a recurrent layer."""

    def __init__(self):
        super().__init__()
        self.table, self.cells = nn.Embedding(5, 4), nn.LSTM(4, 3, batch_first=True)

    def forward(self, tokens):
        return self.cells(self.table(tokens))[0]


def _mlp():
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.2), nn.Linear(8, 3))


def _convolutions():
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2))


def _batch(*shape):
    return tt.arange(1.0, 1.0 + tt.empty(shape).numel()).view(shape).sin()


def _sgd(parameters):
    return tt.optim.SGD(parameters, lr=0.1, momentum=0.9, nesterov=True)


def _adam(parameters):
    return tt.optim.AdamW(parameters, lr=0.01, amsgrad=True)


def _adam_loop(parameters):
    return tt.optim.Adam(parameters, lr=0.01, foreach=False)


MODELS = {
    "mlp": lambda device: Training(device, _mlp, _adam, _batch(3, 4)),
    "convolutions": lambda device: Training(device, _convolutions, _sgd, _batch(2, 2, 6, 6)),
    "attention": lambda device: Training(device, Attention, _adam_loop, _batch(1, 3, 8)),
    "sequence": lambda device: Training(device, Sequence, _sgd, tt.tensor([[1, 2, 0], [4, 1, 1]])),
}


def _autocast(training):
    with tt.autocast(training.batch[0].device.type, dtype=tt.bfloat16):
        loss = training.forward()
    loss.backward()
    result = [loss.detach(), *(p.grad for p in training.model.parameters())]
    training.optimizer.zero_grad()
    return result


def _checkpointed(training):
    x = training.batch[0].clone().requires_grad_()
    tt.manual_seed(1)
    y = tt.utils.checkpoint.checkpoint(training.model, x, use_reentrant=False)
    return [y.detach(), *tt.autograd.grad(y.square().sum(), [x, *training.model.parameters()])]


def _compiled(training):
    if not hasattr(training, "compiled"):
        training.compiled = tt.compile(lambda x: F.gelu(x * 2 + 1).sum(1).exp())
    x = training.batch[0].clone().requires_grad_()
    return [training.compiled(x).detach(), *tt.autograd.grad(training.compiled(x).sum(), [x])]


def _transforms(training):
    x = training.batch[0]
    tt.manual_seed(1)
    jacobian = tt.func.jacrev(lambda row: (row * row).sum(-1).sin())(x)
    per_row = tt.vmap(tt.func.grad(lambda row: F.gelu(row).sum()))(x)
    return [jacobian, per_row, tt.func.hessian(lambda v: (v**3).sum())(x[0])]


def _modes(training):
    x = training.batch[0]
    with tt.no_grad(), tt.profiler.profile() as profile:
        y = F.softmax(x @ x.t(), 1)
    with tt.inference_mode():
        z = (y * 2).clone()
    with tt.random.fork_rng(devices=[]):
        tt.manual_seed(5)
        noise = tt.randn(3)
    return [y, z, noise, tt.is_grad_enabled(), len(profile.events()) > 0, tt.is_inference_mode_enabled()]


def _saved(training):
    file = io.BytesIO()
    tt.save({"model": training.model.state_dict(), "optimizer": training.optimizer.state_dict()}, file)
    return tt.load(io.BytesIO(file.getvalue()), map_location="cpu")


def _hooks(training):
    seen = []
    handle = training.model.register_forward_hook(lambda module, args, result: seen.append(len(args)))
    try:
        with tt.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            return [*_backward(training), seen]
    finally:
        handle.remove()


def _linear_algebra(training):
    x = training.batch[0].reshape(-1)[:9].view(3, 3)
    q, r = tt.linalg.qr(x)
    return [
        q,
        r,
        tt.linalg.solve(x + 4 * tt.eye(3), x),
        tt.fft.fft(x),
        tt.cat([x, q]).sort(0)[0],
        x.cumsum(0),
    ]


ACTIONS = {
    **{f"backward of {name}": Action(make, _backward) for name, make in MODELS.items()},
    **{f"step of {name}": Action(make, _step, True) for name, make in MODELS.items()},
    "autocast": Action(MODELS["mlp"], _autocast),
    "checkpointing": Action(MODELS["mlp"], _checkpointed),
    "compiled": Action(MODELS["mlp"], _compiled),
    "transforms": Action(MODELS["mlp"], _transforms),
    "modes": Action(MODELS["mlp"], _modes),
    "save and load": Action(MODELS["mlp"], _saved),
    "hooks": Action(MODELS["mlp"], _hooks),
    "linear algebra": Action(MODELS["convolutions"], _linear_algebra),
}
ON_CUDA = ("backward of mlp", "step of mlp", "autocast", "modes", "save and load")
"""Those that Triton's interpreter has done within seconds."""


def bits(value):
    """Return all tensors of a nested value as bytes, for bitwise comparison."""
    if isinstance(value, tt.Tensor):
        detached = value.detach().to("cpu")
        return str(value.dtype), tuple(value.shape), detached.contiguous().host_array().tobytes()
    if isinstance(value, dict):
        return {key: bits(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [bits(each) for each in value]
    return value


class Restored:
    """Snapshot of the objects that an action may change, for comparing and for restoring them in place."""

    def __init__(self, objects):
        self._objects = objects
        self._values = [each.detach().clone() for each in objects.tensors()]
        self._optimizer = copy.deepcopy(objects.optimizer.state_dict())

    def differences(self):
        """Return the indices of the parameters that changed."""
        now = list(self._objects.model.parameters())
        return [at for at, (a, b) in enumerate(zip(now, self._values, strict=False)) if bits(a) != bits(b)]

    def put_back(self):
        """Have everything as it was."""
        with tt.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._objects.optimizer.load_state_dict(copy.deepcopy(self._optimizer))
            self._objects.optimizer.zero_grad()
            for tensor, value in zip(self._objects.tensors(), self._values, strict=True):
                tensor.copy_(value)
