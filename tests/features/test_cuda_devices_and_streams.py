"""Several CUDA devices: current device and stream, guards, tensors and copies between them, work that overlaps."""

import threading

import pytest

import triten as tt

pytest.importorskip("triton", reason="triton has no wheel for this platform")


def test_tensors_live_where_they_are_put():
    x = tt.arange(4.0, device="cuda:1")
    with tt.cuda.device(1):
        y = tt.ones(4, device="cuda")
        assert (x + y).device == y.device == tt.device("cuda:1")
    z = (x + y).to("cuda:0")
    assert z.device == tt.device("cuda", 0) and z.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert tt.zeros(2, device="cuda").device.index == tt.cuda.current_device() == 0
    with pytest.raises(RuntimeError):
        _ = x + z


def test_a_pipeline_over_two_devices_and_their_streams():
    """Load on one stream, compute on two devices, collect on the host: nothing waits but the end."""
    load, compute = tt.cuda.Stream(0), tt.cuda.Stream(1)
    batches = [tt.full((3, 3), float(i), pin_memory=True) for i in range(4)]
    weight = tt.eye(3, device="cuda:1") * 2
    compute.wait_stream(tt.cuda.default_stream(1))
    results = []
    for batch in batches:
        with tt.cuda.stream(load):
            here = batch.to("cuda:0", non_blocking=True)
            with tt.cuda.stream(compute), tt.cuda.device(1):
                there = here.to("cuda:1", non_blocking=True)
                results.append((there @ weight).to("cpu", non_blocking=True))
    done = compute.record_event()
    done.synchronize()
    assert done.query() and [r.tolist() for r in results] == [[[2.0 * i] * 3] * 3 for i in range(4)]


def test_threads_have_devices_and_streams_of_their_own():
    seen = {}

    def work(index):
        with tt.cuda.device(index), tt.cuda.stream(tt.cuda.Stream()) as _:
            x = tt.full((8,), float(index), device="cuda")
            seen[index] = (x.device.index, (x + 1).tolist(), tt.cuda.current_stream().device_index)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {i: (i, [i + 1.0] * 8, i) for i in range(2)}
    assert tt.cuda.current_device() == 0 and tt.cuda.current_stream() == tt.cuda.default_stream()


def test_gradients_flow_between_devices():
    x = tt.ones(3, device="cuda:0", requires_grad=True)
    y = (x * 2).to("cuda:1", non_blocking=True)
    (y * tt.arange(3.0, device="cuda:1")).sum().backward()
    assert x.grad.device == x.device and x.grad.tolist() == [0.0, 2.0, 4.0]


def test_memory_is_counted_by_device():
    before = [tt.cuda.memory_allocated(i) for i in range(2)]
    x = tt.empty(1000, device="cuda:1")
    assert tt.cuda.memory_allocated(0) == before[0] and tt.cuda.memory_allocated(1) > before[1]
    del x
