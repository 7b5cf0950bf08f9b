"""The benchmark suite: workloads as data, how they are measured, the result file, and how two are compared.

`results` is the file's format, for whoever reads or draws it; `run` and `compare` are the commands. A suite is a module
of `workloads/`, a table of statements that triten and its peers run as they stand.
"""
