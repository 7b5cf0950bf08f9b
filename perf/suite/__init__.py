"""Benchmark suite: workloads as data, their measurement, the result file, and its comparison.

`results` defines the file format, for readers and plots; `run` and `compare` are the commands. A suite is a
module of `workloads/`: a table of statements that triten and its baselines run unchanged.
"""
