"""The profiler: what it records, of operators, kernels, memory and devices, and how that is shown and exported."""
