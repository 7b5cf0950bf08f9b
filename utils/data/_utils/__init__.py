"""What lies below PyTorch's data loaders, by the paths at which programs reach into it (`torch.utils.data._utils`)."""

from . import collate as collate
from . import worker as worker
