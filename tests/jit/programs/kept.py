"""What files of programs begin with: a list of them, and tensors to call them with."""


def prepared(torch):
    """The list of a file's programs, what adds to it, and a maker of tensors."""
    programs = []

    def program(*operands):
        """Keeps a program with what it is called with."""

        def keep(thing):
            programs.append((thing.__name__, thing, operands))
            return thing

        return keep

    def values(*shape):
        count = 1
        for size in shape:
            count *= size
        return torch.arange(count, dtype=torch.float32).reshape(shape) / 7 - 1

    return programs, program, values
