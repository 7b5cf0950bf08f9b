"""Random programs on many threads at once: each thread's results are bitwise identical to single-threaded
results.

The threads share tensors, modules, graphs, compiled functions and generators, and start with empty plan
caches. Meanwhile a disturber thread registers operators, evicts plans, collects garbage, forks or sends
signals. The interpreter switches threads a thousand times more often than by default.
"""

import contextlib
import gc
import multiprocessing
import os
import random
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

import triten as tt
from triten.dispatch.core.overload_packet import clear_plans
from triten.tests.shared.threads import together

from ..campaign import AGREED, INTERPRETED, Campaign, Case, Finding, Outcome

Job = Callable[[], Any]
SWITCH_INTERVAL = 1e-6


def bits(value: Any) -> Any:
    """Return a result as a value that is equal only if all bits are equal."""
    if isinstance(value, tt.Tensor):
        host = value.detach().cpu().contiguous()
        return str(host.dtype), tuple(host.shape), host.numpy().tobytes()
    if isinstance(value, list | tuple):
        return [bits(each) for each in value]
    return value


def inputs(device: str) -> list[Any]:
    generator = tt.Generator().manual_seed(3)
    return [
        tt.randn(6, 5, generator=generator).to(device),
        tt.randn(5, 6, generator=generator).to(device).T,
        tt.randint(0, 5, (6, 5), generator=generator).to(device),
        tt.randn(2, 6, 5, generator=generator).to(device)[1],
    ]


OPERATIONS: dict[str, Callable[[Any, Any, random.Random], Any]] = {
    "add": lambda a, b, rng: a + b,
    "number": lambda a, b, rng: a * rng.randrange(1, 9) - 1,
    "where": lambda a, b, rng: tt.where(a > b, a, b),
    "matmul": lambda a, b, rng: a.double() @ b.double().T @ b.double(),
    "sum": lambda a, b, rng: a + b.sum(rng.randrange(2), keepdim=True),
    "max": lambda a, b, rng: b + a.amax(rng.randrange(2), keepdim=True),
    "softmax": lambda a, b, rng: a.double().softmax(rng.randrange(2)),
    "index": lambda a, b, rng: a[tt.tensor([0, 2, 1, 5, 3, 4], device=a.device)] + b,
    "slice": lambda a, b, rng: tt.cat([a[rng.randrange(1, 5) :], b], 0)[:6],
    "in_place": lambda a, b, rng: a.float().clone().mul_(2).sub_(b),
    "cast": lambda a, b, rng: a.to(rng.choice([tt.float64, tt.float16, tt.float32])) + 1,
    "out": lambda a, b, rng: tt.add(a.float(), b.float(), out=tt.empty(6, 5, device=a.device)),
    "size": lambda a, b, rng: a + tt.ones(rng.randrange(1, 40), device=a.device).sum(),
    "refused": lambda a, b, rng: a if _refuses(lambda: a.view(7, 7)) else None,
    "vmap": lambda a, b, rng: tt.func.vmap(lambda x, y: x * y.sum())(a, b),
    "no_grad": lambda a, b, rng: _without_grad(a),
}


def _refuses(call: Job) -> bool:
    try:
        call()
    except RuntimeError:
        return True
    return False


def _without_grad(a: Any) -> Any:
    with tt.no_grad():
        w = a.float().clone().requires_grad_()
        assert not (w * 2).requires_grad
    return a


def chain(shared: list[Any], seed: str, length: int) -> Any:
    """Run a random chain of operations over the shared tensors."""
    rng = random.Random(seed)
    found = rng.choice(shared)
    for name in rng.choices([*OPERATIONS], k=length):
        found = OPERATIONS[name](found, rng.choice(shared), rng)
    return found


def tensors(case: Case) -> list[Job]:
    shared = inputs(case["device"])
    return [lambda s=s: chain(shared, s, case["length"]) for s in seeds(case)]


def seeds(case: Case) -> list[str]:
    return [f"{case['seed']}/{thread}" for thread in range(case["threads"])]


def _network(device: str) -> Any:
    # Small integers: sums are exact in any order.
    model = tt.nn.Sequential(tt.nn.Linear(5, 4), tt.nn.ReLU(), tt.nn.Linear(4, 3)).to(device)
    with tt.no_grad():
        for number, parameter in enumerate(model.parameters()):
            values = tt.arange(parameter.numel(), device=device).view_as(parameter)
            parameter.copy_(values % (5 + number) - 2)
    return model


def modules(case: Case) -> list[Job]:
    """Return jobs that share one module: forward, gradients of its parameters, and its state."""
    model = _network(case["device"])
    model.train(case["seed"] % 2 == 0)

    def job(number: int) -> Any:
        x = (tt.arange(15 + 5 * number, device=case["device"]) % 7 - 3).float().view(-1, 5)
        found = []
        for _ in range(case["length"]):
            out = model(x)
            found.append(out)
            found += tt.autograd.grad(out.sum(), [*model.parameters()])
            found += model.state_dict().values()
        return found

    return [lambda n=n: job(n) for n in range(case["threads"])]


def accumulation(case: Case) -> list[Job]:
    """Return jobs whose gradients accumulate in shared leaves, as integers."""
    model = _network(case["device"])
    barrier = threading.Barrier(case["threads"]) if case.get("at_once") else None

    def job(number: int) -> Any:
        x = (tt.arange(15, device=case["device"]) % 7 - 3).float().view(-1, 5)
        for _ in range(case["length"]):
            model(x).sum().backward()
        if barrier is not None:
            barrier.wait()
            return [parameter.grad for parameter in model.parameters()]
        return None

    jobs = [lambda n=n: job(n) for n in range(case["threads"])]
    if barrier is None:
        last = jobs[-1]
        jobs[-1] = lambda: [last(), [p.grad for p in model.parameters()]][1]
        first, total = jobs[:-1], jobs[-1]
        # In one thread the sum is whole after the last job only: all give that.
        everything: list[Any] = []

        def all_of_it() -> Any:
            if not everything:
                for each in first:
                    each()
                everything.append(total())
            return everything[0]

        return [all_of_it] * case["threads"]
    return jobs


def graphs(case: Case) -> list[Job]:
    """Return jobs that run backward through one shared graph."""
    w = [each.float().clone().requires_grad_() for each in inputs(case["device"])[:2]]
    loss = (w[0].exp() * w[1].sigmoid()).sum(0).square().sum()
    return [lambda: [tt.autograd.grad(loss, w, retain_graph=True) for _ in range(case["length"])]] * case[
        "threads"
    ]


def compiled(case: Case) -> list[Job]:
    """Return jobs that call one compiled function, initially uncompiled."""
    scale = 1.0 + case["seed"] % 5
    f = tt.compile(lambda x, n: ((x.sin() * scale + n).relu() * x).sum(-1))

    def job(number: int) -> Any:
        x = (tt.arange(60.0, device=case["device"]) / 60).view(-1, 3 + number % 3)
        found = []
        for _ in range(case["length"]):
            w = x.clone().requires_grad_()
            out = f(w, number % 2)
            out.sum().backward()
            found += [out, w.grad]
        return found

    return [lambda n=n: job(n) for n in range(case["threads"])]


def own_generators(case: Case) -> list[Job]:
    def job(seed: int) -> Any:
        generator = tt.Generator(case["device"]).manual_seed(seed)
        return [tt.randn(7, generator=generator, device=case["device"]) for _ in range(case["length"])]

    return [lambda n=n: job(n) for n in range(case["threads"])]


def one_generator(case: Case) -> list[Job]:
    """Return jobs that sample from one generator: each sample occurs once, in any thread; see `in_any_order`."""
    generator = tt.Generator(case["device"]).manual_seed(case["seed"])
    draw = lambda: tt.rand(8, generator=generator, device=case["device"])  # noqa: E731
    return [lambda: [draw() for _ in range(case["length"])]] * case["threads"]


def loaders(case: Case) -> list[Job]:
    data = tt.utils.data.TensorDataset(tt.arange(24.0).view(12, 2))

    def job(number: int) -> Any:
        loader = tt.utils.data.DataLoader(
            data, batch_size=5, shuffle=True, generator=tt.Generator().manual_seed(number)
        )
        return [each for _ in range(case["length"]) for [each] in loader]

    return [lambda n=n: job(n) for n in range(case["threads"])]


SCENES: dict[str, Callable[[Case], list[Job]]] = {
    "tensors": tensors,
    "modules": modules,
    "accumulation": accumulation,
    "graphs": graphs,
    "compiled": compiled,
    "own_generators": own_generators,
    "one_generator": one_generator,
    "loaders": loaders,
}
ON_CUDA = ("tensors", "modules", "graphs", "own_generators")


def register() -> None:
    """Register and remove operators and kernels, under new names and under a name that all threads call."""
    with tt.library.Library("t_fuzz_threads", "FRAGMENT") as lib:
        lib.define("twice(Tensor x) -> Tensor")
        lib.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        assert tt.ops.t_fuzz_threads.twice(tt.ones(2)).tolist() == [2.0, 2.0]
    with tt.library.Library("aten", "IMPL", "PrivateUse1") as lib:
        lib.impl("add.Tensor", lambda x, y, alpha=1: x)


def fork() -> None:
    """Compute in a forked child, in which all other threads are gone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of forks beside threads
        child = os.fork()
    if child == 0:
        try:
            signal.alarm(30)  # a lock that a thread held would never be free
            x = tt.ones(3, requires_grad=True)
            (x.exp() @ tt.ones(3, 2)).sum().backward()
            assert tt.rand(3).shape == (3,) and x.grad is not None
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child of a fork ended with {os.waitstatus_to_exitcode(status)}"


def _in_child(x: Any) -> Any:
    return (x * 2).sum().item()


def start_processes() -> None:
    """Send tensors to new processes and receive their results, while other threads compute."""
    for method in ("spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            assert pool.apply(_in_child, (tt.ones(3),)) == 6.0


DISTURBERS: dict[str, Callable[[], None]] = {
    "nothing": lambda: None,
    "register": register,
    "forget": clear_plans,
    "collect": lambda: gc.collect(0) and None,
    "fork": fork,
    "processes": start_processes,
    "signals": lambda: os.kill(os.getpid(), signal.SIGUSR1),
}
DISTURBED_ONCE = {"processes"}


def disturbed(disturb: str, jobs: list[Job]) -> list[Any]:
    """Run the jobs concurrently, with the disturber running until they finish."""
    left, lock = [len(jobs)], threading.Lock()

    def watched(job: Job) -> Any:
        try:
            return bits(job())
        finally:
            with lock:
                left[0] -= 1

    def disturber() -> None:
        action = DISTURBERS[disturb]
        while True:
            action()
            if disturb in DISTURBED_ONCE or disturb == "nothing" or not left[0]:
                return

    found = together(disturber, *(lambda job=job: watched(job) for job in jobs))
    return found[1:]


@contextlib.contextmanager
def changing_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextlib.contextmanager
def handling_signals() -> Iterator[None]:
    """Install a signal handler that computes on the main thread while that thread waits for the others."""

    def handler(number: int, frame: Any) -> None:
        x = tt.ones(4, requires_grad=True)
        (x * 3 + tt.rand(4, generator=tt.Generator())).sum().backward()

    # Import lazily loaded modules now: a handler that interrupts an import cannot use the module.
    handler(0, None)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        # Not the default, which ends the process: the last signal may still be on its way.
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def in_any_order(scene: str, results: list[Any]) -> Any:
    return sorted(each for result in results for each in result) if scene == "one_generator" else results


class Threads(Campaign):
    name = "threads"
    needs: ClassVar[Mapping[str, str]] = INTERPRETED
    limit = 120.0

    def draw(self, rng: random.Random) -> Case:
        scene = rng.choice([*SCENES])
        device = "cuda" if scene in ON_CUDA and rng.random() < 0.15 else "cpu"
        names = [*DISTURBERS]
        return {
            "scene": scene,
            "device": device,
            "disturb": rng.choices(names, [2 if name == "processes" else 20 for name in names])[0],
            "threads": rng.randint(2, 6),
            "length": rng.randint(1, 4 if device == "cuda" else 12),
            "seed": rng.randrange(10**6),
        }

    def run(self, case: Case) -> Outcome:
        scene = case["scene"]
        clear_plans()
        with changing_often(), handling_signals():
            found = disturbed(case["disturb"], SCENES[scene](case | {"at_once": True}))
        expected = [bits(job()) for job in SCENES[scene](case | {"at_once": False})]
        if in_any_order(scene, found) != in_any_order(scene, expected):
            wrong = [
                number for number, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1]
            ]
            return Finding("wrong value", f"{scene}, {case['disturb']}: other results in threads {wrong}")
        return AGREED

    def smaller(self, case: Case) -> Iterator[Case]:
        if case["disturb"] != "nothing":
            yield case | {"disturb": "nothing"}
        if case["threads"] > 2:
            yield case | {"threads": 2}
        if case["length"] > 1:
            yield case | {"length": case["length"] // 2}

    def describe(self, case: Case) -> str:
        return f"from triten.tests.fuzz.campaigns.threads import Threads\nprint(Threads().run({case}))"
