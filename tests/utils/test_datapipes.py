"""Pipes of samples beside PyTorch's."""

import copy
import io
import os
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
from triten.utils.data.datapipes.iter import FileLister, IterableWrapper, Sampler
from triten.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES
from triten.utils.data.datapipes.map import SequenceWrapper
from triten.utils.data.datapipes.utils.common import StreamWrapper
from triten.utils.data.datapipes.utils.decoder import Decoder, basichandlers, handle_extension, imagehandler
from triten.utils.data.datapipes.utils.snapshot import _simple_graph_snapshot_restoration
from triten.utils.data.graph import traverse_dps
from triten.utils.data.graph_settings import apply_random_seed, apply_sharding, get_all_graph_pipes


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
        RuntimeError,
        match=r"invalidated because another iterator has been created from the same IterDataPipe: Numbers\(",
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


def test_loaders_set_shares_and_seeds():
    pipe = IterableWrapper(range(12)).sharding_filter()
    assert sorted(int(each) for each in DataLoader(pipe, batch_size=None, num_workers=2)) == list(range(12))
    shuffled = IterableWrapper(range(8)).shuffle()
    orders = []
    for _ in range(2):
        loader = DataLoader(shuffled, batch_size=8, generator=tt.Generator().manual_seed(1))
        orders += [next(iter(loader)).tolist() for _ in range(2)]
    assert orders[:2] == orders[2:] and orders[0] != orders[1]
    assert all(sorted(order) == list(range(8)) for order in orders)
    assert next(iter(DataLoader(shuffled, batch_size=8, shuffle=False))).tolist() == list(range(8))
    with pytest.warns(UserWarning, match="does not contain a `Shuffler`. Adding one at the end"):
        loader = DataLoader(IterableWrapper(range(8)), shuffle=True)
    assert sorted(map(int, loader)) == list(range(8)) and repr(loader.dataset) == "ShufflerIterDataPipe"


def test_forked_pipes_read_their_source_once():
    read = []
    first, second = IterableWrapper(range(4)).map(lambda n: read.append(n) or n).fork(2)
    assert list(first) == list(second) == read == [0, 1, 2, 3] and len(first) == 4
    assert list(zip(first, second, strict=True)) == [(n, n) for n in range(4)]
    ahead = iter(first)
    with pytest.warns(UserWarning, match="Some child DataPipes are not exhausted"):
        anew = iter(first)
    with pytest.raises(RuntimeError, match="This iterator has been invalidated"):
        next(ahead)
    other = iter(second)
    assert next(anew) == next(other) == 0 and list(anew) == list(other) == [1, 2, 3]
    first, second = IterableWrapper(range(4)).fork(2, buffer_size=2)
    with pytest.raises(BufferError, match="buffer size 2 is insufficient"):
        list(first)
    lists, others = IterableWrapper([[1]]).fork(2, copy="shallow")
    assert next(iter(lists)) is not next(iter(others))
    pipe = IterableWrapper(range(4))
    assert pipe.fork(1) is pipe
    with pytest.warns(UserWarning, match="Unlimited buffer size is set for `fork`"):
        assert len(pipe.fork(3, buffer_size=-1)) == 3
    with pytest.raises(ValueError, match="Unknown copy method `flat` requested"):
        pipe.fork(2, copy="flat")
    with pytest.raises(ValueError, match="Expected `num_instances` larger than 0, but 0 is found"):
        pipe.fork(0)


def test_a_function_chooses_among_pipes():
    even, odd = IterableWrapper(range(6)).demux(2, (2).__rmod__)
    assert list(even) == [0, 2, 4] and list(odd) == [1, 3, 5]
    assert list(zip(even, odd, strict=True)) == [(0, 1), (2, 3), (4, 5)]
    with pytest.raises(TypeError):
        len(even)
    none, some = IterableWrapper(range(4)).demux(2, [None, 1, None, 1].__getitem__, drop_none=True)
    assert list(none) == [] and list(some) == [1, 3]
    (only,) = IterableWrapper(range(2)).demux(1, int)
    with pytest.raises(ValueError, match=r"should be between 0 and 0\. 1 is returned"):
        list(only)
    last, first = IterableWrapper(range(6)).demux(2, (3).__gt__, buffer_size=2)
    with pytest.raises(BufferError, match="buffer size 2 is insufficient"):
        list(last)
    assert next(iter(first)) == 0


def test_groups():
    numbers = IterableWrapper(range(8))
    assert list(numbers.groupby((3).__rmod__)) == [[0, 3, 6], [1, 4, 7], [2, 5]]
    assert list(numbers.groupby((3).__rmod__, group_size=2, keep_key=True))[:2] == [(0, [0, 3]), (1, [1, 4])]
    few = numbers.groupby((4).__rmod__, group_size=2, buffer_size=3)
    with pytest.raises(RuntimeError, match="Failed to group items"):
        list(few)
    dropping = numbers.groupby((4).__rmod__, group_size=2, buffer_size=3, drop_remaining=True)
    assert list(dropping) == [[6], [7]]
    with pytest.raises(AssertionError, match="group_size must be > 0 and <= buffer_size"):
        numbers.groupby(int, group_size=4, buffer_size=3)


def test_files(tmp_path):
    (tmp_path / "b.txt").write_text("second")
    (tmp_path / "a.json").write_text("[1, 2]")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "c.txt").write_text("third")
    below = FileLister(str(tmp_path), recursive=True)
    assert [os.path.relpath(path, tmp_path) for path in below] == [
        "a.json",
        "b.txt",
        os.path.join("in", "c.txt"),
    ]
    names = FileLister(str(tmp_path), masks="*.txt")
    assert [content for _, content in names.open_files().read_from_stream()] == ["second"]
    assert [content for _, content in names.open_files("b").read_from_stream(4)] == [b"seco", b"nd"]
    with pytest.warns(FutureWarning, match="are deprecated since 1.12"):
        decoded = FileLister(str(tmp_path)).open_files("b").routed_decode()
    assert [content for _, content in decoded] == [[1, 2], "second"]
    with pytest.raises(TypeError, match="doesn't have valid length"):
        len(names)
    assert len(FileLister(str(tmp_path), length=2)) == 2
    with pytest.raises(ValueError, match="Invalid mode w"):
        names.open_files("w")
    with pytest.raises(ValueError, match="binary mode doesn't take an encoding argument"):
        names.open_files("b", encoding="utf-8")


def test_streams_are_closed():
    opened = io.BytesIO(b"ab")
    stream = StreamWrapper(opened, name="two")
    assert (
        stream.read() == b"ab"
        and repr(stream).startswith("StreamWrapper<two,<_io.BytesIO")
        and "read" in dir(stream)
    )
    del stream
    assert opened.closed
    archive = StreamWrapper(io.BytesIO())
    parts = [StreamWrapper(io.BytesIO(), archive) for _ in range(2)]
    archive.autoclose()
    parts[0].close()
    assert not archive.closed
    StreamWrapper.close_streams({"all": [parts]})
    assert archive.closed


def test_graphs_of_pipes():
    source = Numbers(*range(13))
    first, second = source.fork(2)
    joined = first.sharding_filter().zip(second.sharding_filter())
    assert len(get_all_graph_pipes(traverse_dps(joined))) == 7
    assert list(apply_sharding(joined, 3, 0)) == [(n, n) for n in range(0, 13, 3)]
    with pytest.raises(RuntimeError, match="Sharding twice on a single pipeline"):
        apply_sharding(joined.sharding_filter(), 3, 0)
    with pytest.raises(
        RuntimeError, match="Expected `IterDataPipe` or `MapDataPipe`, but <class 'list'> is found"
    ):
        traverse_dps([source])
    by_group = Numbers(*range(12)).sharding_filter()
    by_group.apply_sharding(2, 1, SHARDING_PRIORITIES.DISTRIBUTED)
    by_group.apply_sharding(3, 2, SHARDING_PRIORITIES.MULTIPROCESSING)
    assert list(by_group) == [5, 11] and len(by_group) == 2
    with pytest.raises(RuntimeError, match="cannot mix DEFAULT and non DEFAULT groups"):
        by_group.apply_sharding(2, 1)


def test_snapshots_go_on():
    pipe = IterableWrapper(range(9)).shuffle(buffer_size=4).batch(2)
    apply_random_seed(pipe, tt.Generator().manual_seed(0))
    whole = list(pipe)
    apply_random_seed(pipe, tt.Generator().manual_seed(0))
    iterator = iter(pipe)
    assert [next(iterator), next(iterator)] == whole[:2]
    other = pickle.loads(pickle.dumps(pipe))
    assert other._number_of_samples_yielded == 2
    _simple_graph_snapshot_restoration(other, 2, tt.Generator().manual_seed(0))
    with pytest.raises(RuntimeError, match="has not been restored"):
        _simple_graph_snapshot_restoration(other, 2)
    assert list(other) == list(iterator) == whole[2:]
    with pytest.raises(RuntimeError, match="exceeds the number of samples available"):
        _simple_graph_snapshot_restoration(other, 99)


def test_errors_name_the_pipe():
    pipe = IterableWrapper([1, 0]).map((1).__truediv__).batch(1).map([].index, input_col=0)
    with pytest.raises(
        ValueError, match=r"is not in list\nThis exception is thrown by __iter__ of MapperIterDataPipe\("
    ):
        list(pipe)
    with pytest.raises(ValueError, match="The function <lambda> takes 1 parameters, but 2 are required"):
        IterableWrapper([]).map(lambda a: a, input_col=[0, 1])


class Counting(IterDataPipe):
    """A pipe that is its own iterator."""

    def __init__(self):
        self.n = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.n += 1
        if self.n > 3:
            raise StopIteration
        return self.n

    def reset(self):
        self.n = 0

    def doubled(self):
        return 2 * self.n


def test_a_pipe_can_be_its_own_iterator():
    pipe = Counting()
    assert list(pipe) == list(pipe) == [1, 2, 3] and pipe._number_of_samples_yielded == 3
    iterator = iter(pipe)
    assert next(iterator) == 1 and iterator.doubled() == 2 and pipe._number_of_samples_yielded == 1
    iter(pipe)
    with pytest.raises(RuntimeError, match="This iterator has been invalidated"):
        next(iterator)


def test_indices_are_shuffled():
    pipe = SequenceWrapper({"a": 1, "b": 2, "c": 3}).shuffle(indices=["a", "b", "c"])
    assert sorted(pipe) == [1, 2, 3] and list(pipe.set_seed(3)) == list(pipe.set_seed(3)) and len(pipe) == 3
    assert list(pipe.set_shuffle(False)) == [1, 2, 3]
    assert list(Sampler(IterableWrapper("ab"))) == [0, 1]
    with pytest.raises(TypeError, match="Expected all inputs to be `MapDataPipe`"):
        SequenceWrapper([1]).zip(())


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


def test_content_is_decoded():
    decode = Decoder(basichandlers, handle_extension("seg.png", len))
    pairs = [
        ("a.txt", b"x"),
        ("b.cls", b"7"),
        ("c.id", b"x"),
        ("d.seg.png", b"123"),
        ("_e", b"y"),
        ("f.json", b"{}"),
    ]
    decoded = {path: decode((path, content))[path] for path, content in pairs}
    expected = {"a.txt": "x", "b.cls": 7, "c.id": b"x", "d.seg.png": b"123", "_e": "y", "f.json": {}}
    assert decoded == expected and handle_extension("seg.png", len)("d.seg.png", b"123") == 3
    file = io.BytesIO()
    tt.save(tt.ones(2), file)
    assert decode(("g.pt", io.BytesIO(file.getvalue())))["g.pt"].tolist() == [1.0, 1.0]


def test_images_are_decoded():
    images = pytest.importorskip("PIL.Image", reason="the images are files that Pillow reads")
    file = io.BytesIO()
    images.new("RGB", (3, 2), (255, 0, 51)).save(file, "png")
    found = imagehandler("torch")("png", file.getvalue())
    assert found.shape == (3, 2, 3) and found[:, 0, 0].tolist() == pytest.approx([1.0, 0.0, 0.2])
    assert imagehandler("rgb8")("png", file.getvalue())[0, 0].tolist() == [255, 0, 51]
    assert imagehandler("l8")("txt", b"") is None
