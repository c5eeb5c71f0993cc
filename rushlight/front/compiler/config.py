"""Settings of compiled programs that PyTorch has in one place: kept for programs that set them."""

from rushlight.utils._settings import copier, patcher, sealed

cache_key_tag = ""
dynamic_sources = ""
force_disable_caches = False
job_id = None
pgo_extra_read_key = None
pgo_extra_write_key = None
unbacked_sources = ""

patch = patcher(__name__)
get_config_copy = shallow_copy_dict = copier(__name__)
__getattr__ = sealed(__name__)
