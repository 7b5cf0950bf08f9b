"""Pipes of samples beside PyTorch's."""

import copy
import pickle
from collections.abc import Iterator

import pytest

import triten as tt
from triten.utils.data import (
    DataChunk,
    DataLoader,
    DFIterDataPipe,
    IterDataPipe,
    MapDataPipe,
    argument_validation,
    functional_datapipe,
    guaranteed_datapipes_determinism,
    non_deterministic,
    runtime_validation,
    runtime_validation_disabled,
)
from triten.utils.data.datapipes.iter import IterableWrapper
from triten.utils.data.datapipes.map import SequenceWrapper


class Numbers(IterDataPipe[int]):
    def __init__(self, *numbers):
        self.numbers, self.resets = numbers, 0

    def __iter__(self):
        yield from self.numbers

    def __len__(self):
        return len(self.numbers)

    def reset(self):
        self.resets += 1


class More(Numbers):
    def __iter__(self):
        for number in super().__iter__():
            yield number + 100


@functional_datapipe("test_times")
class Times(IterDataPipe):
    def __init__(self, source, factor=3):
        self.source, self.factor = source, factor

    def __iter__(self):
        for number in self.source:
            yield number * self.factor


def test_one_iterator_is_valid():
    pipe = Numbers(1, 2, 3)
    first = iter(pipe)
    assert next(first) == 1
    second = iter(pipe)
    assert next(second) == 1
    with pytest.raises(
        RuntimeError, match=r"invalidated because another iterator has been created .* Numbers"
    ):
        next(first)
    assert list(second) == [2, 3] and pipe.resets == 2
    assert list(More(1, 2)) == [101, 102]


def test_classes_become_methods():
    assert list(Numbers(1, 2).test_times()) == [3, 6] and list(Numbers(1, 2).test_times(factor=5)) == [5, 10]
    with pytest.raises(
        Exception, match="Unable to add DataPipe function name test_times as it is already taken"
    ):
        functional_datapipe("test_times")(Times)
    with pytest.raises(TypeError, match="can only decorate"):
        functional_datapipe("test_other")(int)
    with pytest.raises(AttributeError, match="'Numbers' object has no attribute 'nothing'"):
        Numbers(1).nothing()
    assert repr(Numbers(1)) == "Numbers"


def test_pipes_of_pipes():
    pipe = IterableWrapper(range(7))
    assert list(pipe.map(lambda n: n + 1).filter(lambda n: n % 2 == 0)) == [2, 4, 6]
    batches = pipe.batch(3)
    assert list(batches) == [[0, 1, 2], [3, 4, 5], [6]] and len(batches) == 3
    assert isinstance(next(iter(batches)), DataChunk) and len(pipe.batch(3, drop_last=True)) == 2
    assert list(pipe.batch(3).unbatch()) == list(pipe.batch(2).batch(2).unbatch(-1)) == list(range(7))
    assert list(pipe.batch(2).batch(2).unbatch(2)) == list(range(7))
    both = Numbers(1, 2).concat(Numbers(3))
    assert list(both) == [1, 2, 3] and len(both) == 3
    assert list(Numbers(1, 2).zip(Numbers(3, 4, 5))) == [(1, 3), (2, 4)]
    assert list(Numbers(1, 2).mux(Numbers(3, 4, 5))) == [1, 3, 2, 4]
    assert tt.equal(next(iter(Numbers(1, 2).batch(2).collate())), tt.tensor([1, 2]))
    pairs = IterableWrapper([(1, 2), (3, 4)])
    assert list(pairs.map(lambda a: a * 10, input_col=1)) == [(1, 20), (3, 40)]
    assert list(pairs.map(lambda a, b: a + b, input_col=[0, 1])) == [(3,), (7,)]
    assert list(pairs.map(lambda a: a * 10, input_col=0, output_col=-1)) == [(1, 2, 10), (3, 4, 30)]
    assert list(pairs.filter(lambda b: b > 2, input_col=1)) == [(3, 4)]
    with pytest.raises(ValueError, match="Boolean output is required"):
        list(pipe.filter(lambda n: n))
    with pytest.raises(IndexError, match="exceeds the depth"):
        list(pipe.unbatch())
    with pytest.raises(TypeError, match="doesn't have valid length"):
        len(pipe.filter(bool).map(bool))


def test_shuffled_pipes_are_seeded():
    pipe = IterableWrapper(range(50)).shuffle(buffer_size=10)
    tt.manual_seed(0)
    first = list(pipe)
    tt.manual_seed(0)
    assert list(pipe) == first != list(range(50)) and sorted(first) == list(range(50))
    assert list(pipe.set_seed(3)) == list(pipe.set_seed(3)) != first
    assert list(pipe.set_shuffle(False)) == list(range(50)) and len(pipe) == 50


def test_shards_share_the_work():
    shards = [IterableWrapper(range(7)).sharding_filter() for _ in range(3)]
    for number, shard in enumerate(shards):
        shard.apply_sharding(3, number)
    assert [list(each) for each in shards] == [[0, 3, 6], [1, 4], [2, 5]]
    assert [len(each) for each in shards] == [3, 2, 2]
    with pytest.raises(ValueError, match=r"instance_id\(3\) should be smaller than num_of_instances\(3\)"):
        shards[0].apply_sharding(3, 3)


def test_pipes_by_index():
    pipe = SequenceWrapper([1, 2, 3, 4, 5])
    assert list(pipe.map(lambda n: n * 2)) == [2, 4, 6, 8, 10] and isinstance(pipe, MapDataPipe)
    assert pipe.concat(SequenceWrapper([9]))[5] == 9 and len(pipe.zip(SequenceWrapper([7, 8]))) == 2
    assert pipe.zip(SequenceWrapper([7, 8]))[1] == (2, 8)
    assert list(pipe.batch(2)) == [[1, 2], [3, 4], [5]] and len(pipe.batch(2, drop_last=True)) == 2
    for index in (6, -1):
        with pytest.raises(IndexError):
            pipe.batch(2)[index]
    assert SequenceWrapper({"a": 1})["a"] == 1


def test_loaders_take_pipes():
    assert [each.tolist() for each in DataLoader(Numbers(1, 2, 3), batch_size=2)] == [[1, 2], [3]]
    assert [each.tolist() for each in DataLoader(SequenceWrapper([1, 2, 3]), batch_size=2)] == [[1, 2], [3]]


def test_pipes_are_copied_and_pickled():
    pipe = Numbers(1, 2)
    iter(pipe)
    for other in (
        copy.deepcopy(pipe),
        pickle.loads(pickle.dumps(pipe)),
        pickle.loads(pickle.dumps(pipe.batch(2))),
    ):
        assert list(other) in ([1, 2], [[1, 2]])


def test_determinism():
    @non_deterministic
    class Any(IterDataPipe):
        def __iter__(self):
            yield 1

    @functional_datapipe("test_maybe")
    @non_deterministic(lambda source, flag: flag)
    class Maybe(IterDataPipe):
        def __init__(self, source, flag):
            self.source = source

        def __iter__(self):
            yield from self.source

    assert list(Any()) == [1] and list(Numbers(4).test_maybe(True)) == [4]
    with guaranteed_datapipes_determinism():
        with pytest.raises(TypeError, match="Any is non-deterministic, but you set"):
            Any()
        with pytest.raises(TypeError, match="Maybe is non-deterministic with the inputs, but you set"):
            Maybe(Numbers(1), True)
        assert list(Maybe(Numbers(1), False)) == [1]
    assert list(Any()) == [1]
    with pytest.raises(TypeError, match="3 can not be decorated"):
        non_deterministic(3)
    with pytest.raises(TypeError, match="but int is found"):
        non_deterministic(int)
    with pytest.raises(TypeError, match="required to return a boolean value"):
        non_deterministic(lambda: 1)(Numbers)()


def test_types():
    class Checked(Numbers):
        @runtime_validation
        def __iter__(self) -> Iterator[int]:
            yield from self.numbers

    class Either(Numbers):
        @runtime_validation
        def __iter__(self) -> Iterator[int | str]:
            yield from self.numbers

    assert list(Checked(1, 2)) == [1, 2] and list(Either(1, "a")) == [1, "a"]
    for bad in (Checked(1, "a"), Either(1, 2.5)):
        with pytest.raises(RuntimeError, match="Expected an instance as subtype of"):
            list(bad)
        with runtime_validation_disabled():
            list(bad)
    with pytest.raises(TypeError, match="Can not decorate function other"):

        @runtime_validation
        def other(self):
            pass


def test_arguments():
    class Wrapped(IterDataPipe):
        @argument_validation
        def __init__(self, source: IterDataPipe[int], factor: int = 1):
            self.source = source

        def __iter__(self):
            yield from self.source

    assert list(Wrapped(Numbers(1), factor="any")) == [1]
    with pytest.raises(
        TypeError, match="Expected argument 'source' as a IterDataPipe, but found <class 'list'>"
    ):
        Wrapped([1])


def test_chunks_and_frames():
    chunk = DataChunk([1, 2])
    assert chunk == [1, 2] and chunk.as_str("  ") == "  [1, 2]" and list(chunk.raw_iterator()) == chunk.items
    assert DFIterDataPipe()._is_dfpipe()
