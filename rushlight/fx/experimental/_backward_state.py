"""What a forward pass leaves for the sweep back, beside tensors."""


class BackwardState:
    """Attributes that are set after the forward pass and read in the sweep back.

    Attributes:
        proxy: the argument of the recorded program that it is.
    """

    proxy = None
