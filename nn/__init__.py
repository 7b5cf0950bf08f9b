"""Neural networks: `Module`, the layers over `tt.nn.functional`, containers and initial values (`torch.nn`).

Layers are in `modules/`. Those and `functional` are imported with the first use of a name, so that a program which has
no layers loads none. What computes belongs into operators.
"""

from __future__ import annotations

from .._lazy_names import lazy_names

_MODULES = {
    "activation": (
        "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish PReLU RReLU "
        "ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmax2d Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold"
    ),
    "attention": "MultiheadAttention",
    "convolution": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "containers": "ModuleDict ModuleList ParameterDict ParameterList Sequential",
    "distance": "CosineSimilarity PairwiseDistance",
    "dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "fractional_pooling": "FractionalMaxPool2d FractionalMaxPool3d",
    "lazy": (
        "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d "
        "LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear"
    ),
    "linear": "Bilinear Identity Linear",
    "linear_cross_entropy": "LinearCrossEntropyLoss",
    "loss": (
        "BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss GaussianNLLLoss HingeEmbeddingLoss "
        "HuberLoss KLDivLoss L1Loss MSELoss MarginRankingLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss "
        "MultiMarginLoss NLLLoss PoissonNLLLoss SmoothL1Loss SoftMarginLoss TripletMarginLoss "
        "TripletMarginWithDistanceLoss"
    ),
    "module": "Module",
    "normalization": (
        "BatchNorm1d BatchNorm2d BatchNorm3d GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm "
        "LocalResponseNorm RMSNorm"
    ),
    "padding": (
        "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d "
        "ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d "
        "ZeroPad3d"
    ),
    "parameter": "Buffer Parameter",
    "pooling": (
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d "
        "AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d LPPool3d MaxPool1d MaxPool2d MaxPool3d"
    ),
    "recurrent": "GRU LSTM RNN RNNBase",
    "recurrent_cells": "GRUCell LSTMCell RNNCell RNNCellBase",
    "resampling": "Fold Unfold Upsample UpsamplingBilinear2d UpsamplingNearest2d",
    "reshaping": "ChannelShuffle Flatten PixelShuffle PixelUnshuffle Unflatten",
    "sparse": "Embedding EmbeddingBag",
    "transformer": (
        "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer"
    ),
    "uninitialized": "UninitializedBuffer UninitializedParameter",
    "unpooling": "MaxUnpool1d MaxUnpool2d MaxUnpool3d",
}
"""The names of each module."""

_PLACES = {name: f"modules.{module}" for module, names in _MODULES.items() for name in names.split()}
_SUBMODULES = {name: name for name in ("attention", "functional", "init", "parameter", "utils")}

__all__ = [*sorted(_SUBMODULES), *sorted(_PLACES)]

__getattr__, __dir__ = lazy_names(__name__, __name__, _PLACES, _SUBMODULES)
