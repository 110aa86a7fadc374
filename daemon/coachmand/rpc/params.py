"""Request parameters to attrs classes, and complaints that name the member.

cattrs converts leniently by default (``"1"`` to 1, 0 to False); on the wire a
value either has the type that the class declares or is refused.
"""

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import attrs
from cattrs import (
    AttributeValidationNote,
    ClassValidationError,
    Converter,
    ForbiddenExtraKeysError,
    IterableValidationError,
)
from cattrs.cols import (
    homogenous_tuple_structure_factory,
    list_structure_factory,
    mapping_structure_factory,
)
from cattrs.gen import make_dict_structure_fn

from coachmand.rpc.errors import RpcError

SHOWN_VALUE_CHARS = 60

# What a number counts, by the unit that its member's name ends in.
_UNITS = {"_s": " of seconds", "_ms": " of milliseconds", "_bytes": " of bytes"}

Hook = Callable[[Any, Any], Any]
T = TypeVar("T")


@attrs.frozen
class NoParams:
    """No parameters."""


class NotAcceptableError(ValueError):
    """A value that a member may not have; the text completes "`member` must be …"."""

    def __init__(self, words: str, *path: str | int) -> None:
        super().__init__(words)
        self.path = path


def must(words: str, holds: Callable[[Any], bool]) -> Callable[[Any, Any, Any], None]:
    """An attrs validator for parameter classes: "`member` must be <words>, not …"."""

    def validate(_instance: Any, attribute: Any, value: Any) -> None:
        if not holds(value):
            raise NotAcceptableError(words, attribute.name)

    return validate


def must_each(words: str, holds: Callable[[Any], bool]) -> Callable[[Any, Any, Any], None]:
    """The same for each item of an array: "`member[0]` must be <words>, not …"."""

    def validate(_instance: Any, attribute: Any, value: Any) -> None:
        for number, item in enumerate(value):
            if not holds(item):
                raise NotAcceptableError(words, attribute.name, number)

    return validate


def structure(members: Mapping[str, Any], cls: type[T], action: str) -> T:
    """The members of a request as an instance of ``cls``.

    Raises RpcError InvalidParams "cannot <action>: …", whose ``detail.member`` is the
    path of the first member at fault.
    """
    try:
        return _CONVERTER.structure(members, cls)
    except (ClassValidationError, IterableValidationError) as error:
        path, fault = _first_fault(error)
    raise _refusal(path, fault, action, members)


def near(name: str, known: Iterable[str]) -> str | None:
    """The known name that ``name`` was probably meant to be."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return matches[0] if matches else None


def members_of(cls: type) -> Iterator[tuple[str, type | None]]:
    """The members of a parameter class, each with the class that its objects are of, if any."""
    attrs.resolve_types(cls)
    for member in attrs.fields(cls):
        kinds = _alternatives(member.type) or (member.type,)
        yield member.name, next((kind for kind in kinds if attrs.has(kind)), None)


# --- strict hooks ---------------------------------------------------------------


def _accepts(words: str, *types: type) -> Hook:
    """A hook that takes instances of ``types``; a boolean is no number."""

    def check(value: Any, _target: Any) -> Any:
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise NotAcceptableError(words)
        return value

    return check


def _choice(value: Any, literal: Any) -> Any:
    choices = get_args(literal)
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise NotAcceptableError("one of " + ", ".join(map(str, choices)))
    return value


def _is_literal(annotation: Any) -> bool:
    origin: Any = get_origin(annotation)
    return origin is Literal


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) not in (Union, UnionType):
        return ()
    return tuple(member for member in get_args(annotation) if member is not NoneType)


def _any_of(annotation: Any) -> Hook:
    """A hook for unions: the first alternative that takes the value."""

    def check(value: Any, _target: Any) -> Any:
        if value is None and NoneType in get_args(annotation):
            return None
        words = []
        for member in _alternatives(annotation):
            try:
                return _CONVERTER.structure(value, member)
            except NotAcceptableError as error:
                words.append(str(error))
        raise NotAcceptableError(" or ".join(words))

    return check


def _guarded(words: str, accepted: type, factory: Callable[[Any, Converter], Hook]) -> Any:
    """A hook factory that checks the JSON container before cattrs iterates over it."""

    def make(annotation: Any, converter: Converter) -> Hook:
        inner = factory(annotation, converter)
        check = _accepts(words, accepted)
        return lambda value, target: inner(check(value, target), target)

    return make


def _attrs_factory(cls: Any, converter: Converter) -> Hook:
    return make_dict_structure_fn(
        cls, converter, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=True
    )


def _converter() -> Converter:
    converter = Converter(detailed_validation=True)
    converter.register_structure_hook(str, _accepts("a string", str))
    converter.register_structure_hook(int, _accepts("an integer", int))
    converter.register_structure_hook(float, _accepts("a number", int, float))
    converter.register_structure_hook(bool, _accepts("true or false", bool))
    converter.register_structure_hook_func(_is_literal, _choice)
    containers: list[tuple[Callable[[Any], bool], Any]] = [
        (lambda kind: len(_alternatives(kind)) > 1, _any_of),
        (attrs.has, _guarded("an object", dict, _attrs_factory)),
        (
            lambda kind: get_origin(kind) in (dict, Mapping),
            _guarded("an object", dict, mapping_structure_factory),
        ),
        (
            lambda kind: get_origin(kind) in (list, Sequence),
            _guarded("an array", list, list_structure_factory),
        ),
        (
            lambda kind: get_origin(kind) is tuple,
            _guarded("an array", list, homogenous_tuple_structure_factory),
        ),
    ]
    for predicate, factory in containers:
        converter.register_structure_hook_factory(predicate, factory)
    return converter


_CONVERTER = _converter()


# --- complaints -----------------------------------------------------------------

Path = tuple[str | int, ...]


def _first_fault(error: BaseException) -> tuple[Path, BaseException]:
    """The path and the cause of the first fault in cattrs' tree of errors."""
    path: Path = ()
    while isinstance(error, ClassValidationError | IterableValidationError):
        noted, plain = error.group_exceptions()
        if plain:
            return path, plain[0]
        error, note = noted[0]
        path = (*path, note.name if isinstance(note, AttributeValidationNote) else note.index)
    return path, error


def _refusal(path: Path, fault: BaseException, action: str, members: Any) -> RpcError:
    if isinstance(fault, ForbiddenExtraKeysError):
        unknown = min(fault.extra_fields)
        path = (*path, unknown)
        text = _unknown(path, near(unknown, attrs.fields_dict(fault.cl)))
    elif isinstance(fault, KeyError):
        text = f"`{_dotted(path)}` is required"
    elif isinstance(fault, NotAcceptableError):
        path = (*path, *fault.path)
        text = f"`{_dotted(path)}` must be {fault}{_unit(path, fault)}, not {_shown(members, path)}"
    else:
        text = f"`{_dotted(path)}` is not acceptable" if path else "the parameters do not fit"
    return RpcError("InvalidParams", f"cannot {action}: {text}", detail={"member": _dotted(path)})


def _unknown(path: Path, nearest: str | None) -> str:
    hint = f"; did you mean `{nearest}`?" if nearest else ""
    return f"unknown member `{_dotted(path)}`{hint}"


def _dotted(path: Path) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")[:200]


def _unit(path: Path, fault: NotAcceptableError) -> str:
    if not str(fault).endswith(("a number", "an integer")):
        return ""
    name = next((step for step in reversed(path) if isinstance(step, str)), "")
    return next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), "")


def _shown(members: Any, path: Path) -> str:
    value = members
    for step in path:
        value = value[step]
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_VALUE_CHARS else text[:SHOWN_VALUE_CHARS] + "…"
