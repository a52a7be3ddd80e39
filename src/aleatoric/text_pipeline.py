"""Where the stages of the text level meet: corpus -> texts -> distances -> results."""
