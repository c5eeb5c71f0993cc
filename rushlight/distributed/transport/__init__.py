"""How octets go between the processes of a group: connections, frames, shared memory."""
