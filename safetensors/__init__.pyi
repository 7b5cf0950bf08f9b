from .namespace import *
