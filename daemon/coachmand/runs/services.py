"""What every run shares: the state directory, the workers, the boundary, the settings."""

from collections.abc import Callable, Mapping

from attrs import Factory, define, field, frozen

from coachman_adapters.conversation import Adapter
from coachman_sandbox.finder import Bwrap
from coachman_sandbox.host import Host
from coachman_sandbox.probe import Probe

from ..config import Config
from ..evidence.index import Index
from ..evidence.state import StateDirectory
from ..repos.pool import GitWorkers
from .admission import Admission
from .scopes import Scopes
from .storage import Storage


@frozen
class Boundary:
    """What this host's walls are made of; ``probe`` says whether they stand."""

    bwrap: Bwrap | None
    probe: Probe
    host: Host


@define
class Services:
    """One daemon's means. ``environment`` is its own; ``generation`` fences its predecessors."""

    state: StateDirectory
    config: Config
    index: Index
    workers: GitWorkers
    adapters: Mapping[str, Adapter]
    boundary: Boundary
    environment: Mapping[str, str]
    generation: int
    boot: str
    python: str
    guest: str
    admission: Admission
    storage: Storage = field(
        default=Factory(lambda self: Storage(self.state.root), takes_self=True)
    )
    scopes: Scopes = field(factory=Scopes)
    on_change: Callable[[], None] = lambda: None
