"""Fine-tuning on people's answers."""
