"""The last collectives of a group, kept for when one of them fails."""

import os
import pickle
import time
from collections import deque

from rushlight.distributed.transport.frames import call_facts

VERSION = "2.10"  # of the files that PyTorch's `fr_trace` reads
READ_BY_PYTORCH = """
    all_gather all_reduce all_to_all barrier broadcast gather reduce reduce_scatter scatter
""".split()


class FlightRecorder:
    """The last collectives of a group: what, when, and how far they came.

    Args:
        size: how many.
    """

    def __init__(self, size=200):
        self.entries = deque(maxlen=size)
        self.group, self.ranks = None, [0]

    def join(self, group, ranks):
        """Take what a file says of the group.

        Args:
            group: the group, for its name and what it is for.
            ranks: the global rank of each of its ranks.
        """
        self.group, self.ranks = group, ranks

    def record(self, call):
        """Note that a collective has been asked for; its entry, a list."""
        entry = [call, "scheduled", time.time(), None]
        self.entries.append(entry)
        return entry

    def dump(self):
        """The entries as dicts, oldest first."""
        return [
            {
                "sequence_number": call.sequence,
                "operator": call.operator,
                "call": str(call),
                "state": state,
                "time_created": started,
                "time_completed": ended,
            }
            for call, state, started, ended in self.entries
        ]

    def _entry(self, number, call, state, started, ended):
        """A collective in the words of PyTorch's files."""
        dtype, sizes = call_facts(call.signature)
        kinds = [dtype] if sizes else []
        return {
            "record_id": number,
            "pg_id": 0,
            "process_group": (self.group.group_name, self.group.group_desc),
            "collective_seq_id": call.sequence,
            "p2p_seq_id": 0,
            "op_id": call.sequence,
            "profiling_name": f"gloo:{call.operator}",
            "time_created_ns": int(started * 1e9),
            "input_sizes": [sizes],
            "input_dtypes": kinds,
            "output_sizes": [sizes],
            "output_dtypes": kinds,
            "state": "completed" if state == "completed" else "started",
            "time_discovered_started_ns": int(started * 1e9),
            "time_discovered_completed_ns": None if ended is None else int(ended * 1e9),
            "retired": ended is not None,
            "timeout_ms": 0,
            "is_p2p": False,
            "frames": [],
        }

    def as_pytorch(self):
        """What PyTorch's ``torch.distributed.flight_recorder.fr_trace`` reads."""
        known = [e for e in self.entries if e[0].operator in READ_BY_PYTORCH]
        ranks = ", ".join(map(str, self.ranks))
        name, description = self.group.group_name, self.group.group_desc
        config = {"name": name, "desc": description, "ranks": f"[{ranks}]"}
        return {
            "version": VERSION,
            "pg_config": {name: config},
            "pg_status": {},
            "entries": [self._entry(i, *entry) for i, entry in enumerate(known)],
        }

    def write_file(self):
        """Write the entries where ``TORCH_FR_DUMP_TEMP_FILE`` says, behind it the rank."""
        prefix = os.environ.get("TORCH_FR_DUMP_TEMP_FILE")
        if not prefix or self.group is None:
            return
        try:
            with open(f"{prefix}{self.ranks[self.group.rank()]}", "wb") as file:
                pickle.dump(self.as_pytorch(), file)
        except OSError:
            pass  # what failed before is what is to be told
