"""Checkpoints of folders as one file of ``save``, and back."""

import rushlight as rl
from rushlight.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from rushlight.distributed.checkpoint.filesystem import (
    FileSystemReader,
    FileSystemWriter,
)
from rushlight.distributed.checkpoint.state_dict_loader import _load
from rushlight.distributed.checkpoint.state_dict_saver import _save
from rushlight.distributed.checkpoint.utils import Together

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir, torch_save_path):
    """Make one file of ``save`` of a folder.

    Args:
        dcp_checkpoint_dir: the folder.
        torch_save_path: the file.
    """
    found: dict = {}
    reader = FileSystemReader(dcp_checkpoint_dir)
    _load(found, reader, Together(use_dist=False), _EmptyStateDictLoadPlanner())
    rl.save(found, torch_save_path)


def torch_save_to_dcp(torch_save_path, dcp_checkpoint_dir):
    """Make a folder of one file of ``save``.

    Args:
        torch_save_path: the file.
        dcp_checkpoint_dir: the folder.
    """
    state = rl.load(torch_save_path)
    _save(state, FileSystemWriter(dcp_checkpoint_dir), Together(use_dist=False))
