"""Data sets, orders and batches; what is not of chance is as PyTorch's."""

import collections
import io
import warnings

import numpy as np
import pytest

import triten as tt
from triten.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    random_split,
)

Pair = collections.namedtuple("Pair", "first second")


class Squares(Dataset):
    def __init__(self, count=7):
        self.count = count

    def __getitem__(self, index):
        return index * index

    def __len__(self):
        return self.count


class Stream(IterableDataset):
    def __init__(self, *values, length=None):
        self.values = values
        if length is not None:
            type(self).__len__ = lambda self: length

    def __iter__(self):
        return iter(self.values)


def plain(value):
    """Batches with lists for tensors, and the dtypes' names."""
    if hasattr(value, "dtype") and hasattr(value, "tolist"):
        return value.tolist(), str(value.dtype).rpartition(".")[2]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        made = [plain(each) for each in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return value


SAMPLES = [
    [1, 2, 3],
    [1.5, 2.5],
    [True, False],
    ["a", "b"],
    [b"a", b"b"],
    [(1, "a"), (2, "b")],
    [[1, 2.0], [3, 4.0]],
    [{"x": 1, "y": [2.0]}, {"x": 3, "y": [4.0]}],
    [Pair(1, 2.0), Pair(3, 4.0)],
    [np.float32(1), np.float32(2)],
    [np.arange(3), np.arange(3)],
    [np.zeros((2, 2), np.float32)] * 2,
    [(np.int8(1), {"k": (1, 2)})] * 3,
    [[1, 2], [1]],
    [object(), object()],
    [np.array("text")] * 2,
    [None, None],
]


@pytest.mark.parametrize("samples", SAMPLES, ids=lambda samples: type(samples[0]).__name__)
@pytest.mark.parametrize("name", ["default_collate", "default_convert"])
def test_batches_beside_pytorch(samples, name):
    torch = pytest.importorskip("torch")
    outcomes = []
    for library in (torch.utils.data, tt.utils.data):
        try:
            outcomes.append(plain(getattr(library, name)(samples)))
        except Exception as error:
            outcomes.append(type(error))
    if outcomes[0] != outcomes[1]:
        assert repr(outcomes[0]) == repr(outcomes[1])


def test_tensors_are_stacked():
    batch = default_collate([{"x": tt.ones(2)}, {"x": tt.zeros(2)}])
    assert batch["x"].tolist() == [[1.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("options", "batches"),
    [
        ({"batch_size": 3}, [[0, 1, 4], [9, 16, 25], [36]]),
        ({"batch_size": 3, "drop_last": True}, [[0, 1, 4], [9, 16, 25]]),
        ({"batch_size": None}, [0, 1, 4, 9, 16, 25, 36]),
        ({"sampler": [3, 1], "batch_size": 2}, [[9, 1]]),
        ({"batch_sampler": [[1, 2], [0]]}, [[1, 4], [0]]),
        ({"batch_size": 4, "collate_fn": sum}, [14, 77]),
    ],
)
def test_loops(options, batches):
    loader = DataLoader(Squares(), **options)
    found = [batch.tolist() if isinstance(batch, tt.Tensor) else batch for batch in loader]
    assert found == batches and len(loader) == len(batches)
    again = [batch.tolist() if isinstance(batch, tt.Tensor) else batch for batch in loader]
    assert again == found


def test_an_order_of_chance_is_anew_each_time_and_the_same_from_a_seed():
    loader = DataLoader(Squares(50), batch_size=50, shuffle=True)
    tt.manual_seed(3)
    first, second = next(iter(loader)).tolist(), next(iter(loader)).tolist()
    assert first != second and sorted(first) == sorted(second) == [i * i for i in range(50)]
    tt.manual_seed(3)
    assert next(iter(loader)).tolist() == first
    own = [
        next(
            iter(DataLoader(Squares(50), 50, shuffle=True, generator=tt.Generator().manual_seed(5)))
        ).tolist()
        for _ in range(2)
    ]
    assert own[0] == own[1]


@pytest.mark.parametrize(
    ("options", "batches"),
    [
        ({"batch_size": 2}, [[1, 2], [3, 4], [5]]),
        ({"batch_size": 2, "drop_last": True}, [[1, 2], [3, 4]]),
        ({"batch_size": None}, [1, 2, 3, 4, 5]),
    ],
)
def test_samples_one_after_the_other(options, batches):
    loader = DataLoader(Stream(1, 2, 3, 4, 5), **options)
    assert [b.tolist() if isinstance(b, tt.Tensor) else b for b in loader] == batches
    with pytest.raises(TypeError):
        len(loader)


def test_a_stream_that_is_longer_than_it_says():
    loader = DataLoader(Stream(1, 2, 3, length=2), batch_size=1)
    assert len(loader) == 2
    with pytest.warns(
        UserWarning,
        match=r"to be 2 \(.*\), but 3 samples have been fetched",
    ):
        assert len(list(loader)) == 3


def test_data_sets_of_data_sets():
    rows = TensorDataset(tt.arange(4), tt.arange(4) * 10)
    assert [x.item() for x in rows[2]] == [2, 20] and len(rows) == 4
    both = Squares(2) + Squares(3)
    assert isinstance(both, ConcatDataset) and [both[i] for i in (*range(5), -1)] == [0, 1, 0, 1, 4, 4]
    chain = Stream(1, 2) + Stream(3)
    assert isinstance(chain, ChainDataset) and list(chain) == [1, 2, 3]
    assert StackDataset(Squares(), range(7))[3] == (9, 3)
    assert StackDataset(a=Squares(), b=range(7))[3] == {"a": 9, "b": 3}
    some = Subset(Squares(), [5, 1])
    assert [some[0], some[1]] == [25, 1] and some.__getitems__([1, 0]) == [1, 25]


def test_a_data_set_that_gives_several_samples_at_once():
    asked = []

    class AtOnce(Squares):
        def __getitems__(self, indices):
            asked.append(indices)
            return [self[i] for i in indices]

    assert [b.tolist() for b in DataLoader(AtOnce(3), batch_size=2)] == [[0, 1], [4]]
    assert asked == [[0, 1], [2]]


@pytest.mark.parametrize(
    ("lengths", "sizes"), [([3, 4], [3, 4]), ([0.5, 0.5], [4, 3]), ([0.3, 0.3, 0.4], [3, 2, 2])]
)
def test_parts_have_nothing_in_common(lengths, sizes):
    parts = random_split(range(7), lengths, generator=tt.Generator().manual_seed(0))
    assert [len(part) for part in parts] == sizes
    assert sorted(each for part in parts for each in part) == list(range(7))


def test_orders():
    assert sorted(RandomSampler(range(9))) == list(range(9))
    twice = list(RandomSampler(range(3), num_samples=7))
    assert sorted(twice[:3]) == sorted(twice[3:6]) == [0, 1, 2] and len(twice) == 7
    drawn = list(RandomSampler(range(3), replacement=True, num_samples=200))
    assert len(drawn) == 200 and set(drawn) == {0, 1, 2}
    assert sorted(SubsetRandomSampler([4, 7, 9])) == [4, 7, 9]
    assert set(WeightedRandomSampler([0.0, 1.0, 0.0, 1.0], 50)) == {1, 3}
    assert sorted(WeightedRandomSampler([1.0, 1.0], 2, replacement=False)) == [0, 1]
    assert len(BatchSampler(range(7), 3, True)) == 2 and len(BatchSampler(range(7), 3, False)) == 3


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda d: DataLoader(d, num_workers=-1), ValueError, "num_workers option should be non-negative"),
        (lambda d: DataLoader(d, prefetch_factor=2), ValueError, "prefetch_factor option could only be"),
        (lambda d: DataLoader(d, persistent_workers=True), ValueError, "persistent_workers option needs"),
        (lambda d: DataLoader(d, timeout=-1), ValueError, "timeout option should be non-negative"),
        (lambda d: DataLoader(d, shuffle=True, sampler=[0]), ValueError, "mutually exclusive with shuffle"),
        (
            lambda d: DataLoader(d, batch_size=2, batch_sampler=[[0]]),
            ValueError,
            "mutually exclusive with batch_size",
        ),
        (
            lambda d: DataLoader(d, batch_size=None, drop_last=True),
            ValueError,
            "mutually exclusive with drop_last",
        ),
        (lambda d: DataLoader(d, batch_size=0), ValueError, "batch_size should be a positive integer"),
        (lambda d: DataLoader(Stream(1), shuffle=True), ValueError, "expected unspecified shuffle option"),
        (lambda d: RandomSampler(d, replacement=1), TypeError, "replacement should be a boolean"),
        (lambda d: RandomSampler(d, num_samples=-1), ValueError, "num_samples should be a positive integer"),
        (lambda d: WeightedRandomSampler([[1.0]], 1), ValueError, "weights should be a 1d sequence"),
        (lambda d: TensorDataset(tt.ones(2), tt.ones(3)), AssertionError, "Size mismatch between tensors"),
        (lambda d: ConcatDataset([]), AssertionError, "should not be an empty iterable"),
        (lambda d: random_split(d, [3, 3]), ValueError, "Sum of input lengths does not equal"),
        (lambda d: StackDataset(d, range(2)), ValueError, "Size mismatch between datasets"),
    ],
)
def test_refusals(make, error, message):
    with pytest.raises(error, match=message):
        make(Squares())


def test_a_loop_that_trains():
    tt.manual_seed(0)
    x = tt.randn(64, 3)
    data = TensorDataset(x, x @ tt.tensor([1.0, -2.0, 0.5]))
    layer = tt.nn.Linear(3, 1, bias=False)
    optimizer = tt.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(20):
        for inputs, target in DataLoader(data, batch_size=16, shuffle=True):
            optimizer.zero_grad()
            ((layer(inputs).squeeze(1) - target) ** 2).mean().backward()
            optimizer.step()
    file = io.BytesIO()
    tt.save(layer.state_dict(), file)
    kept = tt.load(io.BytesIO(file.getvalue()))["weight"]
    assert tt.allclose(kept, tt.tensor([[1.0, -2.0, 0.5]]), atol=1e-2)


def test_programs_say_how_their_classes_are_collated():
    from triten.utils.data._utils.collate import collate, default_collate_fn_map

    class Image:
        def __init__(self, pixels):
            self.pixels = pixels

    class Photo(Image):
        pass

    def together(batch, *, collate_fn_map=None):
        return collate([each.pixels for each in batch], collate_fn_map=collate_fn_map)

    own = {**default_collate_fn_map, Image: together}
    found = collate([(Photo(1.5), "a"), (Photo(2.0), "b")], collate_fn_map=own)
    assert found[0].tolist() == [1.5, 2.0] and found[1] == ("a", "b")
    with pytest.raises(TypeError, match="batch must contain tensors"):
        tt.utils.data.default_collate([Photo(1)])
    default_collate_fn_map[Image] = together
    try:
        assert tt.utils.data.default_collate([{"x": Photo(1)}, {"x": Photo(2)}])["x"].tolist() == [1, 2]
    finally:
        del default_collate_fn_map[Image]
    with pytest.raises(TypeError, match="found <class 'int'>"):
        collate([1, 2])


@pytest.mark.parametrize(
    ("seed", "worker", "words"),
    [
        (5, 2, [3826473080, 2527481201, 3096040404, 1091635235]),
        (2**40 + 7, 3, [400740237, 3779043709, 3128233089, 477537302]),
    ],
)
def test_numpy_is_seeded_in_workers_as_by_pytorch(seed, worker, words):
    from triten.utils.data._utils.worker import _generate_state

    assert _generate_state(seed, worker) == words


@pytest.mark.parametrize(
    "name", ["batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"]
)
def test_attributes_that_others_depend_on_are_fixed(name):
    loader = DataLoader(range(3))
    with pytest.raises(
        ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"
    ):
        setattr(loader, name, None)
    loader.collate_fn = sum
    assert list(loader) == [0, 1, 2]


def test_a_stream_warns_of_its_length_once_the_program_asked_for_it():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(5))

        def __len__(self):
            return 3

    loader = DataLoader(Stream(), batch_size=None)
    assert loader._auto_collation is False and DataLoader(Stream())._auto_collation is True
    assert loader._index_sampler is loader.sampler
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(loader) == [0, 1, 2, 3, 4]
    assert len(loader) == 3
    with pytest.warns(UserWarning, match="was reported to be 3") as told:
        list(loader)
    assert len(told) == 2


def test_collate_functions_have_pytorchs_names():
    from triten.utils.data._utils import collate

    kinds = collate.default_collate_fn_map
    assert kinds[tt.Tensor] is collate.collate_tensor_fn and kinds[int] is collate.collate_int_fn
    assert collate.collate_float_fn([1.0, 2.0]).dtype is tt.float64
    assert collate.collate_numpy_scalar_fn([np.float32(1), np.float32(2)]).tolist() == [1, 2]
    assert collate.np_str_obj_array_pattern.search(np.dtype("U3").str) is not None
    assert collate.np_str_obj_array_pattern.search(np.dtype("f4").str) is None
