"""The profiler: records of operators, kernels, memory and devices, their tables and exports."""
