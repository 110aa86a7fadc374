"""What every run shares: the state directory, the workers, the boundary, the settings."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from attrs import Factory, define, field

from coachman_adapters.conversation import Adapter

from ..config import Config
from ..config_file import ConfigFile
from ..evidence.index import Index
from ..evidence.state import StateDirectory
from ..journal.order import Order
from ..permissions.exchange import Exchanges
from ..permissions.places import Places
from ..permissions.programs import Programs
from ..repos.pool import GitWorkers
from .admission import Admission
from .boundary import Boundary, Outlook
from .ending.sentinel import Sentinels
from .following.feeds import Feeds
from .following.notices import Notices
from .keepers.scopes import Scopes
from .locks import Locks
from .storage import Storage
from .tidying.survivors import Survivors

if TYPE_CHECKING:
    from .credentials.logins import Logins
    from .families import Families
    from .run import Run


async def _offer_nothing(_run: "Run") -> None:
    """Without methods there is nothing to ask."""


@define
class Means:
    """What runs are made of, whether or not a daemon serves any: the host and what is configured.

    ``environment`` is the daemon's own, ``boot`` the machine's boot, ``python`` the interpreter,
    ``guest`` the directory of the programs that run inside.
    """

    state: StateDirectory
    config: Config
    config_file: ConfigFile
    adapters: Mapping[str, Adapter]
    outlook: Outlook
    environment: Mapping[str, str]
    boot: str
    python: str
    guest: str
    scopes: Scopes = field(factory=Scopes, kw_only=True)

    @property
    def boundary(self) -> Boundary:
        """The walls of this host as they were last seen."""
        return self.outlook.last


@define
class Services(Means):
    """One daemon's means. ``generation`` fences its predecessors."""

    index: Index
    workers: GitWorkers
    generation: int
    admission: Admission
    storage: Storage = field(
        default=Factory(lambda self: Storage(self.state.root), takes_self=True)
    )
    order: Order = field(factory=Order)
    survivors: Survivors = field(factory=Survivors)
    sentinels: Sentinels = field(
        default=Factory(lambda self: Sentinels(self.state), takes_self=True)
    )
    # One makes a task's worktree at a time: runs that only read begin beside others.
    trees: Locks = field(factory=Locks)
    exchanges: Exchanges = field(factory=Exchanges)
    programs: Programs = field(factory=Programs)
    hooks: Places = field(factory=Places)
    notices: Notices = field(
        default=Factory(lambda s: Notices(s.config.notify, s.environment), takes_self=True)
    )
    feeds: Feeds = field(
        default=Factory(
            lambda s: Feeds(s.state, s.programs, s.environment, s.boot, s.storage.write),
            takes_self=True,
        )
    )
    on_change: Callable[[], None] = lambda: None
    families: "Families" = field(init=False)
    logins: "Logins" = field(init=False)
    # Serves a run's own socket for as long as it lives.
    offer: "Callable[[Run], Awaitable[None]]" = _offer_nothing
