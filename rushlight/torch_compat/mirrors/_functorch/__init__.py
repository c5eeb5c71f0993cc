"""Names that PyTorch keeps its transformations of functions under."""
