"""Tests of the interpreter are collected where it runs kernels: to import it ends the compiling of kernels."""

import os

collect_ignore_glob = [] if os.environ.get("TRITEN_CUDA") == "interpret" else ["test_*.py"]
