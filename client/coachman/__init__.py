"""The client of coachmand, without a dependency.

>>> import coachman
>>> with coachman.connect(autostart=True) as client:
...     run = client.run.start("fix the flaky test", dir="/src/app", agent="opencode")
...     for event in client.events(run["run"]):
...         print(event["type"])
...     print(client.run.result(run["run"])["outcome"])
"""

from .client import Client, connect
from .errors import CoachmanError, ConnectionLostError, DaemonNotRunning, UsageError
from .events import EventStream

__version__ = "0.1.0"

__all__ = [
    "Client",
    "CoachmanError",
    "ConnectionLostError",
    "DaemonNotRunning",
    "EventStream",
    "UsageError",
    "__version__",
    "connect",
]
