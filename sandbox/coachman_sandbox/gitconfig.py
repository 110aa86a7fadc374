"""The repository's configuration as an agent may see it: no remotes, commands or credentials."""

import re

# What git needs to read the objects and the tree as the repository meant it.
CORE_KEYS = frozenset(
    {
        "autocrlf",
        "eol",
        "filemode",
        "ignorecase",
        "precomposeunicode",
        "repositoryformatversion",
        "symlinks",
    }
)
# Not worktreeConfig, which makes git read a second file that may hold anything,
# nor partialClone, which names a remote.
EXTENSION_KEYS = frozenset(
    {"compatobjectformat", "noop", "objectformat", "preciousobjects", "refstorage"}
)
KEPT = {"core": CORE_KEYS, "extensions": EXTENSION_KEYS}

_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)(?:\s+"(?:[^"\\]|\\.)*")?\s*\]')
_VARIABLE = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?$")
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9._-]{0,64}$")


def scrub(text: str) -> str:
    """The text of a configuration file that holds only harmless ``core`` and ``extensions`` keys.

    Anything that is not understood is left out. Subsections, ``include``s and
    values beyond plain words never cross.
    """
    kept: dict[str, dict[str, str]] = {section: {} for section in KEPT}
    section = ""
    for line in _logical_lines(text):
        rest = line.strip()
        while found := _SECTION.match(rest):
            section = found[1].lower() if '"' not in found[0] else ""
            rest = rest[found.end() :].strip()
        variable = _VARIABLE.match(rest)
        if variable and variable[1].lower() in KEPT.get(section, ()):
            _keep(kept[section], variable[1].lower(), variable[2])
    kept["core"].setdefault("repositoryformatversion", "0")
    return "".join(_render(name, variables) for name, variables in kept.items() if variables)


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    continued = False
    for line in text.replace("\r\n", "\n").split("\n"):
        # A comment does not continue, whatever it ends in.
        continues = line.endswith("\\") and not line.lstrip().startswith(("#", ";"))
        part = line.removesuffix("\\") if continues else line
        if continued:
            lines[-1] += part
        else:
            lines.append(part)
        continued = continues
    return lines


def _keep(variables: dict[str, str], name: str, value: str | None) -> None:
    plain = "true" if value is None else re.split(r"\s*[#;]", value, maxsplit=1)[0].strip(' \t"')
    if _PLAIN_VALUE.match(plain):
        variables[name] = plain


def _render(section: str, variables: dict[str, str]) -> str:
    lines = [f"\t{name} = {value}\n" for name, value in sorted(variables.items())]
    return f"[{section}]\n{''.join(lines)}"
