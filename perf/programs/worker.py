"""Worker process of one program under one library: a script for PyTorch's Python, or for `python -m
triten.as_torch`.

The worker reads requests as JSON lines from its input, and answers each with a JSON line on its output.
Output of the program goes to the error stream. Requests, in order::

    {"do": "build", "program": {...}, "weights": FILE, "make_weights": true}   the model, with its weights; with
                                                "moved": 1 each weight is its neighbour above or below, by that seed
    {"do": "results", "file": FILE}             forward pass, gradients, the losses of three steps, into an .npz
    {"do": "steps", "count": 5}                 how many seconds as many steps take
    {"do": "operators", "count": 5}             the seconds and calls of each operator in a step, over as many steps

An answer is ``{"error": "...", ...}`` if the program stopped. This file imports only Python's library, NumPy
and the module called torch in its process.
"""

import json
import math
import os
import random
import sys
import time
import traceback

import numpy as np

STEPS = 3
BUCKETS = 64
SEED = 20


class Draws:
    """Inputs from NumPy, the same under every library."""

    def __init__(self):
        import torch

        self.torch = torch
        self.restart()

    def restart(self):
        self.generator = np.random.default_rng(SEED)
        self.noise = np.random.default_rng(SEED + 1)
        np.random.seed(SEED)
        random.seed(SEED)
        self.torch.manual_seed(SEED)

    def normal(self, *sizes):
        return self.torch.from_numpy(self.generator.standard_normal(sizes, dtype=np.float32))

    def uniform(self, *sizes):
        return self.torch.from_numpy(self.generator.random(sizes, dtype=np.float32))

    def integers(self, high, *sizes):
        return self.torch.from_numpy(self.generator.integers(0, high, sizes))

    def true(self, *sizes):
        return self.torch.ones(sizes, dtype=self.torch.bool)

    def names(self):
        return {name: getattr(self, name) for name in ("normal", "uniform", "integers", "true")}

    def take_the_place_of_random_functions(self):
        """Make random tensor functions sample from NumPy, since the two libraries' generators differ."""
        torch = self.torch

        def sizes_of(arguments, size=None):
            sizes = size if size is not None else arguments
            if len(sizes) == 1 and not isinstance(sizes[0], int):
                sizes = sizes[0]
            return tuple(int(each) for each in sizes)

        def placed(array, like=None, dtype=None, device=None, requires_grad=False, **_):
            dtype = dtype or (like.dtype if like is not None else torch.get_default_dtype())
            made = torch.from_numpy(np.ascontiguousarray(array)).to(dtype)
            return made.requires_grad_(requires_grad) if requires_grad else made

        def randn(*arguments, size=None, generator=None, **options):
            return placed(self.noise.standard_normal(sizes_of(arguments, size)), **options)

        def rand(*arguments, size=None, generator=None, **options):
            return placed(self.noise.random(sizes_of(arguments, size)), **options)

        def randn_like(tensor, **options):
            return placed(self.noise.standard_normal(tuple(tensor.shape)), like=tensor, **options)

        def rand_like(tensor, **options):
            return placed(self.noise.random(tuple(tensor.shape)), like=tensor, **options)

        def randint(low, high=None, size=None, *, generator=None, dtype=None, **options):
            if size is None or not isinstance(high, int):
                low, high, size = 0, low, high if size is None else size
            return placed(self.noise.integers(low, high, tuple(size)), dtype=dtype or torch.int64)

        def randperm(count, *, generator=None, dtype=None, **options):
            return placed(self.noise.permutation(count), dtype=dtype or torch.int64)

        def uniform_(tensor, low=0.0, high=1.0, *, generator=None):
            return tensor.copy_(torch.from_numpy(self.noise.uniform(low, high, tuple(tensor.shape))))

        def normal_(tensor, mean=0.0, std=1.0, *, generator=None):
            return tensor.copy_(torch.from_numpy(self.noise.normal(mean, std, tuple(tensor.shape))))

        for function in (randn, rand, randn_like, rand_like, randint, randperm):
            setattr(torch, function.__name__, function)
        for method in (uniform_, normal_):
            setattr(torch.Tensor, method.__name__, method)


def declare_operators_of_torchvision(torch):
    """Declare what torchvision's library in C++ declares: it does not load beside every PyTorch, nor here.

    Its models and transforms import without the library once `nms` is known by name.
    """
    schema = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", schema)


def sketch(gradient):
    """Return a gradient's norm and its count sketch: 64 sums of elements with drawn signs, the same for each size.

    The distance of two sketches is, within some 10%, that of the gradients (Charikar et al., Finding Frequent Items in
    Data Streams, 2002).
    """
    signs = np.random.default_rng(gradient.size).integers(0, 2, gradient.size, dtype=np.int8) * 2 - 1
    padded = np.zeros(-(-gradient.size // BUCKETS) * BUCKETS)
    padded[: gradient.size] = gradient * signs
    return np.concatenate([[np.linalg.norm(gradient)], padded.reshape(-1, BUCKETS).sum(0)])


class Training:
    """A program that was built: forward pass, loss and step."""

    def __init__(self, request):
        import torch

        program = request["program"]
        self.torch = torch
        declare_operators_of_torchvision(torch)
        self.draws = Draws()
        if program["draws"]:
            self.draws.take_the_place_of_random_functions()
        self.names = names = {
            "__name__": "program",
            "torch": torch,
            "nn": torch.nn,
            "F": torch.nn.functional,
            "np": np,
            "math": math,
            **self.draws.names(),
        }
        exec(compile(program["setup"], program["name"], "exec"), names)
        names["model"] = self.model = eval(program["model"], names)
        self.draws.restart()
        names["inputs"] = self.inputs = eval(program["inputs"], names)
        self.call = compile(program["call"], program["name"], "eval")
        self._weights(request)
        self.parameters = self._parameters()
        names["parameters"] = [parameter for _, parameter in self.parameters]
        if "optimizer" not in names:
            names["optimizer"] = eval(program["optimizer"], names) if self.parameters else None
        if names["optimizer"] is None:
            self.parameters = []
        self.optimizer = names["optimizer"]
        self.targets = {}

    def _weights(self, request):
        """Save this side's weights, or take the other's; dropout is off."""
        torch, model = self.torch, self.model
        if not isinstance(model, torch.nn.Module):
            return
        if request["make_weights"]:
            torch.save(model.state_dict(), request["weights"])
        else:
            model.load_state_dict(torch.load(request["weights"]))
        if request.get("moved"):
            self._move_weights(np.random.default_rng(request["moved"]))
        model.train()
        for module in model.modules():
            if isinstance(module, torch.nn.modules.dropout._DropoutNd):
                module.p = 0.0
            elif isinstance(module, (torch.nn.MultiheadAttention, torch.nn.RNNBase)):
                module.dropout = 0.0

    def _move_weights(self, generator):
        """Move every weight to the next number above or below: as far as one rounding does."""
        torch = self.torch
        for parameter in self.model.parameters():
            if parameter.dtype in (torch.float32, torch.float64):
                values = parameter.detach().numpy()
                towards = np.where(generator.random(values.shape) < 0.5, -np.inf, np.inf).astype(values.dtype)
                with torch.no_grad():
                    parameter.copy_(torch.from_numpy(np.nextafter(values, towards)))

    def _parameters(self):
        """Return the named tensors to optimize: the model's parameters, or the inputs if it has none."""
        named = []
        if isinstance(self.model, self.torch.nn.Module):
            named = [(name, each) for name, each in self.model.named_parameters() if each.requires_grad]
        if not named:
            named = [
                (f"input {index}", each.requires_grad_())
                for index, each in enumerate(self.inputs)
                if isinstance(each, self.torch.Tensor) and each.is_floating_point()
            ]
        return named

    def forward(self):
        """Return the tensors of the result, in order."""
        return list(self._tensors(eval(self.call, self.names)))

    def _tensors(self, value):
        if isinstance(value, self.torch.Tensor):
            yield value
        elif isinstance(value, dict):
            for each in value.values():
                yield from self._tensors(each)
        elif isinstance(value, (list, tuple)):
            for each in value:
                yield from self._tensors(each)
        elif hasattr(value, "__dataclass_fields__"):
            for each in value.__dataclass_fields__:
                yield from self._tensors(getattr(value, each))
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield self.torch.tensor(float(value))

    def loss(self, outputs):
        """Return a scalar result itself, or the distance of the result's tensors from random targets."""
        torch = self.torch
        outputs = [each for each in outputs if each.is_floating_point() and each.requires_grad]
        if not outputs:
            return None
        if len(outputs) == 1 and outputs[0].numel() == 1:
            return outputs[0].reshape(())
        total = 0.0
        for index, output in enumerate(outputs):
            key = index, tuple(output.shape)
            if key not in self.targets:
                drawn = np.random.default_rng(index).standard_normal(tuple(output.shape), dtype=np.float32)
                self.targets[key] = torch.from_numpy(drawn).to(output.dtype)
            total = total + ((output - self.targets[key]) ** 2).mean()
        return total

    def step(self):
        """Run one training step, or only the forward pass if there is nothing to train, and return its loss."""
        if self.optimizer is None:
            self.forward()
            return None

        def closure():
            self.optimizer.zero_grad()
            loss = self.loss(self.forward())
            if loss is not None:
                loss.backward()
            return loss

        loss = self.optimizer.step(closure)
        return None if loss is None else float(loss)

    def results(self, file):
        """Write the results that are compared with the other library's."""
        self.draws.restart()
        outputs = self.forward()
        arrays = {}
        for index, output in enumerate(outputs):
            output = output.detach()
            wide = output.to(self.torch.float64) if output.is_floating_point() else output
            arrays[f"forward {index}"] = wide.numpy()
        loss = self.loss(outputs) if self.parameters else None
        if loss is not None:
            loss.backward()
            for name, parameter in self.parameters:
                if parameter.grad is not None:
                    gradient = parameter.grad.detach().to(self.torch.float64).reshape(-1).numpy()
                    arrays[f"gradient {name}"] = sketch(gradient)
        self.draws.restart()
        losses = [loss for loss in (self.step() for _ in range(STEPS)) if loss is not None]
        arrays["losses"] = np.array(losses, dtype=np.float64)
        np.savez(file, **{name.replace("/", "|"): array for name, array in arrays.items()})

    def steps(self, count):
        """Return the seconds of `count` steps."""
        start = time.perf_counter()
        for _ in range(count):
            self.step()
        return time.perf_counter() - start

    def operators(self, count):
        """Return the own seconds of each operator in a step, and its calls, by the library's profiler."""
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            self.steps(count)
        return {
            each.key: [each.self_cpu_time_total / 1e6 / count, each.count / count]
            for each in profiled.key_averages()
        }


def described(error):
    """Describe what stopped the program: the first exception's last line, and its position in a third-party
    package.
    """
    first = error
    while first.__cause__ is not None:
        first = first.__cause__
    lines = traceback.format_exception_only(type(first), first)
    last = " ".join("".join(lines[-1:]).split())
    frames = traceback.extract_tb(first.__traceback__)
    outside = [frame for frame in frames if "site-packages" in frame.filename or "packages" in frame.filename]
    where = outside[-1] if outside else frames[-1] if frames else None
    return {
        "error": last,
        "at": f"{os.path.basename(where.filename)}:{where.lineno}" if where else "",
        "traceback": "".join(traceback.format_exception(error))[-6000:],
    }


def peak_bytes():
    """Return the peak memory of this process."""
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main():
    """Answer requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    training = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "build":
                training = Training(request)
                answer = {"version": str(training.torch.__version__)}
            elif request["do"] == "results":
                training.results(request["file"])
                answer = {"peak_bytes": peak_bytes()}
            elif request["do"] == "operators":
                answer = {"operators": training.operators(request["count"])}
            else:
                answer = {"seconds": training.steps(request["count"])}
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            answer = described(error)
        answers.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
