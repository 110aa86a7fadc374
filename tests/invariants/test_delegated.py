"""What passes over a run's own socket is decided for every method and every parameter."""

from collections.abc import Iterator

from attrs import field, frozen

from coachmand.methods import build_registry, delegated
from coachmand.methods.delegates import parameters_of
from coachmand.rpc.registry import Method, Registry

# What to do about whatever is listed: put it into one of the tables of methods/delegated.py.
CLASSIFY = "say in daemon/coachmand/methods/delegated.py whether an agent may use this"


def unclassified(registry: Registry) -> Iterator[str]:
    for name, method in registry.methods.items():
        if name in delegated.CLOSED:
            continue
        if name not in delegated.ALLOWED:
            yield name
            continue
        told = delegated.ALLOWED[name] | set(delegated.REFUSED.get(name, {}))
        yield from (f"{name} {each}" for each in parameters_of(method.params) if each not in told)


def test_every_method_and_parameter_is_classified() -> None:
    """Whoever adds a method or a parameter says whether a run may use it over its own socket."""
    assert sorted(unclassified(build_registry())) == [], CLASSIFY


def test_what_is_classified_exists() -> None:
    """The tables name nothing that the wire does not have, and nothing twice."""
    methods = build_registry().methods
    known = {name: set(parameters_of(method.params)) for name, method in methods.items()}
    named = {
        method: delegated.ALLOWED[method] | set(delegated.REFUSED.get(method, {}))
        for method in delegated.ALLOWED
    }

    assert set(delegated.CLOSED) | set(delegated.ALLOWED) == set(methods)
    assert set(delegated.CLOSED) & set(delegated.ALLOWED) == set()
    assert set(delegated.REFUSED) <= set(delegated.ALLOWED)
    assert {m: named[m] - known[m] for m in named if named[m] - known[m]} == {}
    assert [
        method
        for method, refused in delegated.REFUSED.items()
        if delegated.ALLOWED[method] & set(refused)
    ] == []


def test_a_new_parameter_would_be_found() -> None:
    """The check above sees a parameter that nobody classified, also within an object."""

    @frozen
    class Inner:
        known: int = 0
        new: int = 0

    @frozen
    class Params:
        run: str = ""
        secret: str | None = None
        inner: Inner = field(factory=Inner)

    registry = Registry()
    method = Method("run.get", "", Params, None, (), inline=False, waits=False)
    registry.methods = {"run.get": method, "run.new": method}

    assert sorted(unclassified(registry)) == [
        "run.get inner",
        "run.get inner.known",
        "run.get inner.new",
        "run.get secret",
        "run.new",
    ]
