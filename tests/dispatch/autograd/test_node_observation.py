"""An observer stands around every node's backward, and is gone without a trace when it is closed."""

import pytest

import triten as tt
from triten.dispatch.autograd import engine
from triten.dispatch.autograd.node import Node
from triten.dispatch.autograd.node_observation import ObservedNodes


@pytest.fixture
def seen():
    """Record the names of the nodes that run while they are observed."""
    names = []

    def observe(node, backward, grads):
        names.append(node.name())
        return backward(node, *grads)

    observed = ObservedNodes(observe)
    yield names, observed
    observed.close()


def test_graphs_recorded_before_are_seen(seen):
    names, observed = seen
    observed.close()
    w = tt.ones(2, requires_grad=True)
    loss = (w * 3.0).sum()
    again = ObservedNodes(
        lambda node, backward, grads: (names.append(node.name()), backward(node, *grads))[1]
    )
    loss.backward()
    again.close()
    assert names == ["SumBackward0", "MulBackward0", "AccumulateGrad"]
    assert w.grad.tolist() == [3.0, 3.0]


def test_classes_that_come_later_are_seen_once_covered(seen):
    names, observed = seen

    class LateBackward(Node):
        def backward(self, *grads):
            return grads

    class LaterBackward(LateBackward):
        def backward(self, *grads):
            return super().backward(*grads)

    LateBackward().backward(1)
    assert names == []
    observed.cover()
    observed.cover()
    assert LaterBackward().backward(1) == (1,)
    assert names == ["LaterBackward", "LaterBackward"]
    before = LateBackward.backward
    observed.close()
    assert LateBackward.backward is not before
    LateBackward().backward(1)
    assert names == ["LaterBackward", "LaterBackward"]


def test_closing_puts_back_what_was_there():
    classes = {cls: vars(cls).get("backward") for cls in Node.__subclasses__()}
    accumulate = engine.accumulate
    observed = ObservedNodes(lambda node, backward, grads: backward(node, *grads))
    assert engine.accumulate is not accumulate
    assert any(vars(cls).get("backward") is not backward for cls, backward in classes.items())
    observed.close()
    assert engine.accumulate is accumulate
    assert all(vars(cls).get("backward") is backward for cls, backward in classes.items())
