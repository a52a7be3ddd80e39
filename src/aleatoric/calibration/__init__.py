"""Token level: from a model's logits at reference tokens to calibration errors, as a stream."""
