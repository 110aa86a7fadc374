"""What one connection may take up: more for the user's own clients than for an agent's."""

from attrs import frozen

from coachman.wire import (
    DELEGATE_CONNECTIONS,
    DELEGATE_DESCRIPTORS,
    DELEGATE_REQUEST_LINE_BYTES,
    DELEGATE_REQUESTS_IN_FLIGHT,
    MAX_REQUEST_LINE_BYTES,
    MAX_REQUESTS_IN_FLIGHT,
)


@frozen
class Bounds:
    """``connections`` at once on one socket (None: any number), each with so much in flight.

    ``hostile``: what clients send along, a socket that lingers for one, may stall whoever lets go
    of it, which is then never the daemon's loop. Of ``descriptors`` each connection may hand over
    so many at once; none are taken where nobody is hostile, for they are the user and name paths.
    """

    line_bytes: int
    in_flight: int
    connections: int | None = None
    hostile: bool = False
    descriptors: int = 0


OF_CLIENTS = Bounds(MAX_REQUEST_LINE_BYTES, MAX_REQUESTS_IN_FLIGHT)
OF_DELEGATES = Bounds(
    DELEGATE_REQUEST_LINE_BYTES,
    DELEGATE_REQUESTS_IN_FLIGHT,
    DELEGATE_CONNECTIONS,
    hostile=True,
    descriptors=DELEGATE_DESCRIPTORS,
)
