"""Names of runs and tasks: ids, handles, slugs and their shapes."""

import re
import secrets
import time
import unicodedata

# Crockford's base 32: no letter that is mistaken for a digit.
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
HANDLE_LENGTH = 5
RUN_ID = re.compile(rf"\d{{6}}-\d{{6}}-([{ALPHABET}]{{{HANDLE_LENGTH}}})")
TASK_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
SLUG_CHARACTERS = 32


def new_run_id(now_s: float | None = None) -> str:
    """A run id: the UTC second, then five random characters, its handle."""
    stamp = time.strftime("%y%m%d-%H%M%S", time.gmtime(now_s))
    return f"{stamp}-{''.join(secrets.choice(ALPHABET) for _ in range(HANDLE_LENGTH))}"


def is_run_id(text: str) -> bool:
    """Whether ``text`` is a whole run id."""
    return RUN_ID.fullmatch(text) is not None


def handle_of(run: str) -> str:
    """The last five characters of a run id, by which people name it."""
    return run[-HANDLE_LENGTH:]


def task_name_fault(name: str) -> str | None:
    """Why ``name`` cannot name a task, or None where it can."""
    if not TASK_NAME.fullmatch(name):
        return "use at most 63 of a-z, 0-9, '.', '_' and '-', a letter or digit first"
    if ".." in name or name.endswith((".", ".lock")):
        return "git takes no '..', trailing '.' or '.lock' in a ref"
    if is_run_id(name):
        return "it has the shape of a run id"
    return None


def slug(text: str) -> str:
    """A few words of ``text`` that a task may be named by; empty where none are usable."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", ascii_text)
    name = ""
    for word in words[:6]:
        if len(name) + len(word) >= SLUG_CHARACTERS:
            break
        name = f"{name}-{word}" if name else word
    return name


def task_from_prompt(prompt: str, run: str) -> str:
    """A task's name when none is given: a slug of the prompt plus the handle."""
    return "-".join(filter(None, [slug(prompt.split("\n", 1)[0]), handle_of(run)]))
