"""How processes are joined for calls."""

__all__ = ["TensorPipeRpcBackendOptions"]

DEFAULT_TIMEOUT, DEFAULT_INIT_METHOD, DEFAULT_THREADS = 60.0, "env://", 16


class TensorPipeRpcBackendOptions:
    """How processes are joined for calls.

    Args:
        num_worker_threads: without effect: each call has a thread.
        rpc_timeout: seconds that a call may take; 0 for any time.
        init_method: where processes meet, as for ``init_process_group``.
        device_maps: without effect on the host.
        devices: without effect on the host.
    """

    def __init__(
        self,
        *,
        num_worker_threads=DEFAULT_THREADS,
        rpc_timeout=DEFAULT_TIMEOUT,
        init_method=DEFAULT_INIT_METHOD,
        device_maps=None,
        devices=None,
        _transports=None,
        _channels=None,
    ):
        self.num_worker_threads = num_worker_threads
        self.rpc_timeout, self.init_method = rpc_timeout, init_method
        self.device_maps, self.devices = device_maps or {}, devices or []

    def set_device_map(self, to, device_map):
        """Say where tensors go on another process: without effect on the host.

        Args:
            to: the process.
            device_map: devices by devices.
        """
        self.device_maps[to] = device_map

    def set_devices(self, devices):
        """Say which devices are used: without effect on the host.

        Args:
            devices: the devices.
        """
        self.devices = devices
