"""How often a test looks whether something came to be: soon at first, then seldom.

A look may read all of /proc, or a whole journal; what takes seconds is not hurried by it.
"""

from collections.abc import Iterator

SOONEST_S = 0.005
SELDOM_S = 0.1
FACTOR = 1.4


def pauses() -> Iterator[float]:
    """Seconds between one look and the next."""
    pause_s = SOONEST_S
    while True:
        yield pause_s
        pause_s = min(SELDOM_S, pause_s * FACTOR)
