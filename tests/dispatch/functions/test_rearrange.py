"""`tt.func.rearrange`: patterns give PyTorch's results."""

import pytest

import triten as tt
from triten.func import rearrange

X = tt.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("pattern", "lengths", "shape", "first"),
    [
        ("b h w -> b (h w)", {}, (2, 12), [0, 1, 2, 3]),
        ("b h w -> w (b h)", {}, (4, 6), [0, 4, 8, 12]),
        ("b (h1 h2) w -> b h1 h2 w", {"h1": 3}, (2, 3, 1, 4), [0, 1, 2, 3]),
        ("b h (w1 w2) -> (w2 h) b w1", {"w2": 2}, (6, 2, 2), [0, 2, 12, 14]),
        ("b ... -> ... b", {}, (3, 4, 2), [0, 12, 1, 13]),
        ("b ... w -> b w ...", {}, (2, 4, 3), [0, 4, 8, 1]),
        ("b h w -> b 1 h () w", {}, (2, 1, 3, 1, 4), [0, 1, 2, 3]),
        ("... -> (...)", {}, (24,), [0, 1, 2, 3]),
        ("b ... -> (... b) 1", {}, (24, 1), [0, 12, 1, 13]),
        ("(a b) ... -> a b ...", {"a": 2}, (2, 1, 3, 4), [0, 1, 2, 3]),
        ("a b c ... -> ... c b a", {}, (4, 3, 2), [0, 12, 4, 16]),
    ],
)
def test_patterns(device, pattern, lengths, shape, first):
    found = rearrange(X.to(device), pattern, **lengths)
    assert found.shape == shape and found.flatten()[:4].tolist() == first


def test_several_tensors_are_stacked():
    parts = [tt.ones(2, 3), tt.zeros(2, 3)]
    assert tt.equal(rearrange(parts, "n a b -> a b n"), tt.stack(parts, -1))
    assert rearrange(tuple(parts), "n a b -> (n a) b").shape == (4, 3)


def test_dimensions_of_size_1_come_and_go():
    assert rearrange(tt.ones(2, 1, 3), "a 1 b -> a b").shape == (2, 3)
    assert rearrange(tt.ones(2, 1, 3), "a () b -> 1 a b ()").shape == (1, 2, 3, 1)
    assert rearrange(tt.tensor(3.0), "-> 1").shape == (1,)
    assert rearrange(tt.ones(1, 1), "1 1 ->").shape == ()


def test_views_and_gradients():
    x = tt.ones(2, 3, requires_grad=True)
    y = rearrange(x, "a b -> b a")
    assert y.data_ptr() == x.data_ptr()
    (y * tt.arange(6.0).view(3, 2)).sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
    assert tt.func.vmap(lambda t: rearrange(t, "a b -> (b a)"))(tt.ones(4, 2, 3)).shape == (4, 6)


@pytest.mark.parametrize(
    ("pattern", "lengths", "message"),
    [
        ("b h w", {}, "must contain a single '->'"),
        ("b h w -> b -> h", {}, "must contain a single '->'"),
        ("b h w -> b h", {}, r"Identifiers only on one side .*\{'w'\}"),
        ("b h w -> b h w w", {}, "contains duplicate dimension 'w'"),
        ("b h w -> (b h w", {}, "Imbalanced parentheses"),
        ("b h w -> b) h w", {}, "Imbalanced parentheses"),
        ("b ((h) w) -> b h w", {}, "brackets inside brackets not allowed"),
        ("b h w -> b h w", {"z": 3}, r"not found in rearrange expression: \{'z'\}"),
        ("b (h) w -> b h w", {"h": 4}, "dimension 1 of size 3 does not fit"),
        ("b (h1 h2) w -> b h1 h2 w", {"h1": 2}, "dimension 1 of size 3 does not fit"),
        ("b (x y) w -> b x y w", {}, "cannot infer the sizes of two dimensions at once"),
        ("2 h w -> h w 2", {}, "only supports unnamed axes of size 1"),
        ("1 h w -> h w", {}, "dimension 0 of size 2 does not fit"),
        ("b _ w -> b _ w", {}, "Invalid axis identifier: _"),
        ("b h. w -> b h. w", {}, "dots only inside ellipsis"),
        ("... h ... -> h", {}, "only one ellipsis"),
        ("(b ...) -> b ...", {}, "ellipsis inside parentheses"),
        ("b h -> h b", {}, "names 2 dimensions, expected 3"),
        ("a b c d -> a b c d", {}, "names 4 dimensions, expected 3"),
    ],
)
def test_patterns_that_do_not_fit(pattern, lengths, message):
    with pytest.raises(ValueError, match=message):
        rearrange(X, pattern, **lengths)
