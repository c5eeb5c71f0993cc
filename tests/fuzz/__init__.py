"""A fuzzer of operators: random calls made on both sides, PyTorch being the judge.

``make fuzz`` runs 100,000 cases in processes of their own. A case is a number:
``python -m tests.fuzz --case N`` shows it again.

`specs` says what a tensor is, in data, and builds it on either side; `draw` turns a
number into a call; `judge` makes the call on both sides and compares; `known` lists the
differences that have an explanation.
"""
