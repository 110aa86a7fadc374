"""Looks one price up: a question on stdin, the answer on stdout.

A program of its own, started for one question. The library and its table take 0.2 s and 27 MiB;
a daemon that held them would carry them for the rest of its life, for a number per run. Nothing
here touches the network: the table is the one that the library was installed with.
"""

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from genai_prices import Usage, __version__, calc_price
from genai_prices.types import ModelPrice, TieredPrices

COST_DIGITS = 9
# Where the table's name of a provider is not the one that agents use.
PROVIDERS = {
    "amazon-bedrock": "aws",
    "azure-openai": "azure",
    "bedrock": "aws",
    "fireworks-ai": "fireworks",
    "gemini": "google",
    "google-vertex": "google",
    "google-vertex-anthropic": "google",
    "mistralai": "mistral",
    "moonshot": "moonshotai",
    "togetherai": "together",
    "vertex": "google",
    "xai": "x-ai",
}


def look_up(question: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the tokens of {provider, model, at_ms, input, cached_input, output, reasoning} cost.

    ``input`` is without what was cached, ``output`` without the reasoning. None where the table
    has no such provider or model, or prices it by something other than tokens.
    """
    cached, reasoning = question["cached_input"], question["reasoning"]
    usage = Usage(
        input_tokens=question["input"] + cached,
        cache_read_tokens=cached,
        output_tokens=question["output"] + reasoning,
        output_reasoning_tokens=reasoning,
    )
    prices = _prices(question)
    if prices is None:
        return None
    usd = prices.calc_price(usage)["total_price"]
    return {"usd": round(float(usd), COST_DIGITS), "price_version": f"genai-prices {__version__}"}


def _prices(question: Mapping[str, Any]) -> ModelPrice | None:
    name = question["provider"].strip().lower()
    provider = PROVIDERS.get(name, name)
    try:
        found = calc_price(
            Usage(),
            question["model"],
            provider_id=provider,
            genai_request_timestamp=datetime.fromtimestamp(question["at_ms"] / 1000, UTC),
        )
    except LookupError:
        return None
    # The library also takes a provider for one whose name contains its own; a proxy is none.
    if found.provider.id != provider:
        return None
    prices = {key: _first_tier(price) for key, price in vars(found.model_price).items()}
    by_tokens = prices.get("input_mtok") and prices.get("output_mtok")
    return ModelPrice(**prices) if by_tokens and not prices.get("requests_kcount") else None


def _first_tier(price: Decimal | TieredPrices | None) -> Decimal | None:
    """A run's sum over many requests says nothing about how long any of them was."""
    return price.base if isinstance(price, TieredPrices) else price


if __name__ == "__main__":
    json.dump(look_up(json.load(sys.stdin)), sys.stdout)
