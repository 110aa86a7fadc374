"""What tokens cost where the agent does not say: asked of a short-lived program beside it."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog
import trio
from attrs import frozen

log = structlog.get_logger("pricing")
PROGRAM = Path(__file__).with_name("prices.py")
COUNTERS = ("input", "cached_input", "output", "reasoning")
MAX_TOKENS = 2**53
LIMIT_S = 10.0
# Each is a fifth of a second of one processor and 40 MiB.
_AT_ONCE = trio.CapacityLimiter(2)


@frozen
class Price:
    """What the tokens cost, and by which table."""

    usd: float
    price_version: str


async def price_of(
    provider: str, model: str, usage: Mapping[str, Any], at_ms: int, python: str = sys.executable
) -> Price | None:
    """The price of a run's tokens, at the prices of ``at_ms``.

    None where the table does not have the model at this provider, where the counters say
    nothing, and after every error, which is logged: a price is not worth a run.
    """
    tokens = counted(usage)
    if tokens is None:
        return None
    question = {"provider": provider, "model": model, "at_ms": at_ms, **tokens}
    try:
        async with _AT_ONCE:
            answer = await _ask(python, question)
        return Price(**answer) if answer else None
    except (OSError, ValueError, TypeError, trio.TooSlowError) as error:
        log.warning("price_unknown", provider=provider, model=model, error=str(error))
        return None


def counted(usage: Mapping[str, Any]) -> dict[str, int] | None:
    """Tokens that can be priced; None where there are none or the counters make no sense."""
    tokens = {name: usage.get(name, 0) for name in COUNTERS}
    if not all(type(count) is int and 0 <= count < MAX_TOKENS for count in tokens.values()):
        return None
    without_reasoning = sum(tokens.values()) - tokens["reasoning"]
    if usage.get("total") == without_reasoning:
        # This agent's output includes its reasoning.
        tokens["reasoning"] = min(tokens["reasoning"], tokens["output"])
        tokens["output"] -= tokens["reasoning"]
    return tokens if any(tokens.values()) else None


async def _ask(python: str, question: Mapping[str, Any]) -> dict[str, Any] | None:
    with trio.fail_after(LIMIT_S):
        done = await trio.run_process(
            [python, "-I", str(PROGRAM)],
            stdin=json.dumps(question).encode(),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env={},
        )
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise ValueError(f"{PROGRAM.name} exited with status {done.returncode}: {last}")
    return json.loads(done.stdout)  # type: ignore[no-any-return]
