"""What nodes of a graph need from around them."""


def names_in(node):
    """The names that a node needs, those that its graphs take from around, too."""
    found = [one for one in node.input if one]
    for attribute in node.attribute:
        inner = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
        for graph in inner:
            made = {one.name for one in graph.input} | {
                one.name for one in graph.initializer
            }
            for child in graph.node:
                found += [one for one in names_in(child) if one not in made]
                made.update(child.output)
            found += [one.name for one in graph.output if one.name not in made]
    return found


def renamed(node, names):
    """Lets a node read other names, in its graphs, too.

    Args:
        node: the message of the node.
        names: new names by the present ones.
    """
    for at, one in enumerate(node.input):
        if one in names:
            node.input[at] = names[one]
    for attribute in node.attribute:
        inner = [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
        for graph in inner:
            for child in graph.node:
                renamed(child, names)
