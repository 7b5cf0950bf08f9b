"""`load_url`, the former name of `tt.hub.load_state_dict_from_url` (`torch.utils.model_zoo`)."""

from ..hub import load_state_dict_from_url as load_url
from ..hub import tqdm as tqdm

__all__ = ["load_url"]
