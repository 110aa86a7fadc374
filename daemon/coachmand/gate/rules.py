"""Which destinations a policy allows, and at which addresses they are connected to."""

from __future__ import annotations

from ipaddress import ip_address

from .addresses import is_forbidden, is_public, spelled, unwrapped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .addresses import Address
    from .upstream import Upstream

    Resolve = Callable[[str, int], list[Address]]


class Denied(Exception):  # noqa: N818 - the decision's own word
    """The policy does not allow it; the text is the reason, one word of docs/network.md."""


class Unreachable(Exception):  # noqa: N818 - likewise
    """It is allowed, and cannot be reached: the text says why."""


class Rules:
    """A frozen policy: `places` decides about one destination.

    ``policy``: ``public`` allows every public destination, each of ``destinations`` has ``host``
    (a name, an address, or ``*.`` and a suffix), ``port`` and perhaps ``address``, which the name
    stands for. ``resolve`` is asked once for each request; ``is_local`` knows the addresses of
    this machine. ``upstream`` is the user's own proxy, where there is one.
    """

    def __init__(
        self,
        policy: Mapping[str, Any],
        resolve: Resolve,
        is_local: Callable[[Address], bool],
        upstream: Upstream | None = None,
    ) -> None:
        self._upstream = upstream
        self._public: bool = policy["public"]
        self._resolve = resolve
        self._is_local = is_local
        self._names: dict[tuple[str, int], list[Address]] = {}
        self._suffixes: set[tuple[str, int]] = set()
        self._addresses: set[tuple[Address, int]] = set()
        for each in policy["destinations"]:
            self._add(each["host"], each["port"], each.get("address"))

    def _add(self, host: str, port: int, address: str | None) -> None:
        if host.startswith("*."):
            self._suffixes.add((host[1:], port))
            return
        try:
            self._addresses.add((ip_address(host.strip("[]")), port))
        except ValueError:
            pinned = self._names.setdefault((host, port), [])
            pinned += [ip_address(address)] if address is not None else []

    def places(self, host: str | Address, port: int) -> list[Address]:
        """Where to connect to for a destination; nowhere, where the upstream proxy is to do it.

        Raises Denied, Unreachable.
        """
        if not isinstance(host, str):
            is_named = (host, port) in self._addresses
            self._check(host, port, is_named=is_named)
            return [host] if is_named or self._upstream is None else []
        if pinned := self._names.get((host, port)):
            for address in pinned:
                self._check(address, port, is_named=True)
            return pinned
        if not self._is_named(host, port):
            raise Denied("not_allowed")
        if self._upstream is None or not self._upstream.takes(host):
            return self._resolved(host, port)
        return self._through_upstream(host, port)

    def _through_upstream(self, host: str, port: int) -> list[Address]:
        """A name that only the proxy can resolve is checked by nobody: it must be named itself."""
        try:
            self._resolved(host, port)
        except Unreachable:
            if (host, port) not in self._names:
                raise Denied("unresolved") from None
        return []

    def _is_named(self, host: str, port: int) -> bool:
        if self._public or (host, port) in self._names:
            return True
        return any(port == at and host.endswith(suffix) for suffix, at in self._suffixes)

    def _resolved(self, host: str, port: int) -> list[Address]:
        """The addresses of a name: all of them must be allowed, whichever is connected to."""
        addresses = self._resolve(host, port)
        if not addresses:
            raise Unreachable(f"{spelled(host)} has no address")
        for address in addresses:
            try:
                self._check(
                    address, port, is_named=(address, port) in self._addresses, by_name=True
                )
            except Denied as denied:
                raise Denied(f"resolves_{denied}") from None
        return addresses

    def _check(self, address: Address, port: int, *, is_named: bool, by_name: bool = False) -> None:
        if is_forbidden(address):
            raise Denied("metadata_or_link_local")
        if is_named:
            return
        if not (self._public or by_name):
            raise Denied("not_allowed")
        if not is_public(address):
            raise Denied("not_public")
        if self._is_local(address) or self._is_local(unwrapped(address)):
            raise Denied("this_machine")
