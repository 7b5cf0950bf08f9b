"""Neural network functions and layers."""
