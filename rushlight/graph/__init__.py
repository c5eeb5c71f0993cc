"""Programs: what compiled functions do, captured, made faster, and run again.

A compiled function runs as it is, and the operators that it calls are followed along a
path of earlier calls. In the order in which a call meets them:

``capture``
    Follows operators (compiled): tensors get their sizes at once and their elements
    when someone needs them. What was not seen before runs, and is noted.
``module_replay``, ``operator_traces``
    Calls of modules whose trace is proven, taken without their Python (compiled).
``steps``
    A path as a list of steps that can be read and changed.
``fusion``
    Elementwise steps become one kernel, by substitution of their expressions.
``planning``
    Which memory is asked for, handed on and given back, and when.
``program``
    The compiled routine that goes through the steps.
``running``, ``logs``
    What functions are wrapped in; what can be read about all this.
"""
