"""Steps of LSTM and GRU cells: everything of a step but the products, forward and backward.

Nothing else may be imported from here than what registers the kernels.
"""
