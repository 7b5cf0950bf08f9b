"""Neural networks: `Module`, the layers over `tt.nn.functional`, containers and initial values (`torch.nn`).

Layers are in `modules/`. Those and `functional` are imported with the first use of a name, so that a program which has
no layers loads none. What computes belongs into operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy_import import lazy_names

_MODULES = {
    ".modules.activation": (
        "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish PReLU RReLU "
        "ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmax2d Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold"
    ),
    ".modules.attention": "MultiheadAttention",
    ".modules.convolution": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    ".modules.containers": "ModuleDict ModuleList ParameterDict ParameterList Sequential",
    ".modules.distance": "CosineSimilarity PairwiseDistance",
    ".modules.dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    ".modules.fractional_pooling": "FractionalMaxPool2d FractionalMaxPool3d",
    ".modules.lazy": (
        "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d "
        "LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear"
    ),
    ".modules.linear": "Bilinear Identity Linear",
    ".modules.linear_cross_entropy": "LinearCrossEntropyLoss",
    ".modules.loss": (
        "BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss GaussianNLLLoss HingeEmbeddingLoss "
        "HuberLoss KLDivLoss L1Loss MSELoss MarginRankingLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss "
        "MultiMarginLoss NLLLoss PoissonNLLLoss SmoothL1Loss SoftMarginLoss TripletMarginLoss "
        "TripletMarginWithDistanceLoss"
    ),
    ".modules.module": "Module",
    ".modules.normalization": (
        "BatchNorm1d BatchNorm2d BatchNorm3d GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm "
        "LocalResponseNorm RMSNorm"
    ),
    ".modules.padding": (
        "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d "
        "ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d "
        "ZeroPad3d"
    ),
    ".modules.parameter": "Buffer Parameter",
    ".modules.pooling": (
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d "
        "AvgPool1d AvgPool2d AvgPool3d LPPool1d LPPool2d LPPool3d MaxPool1d MaxPool2d MaxPool3d"
    ),
    ".modules.recurrent": "GRU LSTM RNN RNNBase",
    ".modules.recurrent_cells": "GRUCell LSTMCell RNNCell RNNCellBase",
    ".modules.resampling": "Fold Unfold Upsample UpsamplingBilinear2d UpsamplingNearest2d",
    ".modules.reshaping": "ChannelShuffle Flatten PixelShuffle PixelUnshuffle Unflatten",
    ".modules.sparse": "Embedding EmbeddingBag",
    ".modules.transformer": (
        "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer"
    ),
    ".modules.uninitialized": "UninitializedBuffer UninitializedParameter",
    ".modules.unpooling": "MaxUnpool1d MaxUnpool2d MaxUnpool3d",
}
"""The names of each module."""

_SUBMODULES = ("attention", "functional", "init", "parameter", "utils")

if TYPE_CHECKING:
    from . import attention as attention
    from . import functional as functional
    from . import init as init
    from . import parameter as parameter
    from . import utils as utils
    from .modules.activation import *
    from .modules.attention import *
    from .modules.containers import *
    from .modules.convolution import *
    from .modules.distance import *
    from .modules.dropout import *
    from .modules.fractional_pooling import *
    from .modules.lazy import LazyBatchNorm1d as LazyBatchNorm1d
    from .modules.lazy import LazyBatchNorm2d as LazyBatchNorm2d
    from .modules.lazy import LazyBatchNorm3d as LazyBatchNorm3d
    from .modules.lazy import LazyConv1d as LazyConv1d
    from .modules.lazy import LazyConv2d as LazyConv2d
    from .modules.lazy import LazyConv3d as LazyConv3d
    from .modules.lazy import LazyConvTranspose1d as LazyConvTranspose1d
    from .modules.lazy import LazyConvTranspose2d as LazyConvTranspose2d
    from .modules.lazy import LazyConvTranspose3d as LazyConvTranspose3d
    from .modules.lazy import LazyInstanceNorm1d as LazyInstanceNorm1d
    from .modules.lazy import LazyInstanceNorm2d as LazyInstanceNorm2d
    from .modules.lazy import LazyInstanceNorm3d as LazyInstanceNorm3d
    from .modules.lazy import LazyLinear as LazyLinear
    from .modules.linear import Bilinear as Bilinear
    from .modules.linear import Identity as Identity
    from .modules.linear import Linear as Linear
    from .modules.linear_cross_entropy import *
    from .modules.loss import *
    from .modules.module import *
    from .modules.normalization import *
    from .modules.padding import *
    from .modules.parameter import *
    from .modules.pooling import *
    from .modules.recurrent import *
    from .modules.recurrent_cells import *
    from .modules.resampling import *
    from .modules.reshaping import *
    from .modules.sparse import *
    from .modules.transformer import *
    from .modules.uninitialized import UninitializedBuffer as UninitializedBuffer
    from .modules.uninitialized import UninitializedParameter as UninitializedParameter
    from .modules.unpooling import *
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES, _SUBMODULES)
