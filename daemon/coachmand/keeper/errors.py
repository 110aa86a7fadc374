"""What a keeper refuses: to start, to do as a peer asks, to read what a peer sent."""


class LaunchError(Exception):
    """The keeper cannot start; the text says why."""


class Refused(Exception):  # noqa: N818 - the protocol's own word
    """One request is refused: a code for programs, a text for people, more reply members."""

    def __init__(self, code: str, text: str, **members: object) -> None:
        super().__init__(text)
        self.code = code
        self.members = members


class Garbage(Exception):  # noqa: N818 - says what arrived
    """A peer sent what cannot be a message; its connection ends."""
