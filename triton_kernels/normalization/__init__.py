"""Softmax and norms: results as large as their input, each element of which depends on a row, a group or a channel.

`vectors.py` cuts rows that begin anywhere into whole vectors and edges. Softmax, layer_norm, rms_norm and groups that
fit are one pass over whole rows; batch_norm and longer groups go by the stages of `channel_norm.py`.
"""
