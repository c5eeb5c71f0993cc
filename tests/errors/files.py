"""Checkpoints that were cut short."""

from .table import cut_checkpoint, mistake


@mistake(
    EOFError,
    """
Ran out of input: PATH is empty
""",
)
def an_empty_checkpoint(rl):
    # Meant: the file before its writer was killed.
    with cut_checkpoint(rl, 0) as path:
        rl.load(path)


@mistake(
    RuntimeError,
    """
PytorchStreamReader failed reading zip archive: no directory of records (File is not \
a zip file)
  file: PATH, 10 bytes
  it is damaged or was cut short while it was written or copied: fetch it again, or \
load an earlier checkpoint
""",
)
def the_first_bytes_of_a_checkpoint(rl):
    # Meant: the file before its writer was killed.
    with cut_checkpoint(rl, 10) as path:
        rl.load(path)


@mistake(
    RuntimeError,
    """
PytorchStreamReader failed reading zip archive: no directory of records (File is not \
a zip file)
  file: PATH, 700 bytes
  it is damaged or was cut short while it was written or copied: fetch it again, or \
load an earlier checkpoint
""",
)
def half_of_a_checkpoint(rl):
    # Meant: the whole file.
    with cut_checkpoint(rl, 700) as path:
        rl.load(path)


@mistake(
    FileNotFoundError,
    """
[Errno 2] No such file or directory: 'no/such/checkpoint.pt'
""",
)
def a_checkpoint_that_is_not_there(rl):
    # Meant: the name that it was saved under.
    rl.load("no/such/checkpoint.pt")
