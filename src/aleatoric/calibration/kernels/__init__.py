"""Kernels for one pass over logits: `naive` (numpy, the reference), torch, numba and Triton."""
