"""Compiled recurrent layers run all steps in one operator, as eager calls do, forward and backward."""

from __future__ import annotations

import copy

import pytest

import triten as tt
from triten import nn


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_all_steps_are_one_operator(layer: type[nn.RNNBase]) -> None:
    eager = layer(5, 7, num_layers=2, bidirectional=True)
    x = tt.randn(6, 3, 5)
    schedule = str(tt.compiler.explain(lambda x: eager(x)[0].sin(), x).schedules[0])
    assert schedule.count("aten._fused_rnn_layer(") == 4 and "_cell" not in schedule

    captured = copy.deepcopy(eager)
    compiled = tt.compile(captured, fullgraph=True)
    for function in (eager, compiled):
        function(x)[0].sin().sum().backward()
    assert (compiled(x)[0] == eager(x)[0]).all()
    for ours, theirs in zip(captured.parameters(), eager.parameters(), strict=True):
        assert (ours.grad == theirs.grad).all()
