"""Pattern matcher for handwritten attention: ``softmax(scale * query @ key^T + mask) @ value``.

The match starts at the softmax. Before the softmax stand a matmul and steps on scores (a scale, a mask, a cast); after
it stands the matmul with the values. In a joint graph the match includes the derivative: four matmuls and the same
steps on the gradient of the scores. No other step may read the values between the matmuls, such as the weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ..dispatch.layers.graph.graph import Graph, Node
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.scalar_type import float32, float64
from ..runtime.tensor_spec import TensorSpec
from .draws import dropout_call
from .element_order import COPY, VIEWS, Elements, ancestors, elements_of, operator_name, row_major
from .pointwise import bound_arguments

PRODUCTS = frozenset({"aten::mm", "aten::bmm"})
SOFTMAX, SOFTMAX_BACKWARD, CAST = "aten::_softmax", "aten::_softmax_backward_data", "aten::_to_copy"
DROPOUT, DROPOUT_BACKWARD = "aten::native_dropout", "aten::native_dropout_backward"
FILL, ADD = "aten::masked_fill.Scalar", "aten::add.Tensor"
MULTIPLIED = frozenset({"aten::mul.Tensor", "aten::mul.Scalar"})
DIVIDED = frozenset({"aten::div.Tensor", "aten::div.Scalar"})
NUMBERS = (int, float)
"""Types of a scale: a tensor's value is not known."""
ROWS, COLUMNS = "a row for each query", "a row for each key"


class Scores(NamedTuple):
    """Steps from a matmul to a softmax.

    Attributes:
        product: The matmul query @ key^T.
        scale: Product of all factors that the steps apply.
        mask: The addend, or if `is_filled` the bools of the elements set to minus infinity.
        lead: The sizes before queries and keys, at the mask or at the softmax.
    """

    product: Node
    scale: float
    mask: Node | None
    is_filled: bool
    lead: tuple[int, ...]


class Dropout(NamedTuple):
    """Dropout of the attention weights.

    Attributes:
        node: The random op.
        p: The probability of dropping a weight.
        left, keep_mask: The nodes that take its results: the remaining weights and the mask.
    """

    node: Node
    p: float
    left: Node
    keep_mask: Node | None


@dataclass
class Gradients:
    """Derivative of handwritten attention.

    Attributes:
        grad: The gradient of the result, as the matmuls read it.
        of_query, of_key, of_value: The matmuls that compute them, if requested; that of keys may be transposed.
    """

    grad: Node
    of_query: Node | None = None
    of_key: Node | None = None
    of_value: Node | None = None
    key_is_transposed: bool = False


@dataclass
class Attention:
    """Handwritten attention in a graph.

    Attributes:
        scores: The steps before the softmax.
        result: The matmul with the values.
        dropout: The dropout between softmax and matmul, or None.
        gradients: The derivative; None if the graph does not contain it.
    """

    scores: Scores
    result: Node
    dropout: Dropout | None = None
    gradients: Gradients | None = None

    @property
    def query(self) -> Node:
        """Queries as the matmul reads them: (N, L, E), or (L, E)."""
        return _operand(self.scores.product, 0)

    @property
    def key(self) -> Node:
        """Keys, transposed: (N, E, S), or (E, S)."""
        return _operand(self.scores.product, 1)

    @property
    def value(self) -> Node:
        """Values: (N, S, Ev), or (S, Ev)."""
        return _operand(self.result, 1)

    @property
    def lead(self) -> tuple[int, int]:
        """Batches and heads."""
        lead = (1, 1, *self.scores.lead)
        return math.prod(lead[:-1]), lead[-1]

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Queries, keys, and the elements of a query and of a value."""
        return (
            *self.scores.product.val.sizes[-2:],
            self.query.val.sizes[-1],
            self.value.val.sizes[-1],
        )


def has_attention(graph: Graph) -> bool:
    """Return True if a graph has a softmax and at least two matmuls, as attention does."""
    names = [operator_name(node) for node in graph.nodes]
    return SOFTMAX in names and sum(name in PRODUCTS for name in names) > 1


def attentions(graph: Graph) -> list[Attention]:
    """Return every attention in a graph, in order."""
    softmaxes = [n for n in graph.find_nodes(op="call_function") if operator_name(n) == SOFTMAX]
    matches = [_attention(node) for node in softmaxes]
    return [each for each in matches if each is not None]


def flat(node: Node) -> Elements:
    """Return the elements of a matmul's operand as (N, rows, columns)."""
    elements = elements_of(node)
    return (
        elements
        if len(elements.sizes) == 3
        else Elements(elements.root, (1, *elements.sizes), (0, *elements.strides))
    )


def _operand(product: Node, index: int) -> Node:
    node = product.args[index]
    assert isinstance(node, Node)
    return node


def _attention(softmax: Node) -> Attention | None:
    scores_node, dim, _ = bound_arguments(softmax)
    if dim % max(scores_node.val.ndim, 1) != scores_node.val.ndim - 1:
        return None
    scores = _scores(scores_node, scores_node.val.sizes[:-2])
    if scores is None or scores.product.val.sizes[-1] == 1:
        return None
    readers = list(_readers(softmax))
    dropout = _dropout(readers, scores.product)
    if dropout is not None:
        readers = [each for each in readers if each[1] is not dropout.node] + list(_readers(dropout.left))
    attention: Attention | None = None
    derivative: Node | None = None
    of_value: Node | None = None
    for view, user in readers:
        order = _order(view, scores.product)
        if operator_name(user) == SOFTMAX_BACKWARD:
            if order != ROWS or derivative is not None or view is not user.args[1]:
                return None
            derivative = user
        elif operator_name(user) not in PRODUCTS or view is not user.args[0] or view is user.args[1]:
            return None
        elif order == ROWS and attention is None:
            attention = Attention(scores, user, dropout)
        elif order == COLUMNS and of_value is None:
            of_value = user
        else:
            return None
    if attention is None or (derivative is None and of_value is None):
        return attention
    attention.gradients = _gradients(attention, derivative, of_value)
    return None if attention.gradients is None else attention


def _dropout(readers: list[tuple[Node, Node]], product: Node) -> Dropout | None:
    """Return the dropout that reads all weights, or None."""
    for view, user in readers:
        if operator_name(user) != DROPOUT or _order(view, product) != ROWS:
            continue
        call = dropout_call(user)
        left = None if call is None else call.results.get(0)
        if call is not None and left is not None and left is not user:
            return Dropout(user, call.p, left, call.results.get(1))
    return None


def _order(view: Node, product: Node) -> str | None:
    """Return the order in which a view has one element for each query and key, or None."""
    queries, keys = product.val.sizes[-2:]
    elements = flat(view) if view.val.ndim in (2, 3) else elements_of(view)
    if elements.sizes[-2:] == (queries, keys) and elements.strides == row_major(elements.sizes):
        return ROWS
    turned = elements.transposed()
    if turned.sizes[-2:] == (queries, keys) and turned.strides == row_major(turned.sizes):
        return COLUMNS
    return None


def _readers(node: Node) -> Iterator[tuple[Node, Node]]:
    """Yield the readers of a step through views, copies and casts, each with the view that it reads."""
    for user in list(node.users):
        name = operator_name(user)
        if name in VIEWS or name == COPY or (_is_cast(user) and elements_of(node).is_row_major):
            yield from _readers(user)
        else:
            yield node, user
    if not node.users:
        yield node, node


def _is_cast(node: Node) -> bool:
    """Return True if a step casts to a floating-point dtype of at most 32 bits."""
    if operator_name(node) != CAST or not isinstance(node.val, TensorSpec):
        return False
    specs = node.args[0].val, node.val
    return specs[0].device is specs[1].device and all(
        spec.dtype.is_floating_point and spec.dtype is not float64 for spec in specs
    )


def _before(node: Node) -> Node | None:
    """Return the step before a node and its views, copies and casts.

    Return None if another step reads these, or if they change the element order.
    """
    while True:
        path = ancestors(node)
        if not elements_of(node).is_row_major or elements_of(node).root is not path[-1]:
            return None
        if any(len(each.users) != 1 for each in path):
            return None
        node = path[-1]
        if not _is_cast(node):
            return node
        node = node.args[0]


def _scores(node: Node, lead: tuple[int, ...]) -> Scores | None:
    """Return the steps before a softmax, with these sizes before queries and keys."""
    step = _before(node)
    if step is None:
        return None
    name = operator_name(step)
    if name in PRODUCTS:
        return Scores(step, 1.0, None, False, lead)
    if name in MULTIPLIED | DIVIDED:
        inner_scores, factor = _scores(step.args[0], lead), step.args[1]
        if inner_scores is None or factor.__class__ not in NUMBERS or not factor or not math.isfinite(factor):
            return None
        if inner_scores.mask is not None and (factor < 0 or not inner_scores.is_filled):
            return None  # minus infinity is unchanged by a factor, an added number is not
        return inner_scores._replace(
            scale=inner_scores.scale * factor if name in MULTIPLIED else inner_scores.scale / factor
        )
    if name == FILL and step.args[2] == -math.inf:
        return _masked(step, step.args[0], step.args[1], True)
    if name == ADD and step.kwargs.get("alpha", 1) == 1:
        for scores, bias in (step.args, step.args[::-1]):
            if isinstance(scores, Node) and isinstance(bias, Node) and scores.val.sizes == step.val.sizes:
                inner_scores = _masked(step, scores, bias, False)
                if inner_scores is not None:
                    return inner_scores
    return None


def _masked(step: Node, scores: Node, mask: Node, is_filled: bool) -> Scores | None:
    sizes = step.val.sizes
    if scores.val.sizes != sizes or not 2 <= mask.val.ndim <= len(sizes) <= 4:
        return None
    inner_scores = _scores(scores, sizes[:-2])
    if inner_scores is None or inner_scores.mask is not None:
        return None
    mask_dtype = inner_scores.product.val.dtype
    if not is_filled and mask.val.dtype is not mask_dtype and mask.val.dtype is not float32:
        return None
    return inner_scores._replace(mask=mask, is_filled=is_filled, lead=sizes[:-2])


def _gradients(attention: Attention, derivative: Node | None, of_value: Node | None) -> Gradients | None:
    """Return the derivative, matched from the softmax's backward and the matmul that computes the values' gradient."""
    grad = None if of_value is None else _operand(of_value, 1)
    if derivative is not None:
        product = _before(derivative.args[0])
        if attention.dropout is not None:
            product = _before_dropout(product, attention.dropout)
        if product is None or operator_name(product) not in PRODUCTS:
            return None
        own = _operand(product, 0)
        if flat(_operand(product, 1)) != flat(attention.value).transposed():
            return None
        if grad is not None and flat(grad) != flat(own):
            return None
        grad = own
    assert grad is not None
    gradients = Gradients(grad, of_value=of_value)
    if derivative is not None and not _follow(derivative, gradients, attention, 1.0, False):
        return None
    return gradients


def _before_dropout(step: Node | None, dropout: Dropout) -> Node | None:
    """Return the step before the backward of a dropout; None for any other step."""
    if step is None or operator_name(step) != DROPOUT_BACKWARD:
        return None
    grad, mask, scale = step.args
    keep_mask = dropout.keep_mask
    if (
        keep_mask is None
        or mask is not keep_mask
        or set(keep_mask.users) != {step}
        or scale != 1.0 / (1.0 - dropout.p)
    ):
        return None
    return _before(grad)


def _follow(step: Node, gradients: Gradients, attention: Attention, scale: float, is_filled: bool) -> bool:
    """Record the matmuls that read the scores' gradient, after the same steps as those of the scores.

    Return False if the steps differ.
    """
    scores = attention.scores
    for view, user in _readers(step):
        name = operator_name(user)
        if _order(view, scores.product) is None:
            return False
        if name in MULTIPLIED | DIVIDED and view is user.args[0] and user.args[1].__class__ in NUMBERS:
            factor = user.args[1]
            after = scale * factor if name in MULTIPLIED else scale / factor
            if not _follow(user, gradients, attention, after, is_filled):
                return False
        elif name == FILL and view is user.args[0] and user.args[1] is scores.mask and user.args[2] == 0:
            if is_filled or not _follow(user, gradients, attention, scale, True):
                return False
        else:
            is_whole = math.isclose(scale, scores.scale, rel_tol=1e-12) and is_filled == scores.is_filled
            if name not in PRODUCTS or not is_whole or not _note(view, user, gradients, attention):
                return False
    return True


def _note(view: Node, product: Node, gradients: Gradients, attention: Attention) -> bool:
    """Record a matmul that computes the gradient of the queries or the keys. Return False if it computes neither."""
    left, right = product.args[:2]
    how = _order(view, attention.scores.product)
    if left is right:
        return False
    if view is left and how == ROWS and flat(right) == flat(attention.key).transposed():
        is_new, gradients.of_query = gradients.of_query is None, product
    elif view is right and how == ROWS and flat(left) == flat(attention.query).transposed():
        is_new, gradients.of_key, gradients.key_is_transposed = gradients.of_key is None, product, True
    elif view is left and how == COLUMNS and flat(right) == flat(attention.query):
        is_new, gradients.of_key = gradients.of_key is None, product
    else:
        return False
    return is_new


def dtypes(attention: Attention) -> set[ScalarType]:
    """Return the dtypes of the matmuls' operands."""
    return {n.val.dtype for n in (attention.query, attention.key, attention.value, attention.result)}
