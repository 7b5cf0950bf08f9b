"""Fourier transforms (`torch.fft`): operators named ``fft_*``, without the prefix.

Example:
    >>> import triten as tt
    >>> tt.fft.rfft(tt.ones(4)).real
    tensor([4., 0., 0.])
"""

from .dispatch.generated.functions import fft_fft as fft
from .dispatch.generated.functions import fft_fft2 as fft2
from .dispatch.generated.functions import fft_fftfreq as fftfreq
from .dispatch.generated.functions import fft_fftn as fftn
from .dispatch.generated.functions import fft_fftshift as fftshift
from .dispatch.generated.functions import fft_hfft as hfft
from .dispatch.generated.functions import fft_hfft2 as hfft2
from .dispatch.generated.functions import fft_hfftn as hfftn
from .dispatch.generated.functions import fft_ifft as ifft
from .dispatch.generated.functions import fft_ifft2 as ifft2
from .dispatch.generated.functions import fft_ifftn as ifftn
from .dispatch.generated.functions import fft_ifftshift as ifftshift
from .dispatch.generated.functions import fft_ihfft as ihfft
from .dispatch.generated.functions import fft_ihfft2 as ihfft2
from .dispatch.generated.functions import fft_ihfftn as ihfftn
from .dispatch.generated.functions import fft_irfft as irfft
from .dispatch.generated.functions import fft_irfft2 as irfft2
from .dispatch.generated.functions import fft_irfftn as irfftn
from .dispatch.generated.functions import fft_rfft as rfft
from .dispatch.generated.functions import fft_rfft2 as rfft2
from .dispatch.generated.functions import fft_rfftfreq as rfftfreq
from .dispatch.generated.functions import fft_rfftn as rfftn

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]
