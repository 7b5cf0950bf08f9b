"""What normalises rows by a value of their own: softmax and its kin, and their gradients."""
