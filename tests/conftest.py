"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# The first call of a kernel compiles it, and machines are busy: how long an example
# takes says nothing about what it shows.
settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")
