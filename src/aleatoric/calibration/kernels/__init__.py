"""One pass over logits, three times: `naive` (numpy, the oracle), `torch_pass`, `triton_pass`."""
