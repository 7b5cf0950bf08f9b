"""Normalisations over rows, groups and channels."""

from __future__ import annotations

from .arguments import D, T
from .samples import Sample, rows

X, ROW, KEPT = T(), T("b"), T("a 1", low=0.5, high=1.5, dtype="float32", grad=False)
IMAGE, CHANNEL, POSITIVE = T("n g h w"), T("g"), T("g", low=0.5, high=2.0, grad=False)
MEAN = T("g", low=-0.5, high=0.5, grad=False)
GROUPS = T("n 2", low=0.5, high=1.5, grad=False)
GROUPED = (D("n"), D("g"), D("h w"), 2)
CHANNEL_KEPT = T("g", low=0.5, high=1.5, dtype="float32", grad=False)
ALL = [True, True, True]
MEANS, POSITIVES = T("n g", low=-0.5, high=0.5, grad=False), T("n g", low=0.5, high=2.0, grad=False)
COUNTS = T("n", low=4.0, high=8.0, grad=False)

SAMPLES: list[Sample] = [
    *rows("native_layer_norm layer_norm", X, [D("b")], ROW, ROW, 0.1, terms="b", dtypes="f", roundings=4),
    *rows("native_layer_norm", T("n a b"), [D("a"), D("b")], None, None, 0.1, terms="a b", dtypes="f", roundings=4),
    *rows("native_layer_norm_backward", X, X, [D("b")], KEPT, KEPT, ROW, ROW, ALL, terms="a b", dtypes="f",
          roundings=6, backward=False),
    *rows("_fused_rms_norm rms_norm", X, [D("b")], ROW, 0.1, terms="b", dtypes="f", roundings=4),
    *rows("_fused_rms_norm_backward", X, X, [D("b")], KEPT, ROW, [True, True], terms="a b", dtypes="f", roundings=6,
          backward=False),
    *rows("native_group_norm", IMAGE, CHANNEL, CHANNEL, *GROUPED, 0.1, terms="g h w", dtypes="f", roundings=4),
    *rows("group_norm", IMAGE, 2, CHANNEL, CHANNEL, 0.1, terms="g h w", dtypes="f", roundings=4),
    *rows("native_group_norm_backward", IMAGE, IMAGE, GROUPS, GROUPS, CHANNEL, *GROUPED, ALL, terms="n g h w",
          dtypes="f", roundings=6, backward=False),
    *rows("native_batch_norm", IMAGE, CHANNEL, CHANNEL, None, None, True, 0.1, 0.1, terms="n h w", dtypes="f",
          roundings=4),
    *rows("_native_batch_norm_legit.no_stats", IMAGE, CHANNEL, CHANNEL, True, 0.1, 0.1, terms="n h w", dtypes="f",
          roundings=4),
    *rows("_native_batch_norm_legit _native_batch_norm_legit_functional", IMAGE, CHANNEL, CHANNEL, MEAN, POSITIVE, True,
          0.1, 0.1, terms="n h w", dtypes="f", roundings=4),
    *rows("_batch_norm_statistics", IMAGE, MEAN, POSITIVE, 0.1, 0.1, terms="n h w", dtypes="f", roundings=4,
          backward=False),
    *rows("_native_batch_norm_legit_no_training", IMAGE, CHANNEL, CHANNEL, MEAN, POSITIVE, 0.1, 0.1, dtypes="f",
          roundings=4),
    *rows("_batch_norm_with_update _batch_norm_with_update_functional", IMAGE, CHANNEL, CHANNEL, MEAN, POSITIVE, 0.1,
          0.1, terms="n h w", dtypes="f", roundings=4),
    *rows("_batch_norm_no_update", IMAGE, CHANNEL, CHANNEL, MEAN, POSITIVE, 0.1, 0.1, dtypes="f", roundings=4),
    *rows("batch_norm instance_norm", IMAGE, CHANNEL, CHANNEL, MEAN, POSITIVE, True, 0.1, 0.1, True, terms="n h w",
          dtypes="f", roundings=4),
    *rows("batch_norm_stats", IMAGE, 0.1, terms="n h w", dtypes="f", roundings=4),
    *rows("batch_norm_update_stats", IMAGE, MEAN, POSITIVE, 0.1, terms="n h w", dtypes="f", roundings=4),
    *rows("batch_norm_elemt", IMAGE, CHANNEL, CHANNEL, MEAN, POSITIVE, 0.1, dtypes="f", roundings=4),
    *rows("batch_norm_gather_stats", IMAGE, MEANS, POSITIVES, MEAN, POSITIVE, 0.1, 0.01, 5, terms="n", dtypes="f",
          roundings=6),
    *rows("batch_norm_gather_stats_with_counts", IMAGE, MEANS, POSITIVES, MEAN, POSITIVE, 0.1, 0.01, COUNTS, terms="n",
          dtypes="f", roundings=6),
    *rows("batch_norm_backward_reduce", IMAGE, IMAGE, MEAN, POSITIVE, CHANNEL, True, True, True, terms="n h w",
          dtypes="f", roundings=4),
    *rows("batch_norm_backward_elemt", IMAGE, IMAGE, MEAN, POSITIVE, CHANNEL, MEAN, MEAN, COUNTS, dtypes="f",
          roundings=6),
    *rows("batch_norm_backward", IMAGE, IMAGE, CHANNEL, MEAN, POSITIVE, CHANNEL_KEPT, CHANNEL_KEPT, True, 0.1, ALL,
          CHANNEL_KEPT, terms="n h w", dtypes="f", roundings=6, backward=False),
    *rows("native_batch_norm_backward", IMAGE, IMAGE, CHANNEL, None, None, CHANNEL_KEPT, CHANNEL_KEPT, True, 0.1, ALL,
          terms="n h w", dtypes="f", roundings=6, backward=False),
]  # fmt: skip
