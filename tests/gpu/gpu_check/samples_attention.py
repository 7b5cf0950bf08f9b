"""Attention: what is public, and the operators that it picks. Those of one device alone have a reason instead."""

from __future__ import annotations

from .arguments import B, T
from .samples import Sample, rows

Q, K, V = T("n 6 a c"), T("n 6 b c"), T("n 6 b g")
GROUPED = T("n 3 b c"), T("n 3 b g")
ROUNDINGS = 8
"""The scores, their exponentials, the weights and the sums round on their way."""

SAMPLES: list[Sample] = [
    *rows("scaled_dot_product_attention", Q, K, V, dtypes="f", terms="b c", roundings=ROUNDINGS),
    *rows("scaled_dot_product_attention", Q, K, V, B("n 1 a b"), dtypes="f", terms="b c", roundings=ROUNDINGS),
    *rows("scaled_dot_product_attention", Q, K, V, T("a b"), dtypes="f", terms="b c", roundings=ROUNDINGS),
    *rows("scaled_dot_product_attention", Q, *GROUPED, None, 0.0, True, enable_gqa=True, dtypes="f", terms="b c",
          roundings=ROUNDINGS),
    *rows("scaled_dot_product_attention", T("n 2 a 136"), T("n 2 b 136"), T("n 2 b 256"), None, 0.0, True, dtypes="f",
          terms="b 136", roundings=ROUNDINGS),
    *rows("_scaled_dot_product_attention_math", Q, K, V, None, 0.0, True, dtypes="f", terms="b c",
          roundings=2 * ROUNDINGS),
]  # fmt: skip
