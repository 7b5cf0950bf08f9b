"""Random operators by name, written for PyTorch and triten alike: `record.py` keeps PyTorch's results.

Each case is ``draw(torch, generator)``. Its result is a tensor or a list of tensors. After each case one more number is
drawn, so that the number of words that a case takes counts too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Draw = Callable[[Any, Any], Any]

EXACT: dict[str, Draw] = {}
"""Of integers, and of float32 arithmetic: to the bit."""
ROUNDED: dict[str, Draw] = {}
"""Of the C library's logarithms, sines and so on, whose last bit depends on the library: within 8 units there."""
NEAR: dict[str, Draw] = {}
"""Of decompositions and softmax: within 1e-5."""


def _ramp(t: Any, count: int) -> Any:
    """Return numbers from -1 to 1 with few bits."""
    return (t.arange(count) * 64 // count - 32) / 32


def _fill_cases() -> None:
    for size in (0, 1, 15, 16, 17, 33):
        EXACT[f"rand {size}"] = lambda t, g, n=size: t.rand(n, generator=g)
        (ROUNDED if 0 < size < 16 else EXACT)[f"randn {size}"] = lambda t, g, n=size: t.randn(n, generator=g)
        ROUNDED[f"randn float64 {size}"] = lambda t, g, n=size: t.randn(n, dtype=t.float64, generator=g)
        for name in ("float16", "bfloat16"):
            (ROUNDED if 0 < size < 16 else EXACT)[f"randn {name} {size}"] = lambda t, g, n=size, d=name: (
                t.randn(n, dtype=getattr(t, d), generator=g)
            )
    for name in ("float16", "bfloat16", "float64", "complex64", "complex128"):
        EXACT[f"rand {name}"] = lambda t, g, d=name: t.rand(19, dtype=getattr(t, d), generator=g)
    for name in ("float16", "bfloat16", "float32", "float64"):
        EXACT[f"uniform_ {name}"] = lambda t, g, d=name: t.empty(40, dtype=getattr(t, d)).uniform_(
            -0.3, 1.7, generator=g
        )
        EXACT[f"bernoulli_ 0.3 {name}"] = lambda t, g, d=name: t.empty(40, dtype=getattr(t, d)).bernoulli_(
            0.3, generator=g
        )
        EXACT[f"bernoulli {name}"] = lambda t, g, d=name: t.bernoulli(
            (_ramp(t, 40) + 1).div(2).to(getattr(t, d)), generator=g
        )
        ROUNDED[f"exponential_ {name}"] = lambda t, g, d=name: t.empty(20, dtype=getattr(t, d)).exponential_(
            1.5, generator=g
        )
        ROUNDED[f"log_normal_ {name}"] = lambda t, g, d=name: t.empty(21, dtype=getattr(t, d)).log_normal_(
            0.2, 0.7, generator=g
        )
        ROUNDED[f"cauchy_ {name}"] = lambda t, g, d=name: t.empty(20, dtype=getattr(t, d)).cauchy_(
            0.2, 0.7, generator=g
        )
        ROUNDED[f"geometric_ {name}"] = lambda t, g, d=name: t.empty(20, dtype=getattr(t, d)).geometric_(
            0.2, generator=g
        )
        EXACT[f"random_ {name}"] = lambda t, g, d=name: t.empty(20, dtype=getattr(t, d)).random_(generator=g)
        EXACT[f"random_ 100 {name}"] = lambda t, g, d=name: t.empty(20, dtype=getattr(t, d)).random_(
            100, generator=g
        )
        ROUNDED[f"poisson {name}"] = lambda t, g, d=name: t.poisson(
            t.tensor([0.0, 0.5, 3, 9.5, 12, 40, 1000] * 3, dtype=getattr(t, d)), generator=g
        )
        for replacement in (True, False):
            if name == "float16" and not replacement:
                continue
            (EXACT if replacement else ROUNDED)[f"multinomial {replacement} {name}"] = (
                lambda t, g, d=name, r=replacement: t.multinomial(
                    t.tensor([[1.0, 2, 3, 0, 5], [0.1, 0.2, 0, 0.9, 4]], dtype=getattr(t, d)),
                    3,
                    r,
                    generator=g,
                )
            )
        if name in ("float16", "bfloat16"):
            continue
        ROUNDED[f"_standard_gamma {name}"] = lambda t, g, d=name: t._standard_gamma(
            t.tensor([0.0, 0.1, 0.5, 1, 2.5, 30] * 3, dtype=getattr(t, d)), generator=g
        )
        ROUNDED[f"_sample_dirichlet {name}"] = lambda t, g, d=name: t._sample_dirichlet(
            t.tensor([[0.1, 0.5, 1], [2.5, 30, 7]], dtype=getattr(t, d)), generator=g
        )
        ROUNDED[f"binomial {name}"] = lambda t, g, d=name: t.binomial(
            t.tensor([0.0, 5, 20, 100, 1000, 64] * 3, dtype=getattr(t, d)),
            t.tensor([0.3, 0.5, 0.1, 0.4, 0.97, 1.0] * 3, dtype=getattr(t, d)),
            generator=g,
        )
    for name in ("uint8", "int8", "int16", "int32", "int64", "bool"):
        EXACT[f"random_ {name}"] = lambda t, g, d=name: t.empty(20, dtype=getattr(t, d)).random_(generator=g)
        EXACT[f"bernoulli_ {name}"] = lambda t, g, d=name: t.empty(20, dtype=getattr(t, d)).bernoulli_(
            0.6, generator=g
        )
        EXACT[f"random_ from {name}"] = lambda t, g, d=name: t.empty(20, dtype=getattr(t, d)).random_(
            1, None, generator=g
        )
    for low, high in (
        (0, 10),
        (-7, 1 << 28),
        (0, (1 << 28) - 1),
        (-(1 << 40), 1 << 41),
        (-(1 << 63), (1 << 63) - 1),
    ):
        EXACT[f"randint {low} {high}"] = lambda t, g, a=low, b=high: t.randint(a, b, (20,), generator=g)
    EXACT["randint int32"] = lambda t, g: t.randint(-5, 1 << 30, (20,), dtype=t.int32, generator=g)
    EXACT["randint float32"] = lambda t, g: t.randint(-5, 1 << 20, (20,), dtype=t.float32, generator=g)
    EXACT["random_ 65504 float16"] = lambda t, g: t.empty(20, dtype=t.float16).random_(0, 65504, generator=g)
    EXACT["random_ -1001 1001 bfloat16"] = lambda t, g: t.empty(20, dtype=t.bfloat16).random_(
        -1001, 1001, generator=g
    )
    EXACT["random_ wide float64"] = lambda t, g: t.empty(20, dtype=t.float64).random_(
        -(1 << 60), 1 << 62, generator=g
    )
    EXACT["random_ whole int64"] = lambda t, g: t.empty(9, dtype=t.int64).random_(
        -(1 << 63), None, generator=g
    )
    for size in (0, 1, 2, 33):
        EXACT[f"randperm {size}"] = lambda t, g, n=size: t.randperm(n, generator=g)
    EXACT["randperm int32"] = lambda t, g: t.randperm(20, dtype=t.int32, generator=g)
    EXACT["normal_ 2 3"] = lambda t, g: t.empty(40).normal_(2, 3, generator=g)
    EXACT["normal_ 2 3 bfloat16"] = lambda t, g: t.empty(40, dtype=t.bfloat16).normal_(2, 3, generator=g)
    ROUNDED["normal_ 2 3 float64"] = lambda t, g: t.empty(40, dtype=t.float64).normal_(2, 3, generator=g)
    ROUNDED["normal_ twice"] = lambda t, g: [
        t.empty(n).normal_(0.1, 0.3, generator=g) for n in (3, 4, 20, 1, 1)
    ]
    ROUNDED["normal_ strided"] = lambda t, g: t.zeros(8, 6)[:, ::2].normal_(2, 3, generator=g)
    ROUNDED["normal_ transposed"] = lambda t, g: t.zeros(4, 6).t().normal_(2, 3, generator=g)
    EXACT["uniform_ transposed"] = lambda t, g: t.zeros(4, 6).t().uniform_(2, 3, generator=g)
    EXACT["random_ permuted"] = lambda t, g: t.zeros(2, 3, 4).permute(1, 2, 0).random_(50, generator=g)
    EXACT["bernoulli_ transposed"] = lambda t, g: t.zeros(4, 6).t().bernoulli_(0.4, generator=g)
    EXACT["bernoulli_ p transposed"] = lambda t, g: (
        t.zeros(4, 6).t().bernoulli_((_ramp(t, 6) + 1).div(2)[:, None], generator=g)
    )
    ROUNDED["randn complex64"] = lambda t, g: t.randn(5, dtype=t.complex64, generator=g)
    EXACT["randn complex64 8"] = lambda t, g: t.randn(8, dtype=t.complex64, generator=g)
    ROUNDED["randn complex128"] = lambda t, g: t.randn(9, dtype=t.complex128, generator=g)
    EXACT["normal mean"] = lambda t, g: t.normal(_ramp(t, 20), 0.3, generator=g)
    EXACT["normal std"] = lambda t, g: t.normal(0.7, (_ramp(t, 20) + 1).div(2), generator=g)
    EXACT["normal mean std"] = lambda t, g: t.normal(t.ones(4, 1), (_ramp(t, 5) + 1).div(2), generator=g)
    EXACT["normal mean bfloat16"] = lambda t, g: t.normal(
        t.ones(20, dtype=t.bfloat16), t.full((20,), 0.3, dtype=t.bfloat16), generator=g
    )
    ROUNDED["normal mean float64"] = lambda t, g: t.normal(t.ones(20, dtype=t.float64), 0.3, generator=g)
    EXACT["normal size"] = lambda t, g: t.normal(0.5, 2.0, (20,), generator=g)
    ROUNDED["multinomial transposed"] = lambda t, g: t.multinomial(
        t.arange(1.0, 13.0).reshape(4, 3).t(), 2, generator=g
    )
    ROUNDED["multinomial 1 True"] = lambda t, g: t.multinomial(t.arange(1.0, 40.0), 1, True, generator=g)
    ROUNDED["multinomial 1"] = lambda t, g: t.multinomial(t.arange(1.0, 40.0), 1, generator=g)


_fill_cases()


def _of_default(draw: Callable[[Any], Any]) -> Draw:
    """Let the default generator have the case's state during a case."""

    def drawn(t: Any, g: Any) -> Any:
        state = t.get_rng_state()
        t.set_rng_state(g.get_state())
        made = draw(t)
        g.set_state(t.get_rng_state())
        t.set_rng_state(state)
        return made

    return drawn


def _initialized(name: str, shape: tuple[int, ...], **options: Any) -> Draw:
    return lambda t, g: getattr(t.nn.init, name)(t.empty(shape), generator=g, **options)


for _name in ("xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"):
    EXACT[_name] = _initialized(_name, (6, 5))
EXACT["init uniform_"] = _initialized("uniform_", (6, 5), a=-1.0, b=2.0)
EXACT["init normal_"] = _initialized("normal_", (6, 5), mean=1.0, std=2.0)
EXACT["trunc_normal_"] = _initialized("trunc_normal_", (6, 5), std=0.02)
EXACT["trunc_normal_ rejecting"] = _initialized("trunc_normal_", (6, 5), std=1.0, a=-0.7, b=0.7)
ROUNDED["trunc_normal_ tail"] = _initialized("trunc_normal_", (6, 5), std=1.0, a=1.5, b=3.0)
NEAR["orthogonal_"] = _initialized("orthogonal_", (6, 5))
EXACT["sparse_"] = _of_default(lambda t: t.nn.init.sparse_(t.empty(6, 5), 0.4))


def _parameters(make: Callable[[Any], Any]) -> Draw:
    return _of_default(lambda t: [p.detach() for p in make(t.nn).parameters()])


EXACT["Linear"] = _parameters(lambda nn: nn.Linear(7, 5))
EXACT["Conv2d"] = _parameters(lambda nn: nn.Conv2d(2, 3, 3))
EXACT["Embedding"] = _parameters(lambda nn: nn.Embedding(6, 5))
EXACT["LSTM"] = _parameters(lambda nn: nn.LSTM(3, 4))
EXACT["MultiheadAttention"] = _parameters(lambda nn: nn.MultiheadAttention(4, 2))
EXACT["Bilinear"] = _parameters(lambda nn: nn.Bilinear(2, 3, 4))
EXACT["TransformerEncoderLayer"] = _parameters(lambda nn: nn.TransformerEncoderLayer(4, 2, 8))
EXACT["dropout"] = _of_default(lambda t: t.nn.functional.dropout(_ramp(t, 40), 0.3))
EXACT["dropout bfloat16"] = _of_default(lambda t: t.nn.functional.dropout(_ramp(t, 40).to(t.bfloat16), 0.1))
EXACT["dropout transposed"] = _of_default(
    lambda t: t.nn.functional.dropout(_ramp(t, 40).reshape(5, 8).t(), 0.1)
)
EXACT["dropout2d"] = _of_default(lambda t: t.nn.functional.dropout2d(t.ones(3, 4, 2, 2), 0.4))
EXACT["alpha_dropout"] = _of_default(lambda t: t.nn.functional.alpha_dropout(_ramp(t, 40), 0.3, True))
EXACT["rrelu"] = _of_default(lambda t: t.nn.functional.rrelu(_ramp(t, 40), training=True))
NEAR["gumbel_softmax"] = _of_default(lambda t: t.nn.functional.gumbel_softmax(_ramp(t, 20)))
EXACT["rand_like transposed"] = _of_default(lambda t: t.rand_like(t.zeros(4, 6).t()))
ROUNDED["randn_like transposed"] = _of_default(lambda t: t.randn_like(t.zeros(4, 6).t()))
EXACT["randint_like"] = _of_default(lambda t: t.randint_like(t.zeros(4, 6), 9))
EXACT["scaled_dot_product_attention dropout"] = _of_default(
    lambda t: t.nn.functional.scaled_dot_product_attention(
        t.zeros(2, 3, 4), t.zeros(2, 3, 4), t.eye(3, 4).expand(2, 3, 4), dropout_p=0.5
    )
)


def _orders(t: Any, g: Any) -> Any:
    data = t.utils.data

    def of(loader: Any) -> Any:
        return t.stack([t.cat([batch.reshape(-1) for batch in loader]) for _ in range(2)])

    items = t.arange(10)
    made = [of(data.DataLoader(items, batch_size=3, shuffle=True, generator=g))]
    made += [t.tensor(list(part.indices)) for part in data.random_split(range(10), [3, 7], generator=g)]
    made.append(t.tensor(list(data.RandomSampler(range(10), replacement=True, num_samples=37, generator=g))))
    made.append(t.tensor(list(data.RandomSampler(range(10), num_samples=25, generator=g))))
    made.append(t.tensor(list(data.SubsetRandomSampler(range(10), generator=g))))
    made.append(t.tensor(list(data.WeightedRandomSampler([0.1, 0.9, 0.4], 7, generator=g))))
    return made


EXACT["data loader and samplers"] = _orders
EXACT["data loader of the default generator"] = _of_default(
    lambda t: t.stack(
        [t.cat(list(t.utils.data.DataLoader(t.arange(10), batch_size=3, shuffle=True))) for _ in range(2)]
    )
)


def _states(t: Any, g: Any) -> Any:
    def parts(state: Any) -> list[Any]:
        """Return the bytes of a state, those of the waiting normal number apart."""
        return [state[:5024], state[5024:5032].view(t.float64), state[5032:]]

    made = parts(g.get_state())
    t.randn(3, generator=g)
    waiting = g.get_state()
    made += parts(waiting)
    other = g.clone_state()
    made.append(t.randn(4, generator=other))
    t.rand(700, generator=g)
    made += parts(g.get_state())
    g.set_state(waiting)
    made.append(t.randn(4, generator=g))
    made.append(t.tensor([g.initial_seed()]))
    return made


ROUNDED["states"] = _states
EXACT["seed of workers"] = lambda t, g: t.empty((), dtype=t.int64).random_(generator=g)


def _losses(t: Any) -> Any:
    """Return the losses of 20 steps of a small perceptron."""
    nn, data = t.nn, t.utils.data
    x, y = t.randn(160, 6), t.randint(0, 3, (160,))
    net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
    optimizer = t.optim.Adam(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(2):
        for inputs, targets in data.DataLoader(data.TensorDataset(x, y), batch_size=16, shuffle=True):
            loss = nn.functional.cross_entropy(net(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return t.tensor(losses)


def _losses_of_attention(t: Any) -> Any:
    """Return the losses of 5 steps of a small transformer with dropout of its attention's weights."""
    nn = t.nn
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
    net = nn.Sequential(nn.Embedding(7, 8), layer, nn.Linear(8, 7))
    optimizer = t.optim.AdamW(net.parameters(), lr=1e-2)
    losses = []
    for _ in range(5):
        tokens = t.randint(7, (4, 6))
        loss = nn.functional.cross_entropy(net(tokens[:, :-1]).reshape(-1, 7), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return t.tensor(losses)


NEAR["losses"] = _of_default(_losses)
NEAR["losses of attention"] = _of_default(_losses_of_attention)
NEAR["Laplace"] = _of_default(lambda t: t.distributions.Laplace(t.tensor([0.5, 3.0]), 2.0).sample((9,)))
NEAR["VonMises"] = _of_default(lambda t: t.distributions.VonMises(t.tensor([0.5, 3.0]), 2.0).sample((9,)))
NEAR["MixtureSameFamily"] = _of_default(
    lambda t: t.distributions.MixtureSameFamily(
        t.distributions.Categorical(t.tensor([0.3, 0.7])),
        t.distributions.Normal(t.tensor([0.0, 1.0]), t.tensor([1.0, 2.0])),
    ).sample((9,))
)
LARGE: dict[str, Draw] = {
    "rand": lambda t, g: t.rand(10**6, generator=g),
    "randn": lambda t, g: t.randn(10**6 + 3, generator=g),
    "normal_": lambda t, g: t.empty(10**5).normal_(0.1, 0.3, generator=g),
    "uniform_": lambda t, g: t.empty(10**5).uniform_(-0.1, 0.3, generator=g),
    "randperm": lambda t, g: t.randperm(10**5, generator=g),
    "log_normal_ float16": lambda t, g: t.empty(10**5, dtype=t.float16).log_normal_(0, 1, generator=g),
    "bernoulli_": lambda t, g: t.empty(10**5, dtype=t.bool).bernoulli_(0.1, generator=g),
    "uniform_ float64": lambda t, g: t.empty(10**5, dtype=t.float64).uniform_(-0.1, 0.3, generator=g),
}
"""To the bit; only a digest of them is kept."""
CASES = {"exact": EXACT, "rounded": ROUNDED, "near": NEAR, "large": LARGE}
SEED = 2**40 + 3


def arrays(t: Any, draw: Draw) -> list[tuple[str, Any]]:
    """Dtypes and NumPy arrays of a case's tensors, with one more number behind them.

    Complex elements are pairs of real ones, and bfloat16 is its bits.
    """
    generator = t.Generator().manual_seed(SEED)
    found = draw(t, generator)
    made = []
    for tensor in (*(found if isinstance(found, list) else [found]), t.rand(1, generator=generator)):
        dtype = str(tensor.dtype).partition(".")[2]
        if tensor.is_complex():
            tensor = t.view_as_real(tensor)
        if tensor.dtype is t.bfloat16:
            tensor = tensor.contiguous().view(t.int16)
        made.append((dtype, tensor.detach().contiguous().numpy()))
    return made
