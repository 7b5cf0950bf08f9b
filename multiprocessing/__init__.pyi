from multiprocessing import *

from . import reductions as reductions
from .namespace import *
