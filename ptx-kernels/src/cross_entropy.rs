//! Cross entropy of logits, forward and backward.
