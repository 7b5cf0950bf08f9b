"""Neural networks: `Module`, the layers over `tt.nn.functional`, containers and initialization (`torch.nn`).

`modules/` holds the layers. The modules and `functional` are imported at the first use of a name, so that a program
without layers loads none. Computation belongs in operators, not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy_import import lazy_names

_MODULES = {
    ".modules.activation": (
        "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish "
        "MultiheadAttention PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softmax Softmax2d Softmin Softplus Softshrink "
        "Softsign Tanh Tanhshrink Threshold"
    ),
    ".modules.adaptive": "AdaptiveLogSoftmaxWithLoss",
    ".modules.batchnorm": "BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm",
    ".modules.channelshuffle": "ChannelShuffle",
    ".modules.container": "Container ModuleDict ModuleList ParameterDict ParameterList Sequential",
    ".modules.conv": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    ".modules.distance": "CosineSimilarity PairwiseDistance",
    ".modules.dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    ".modules.lazy": (
        "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d "
        "LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear"
    ),
    ".modules.linear": "Bilinear Identity Linear",
    ".modules.linear_cross_entropy": "LinearCrossEntropyLoss LinearCrossEntropyOptions",
    ".modules.loss": (
        "BCELoss BCEWithLogitsLoss CTCLoss CosineEmbeddingLoss CrossEntropyLoss GaussianNLLLoss HingeEmbeddingLoss "
        "HuberLoss KLDivLoss L1Loss MSELoss MarginRankingLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss "
        "MultiMarginLoss NLLLoss NLLLoss2d PoissonNLLLoss SmoothL1Loss SoftMarginLoss TripletMarginLoss "
        "TripletMarginWithDistanceLoss"
    ),
    ".modules.module": "Module",
    ".modules.instancenorm": "InstanceNorm1d InstanceNorm2d InstanceNorm3d",
    ".modules.normalization": "CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm",
    ".modules.padding": (
        "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d "
        "ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d "
        "ZeroPad3d"
    ),
    ".modules.parameter": "Buffer Parameter",
    ".modules.pooling": (
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d "
        "AvgPool1d AvgPool2d AvgPool3d FractionalMaxPool2d FractionalMaxPool3d LPPool1d LPPool2d LPPool3d MaxPool1d "
        "MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d"
    ),
    ".modules.rnn": "GRU GRUCell LSTM LSTMCell RNN RNNBase RNNCell RNNCellBase",
    ".modules.fold": "Fold Unfold",
    ".modules.upsampling": "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
    ".modules.flatten": "Flatten Unflatten",
    ".modules.pixelshuffle": "PixelShuffle PixelUnshuffle",
    ".modules.sparse": "Embedding EmbeddingBag",
    ".modules.transformer": (
        "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer"
    ),
    ".modules.uninitialized": "UninitializedBuffer UninitializedParameter",
    ".parallel.data_parallel": "DataParallel",
}
"""The names of each module."""

_SUBMODULES = ("attention", "functional", "grad", "init", "modules", "parallel", "parameter", "utils")

if TYPE_CHECKING:
    from . import attention as attention
    from . import functional as functional
    from . import grad as grad
    from . import init as init
    from . import modules as modules
    from . import parallel as parallel
    from . import parameter as parameter
    from . import utils as utils
    from .modules import *
    from .parallel.data_parallel import DataParallel as DataParallel
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _MODULES, _SUBMODULES)
