"""What can be said of an operator."""

import enum

from rushlight.dispatch.declared import FUNCTIONAL, IMPLEMENTATION, INPLACE, KIND, TAGS

Tag = enum.IntEnum(
    "Tag",
    """
    core cudagraph_unsafe data_dependent_output dynamic_output_shape flexible_layout
    generated inplace inplace_view maybe_aliasing_or_mutating needs_contiguous_strides
    needs_exact_strides needs_fixed_stride_order nondeterministic_bitwise
    nondeterministic_seeded out out_variant pointwise pt2_compliant_tag reduction
    view_copy
    """,
    module=__name__,
    start=0,
)
Tag.__doc__ = """What can be said of an operator.

Args:
    value: the tag's number.

>>> Tag.pointwise.name
'pointwise'
"""

# What programs say of operators that they define.
GIVEN: dict = {}
# Words of a declaration, and what they say.
_SAID = {
    "random": Tag.nondeterministic_seeded,
    "data_dependent": Tag.dynamic_output_shape,
    "pointwise": Tag.pointwise,
    "reduction": Tag.reduction,
}


def tags_of(op):
    """What can be said of an operator, in the order of the tags' names.

    Args:
        op: the operator.

    >>> import rushlight as rl
    >>> [tag.name for tag in tags_of(rl.ops.aten.add_.Tensor)]
    ['inplace', 'pointwise', 'pt2_compliant_tag']
    """
    found = set(GIVEN.get(op, ()))
    if op.entry:
        words = *op.entry[TAGS], op.entry[IMPLEMENTATION][KIND]
        found |= {_SAID[word] for word in words if word in _SAID}
        found.add(Tag.pt2_compliant_tag)
    if op.form != FUNCTIONAL:
        found.add(Tag.inplace if op.form == INPLACE else Tag.out)
    return sorted(found, key=lambda tag: tag.name)
