"""How ``einsum`` chooses the order of its products."""

enabled = False
strategy = None


def is_available():
    """Whether the opt_einsum package chooses the order: no, it goes from the left."""
    return False


def get_opt_einsum():
    """The package: None."""
    return None
