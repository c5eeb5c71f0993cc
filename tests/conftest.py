"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# The first call of a kernel compiles it, and machines are busy: how long an example
# takes says nothing about what it shows.
# The examples are the same each time: `--hypothesis-profile=fresh` draws others.
UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("fresh", **UNHURRIED)
settings.register_profile("unhurried", derandomize=True, **UNHURRIED)
settings.load_profile("unhurried")
