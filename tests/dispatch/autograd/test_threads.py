"""The permission of threads for backward is thread-local."""

import threading

import triten as tt


def test_it_is_set_for_a_block_or_from_now_on():
    autograd = tt.autograd
    assert autograd.is_multithreading_enabled() and not autograd.is_view_replay_enabled()
    with autograd.set_multithreading_enabled(False):
        assert not autograd.is_multithreading_enabled()
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append(autograd.is_multithreading_enabled()))
        thread.start()
        thread.join()
        assert elsewhere == [True]
        seen = []
        x = tt.ones(1, requires_grad=True)
        x.register_hook(lambda grad: seen.append(threading.get_ident()))
        (x * 2).backward()
        assert seen == [threading.get_ident()]
    assert autograd.is_multithreading_enabled()
    autograd.set_multithreading_enabled(False)
    assert not autograd.is_multithreading_enabled()
    autograd.set_multithreading_enabled(True)
    assert autograd.is_multithreading_enabled()
