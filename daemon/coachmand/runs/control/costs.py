"""What a run cost: what its agent told, else its tokens at the provider's prices."""

from typing import TYPE_CHECKING, Any

from ...evidence.pricing import price_of

if TYPE_CHECKING:
    from ..run import Run

# Which of subscription, metered and local pays is the account's business; nothing tells it yet.
BILLING = "unknown"
# An agent with one provider has another one behind such a setting.
ELSEWHERE = "_BASE_URL"


def reported(usd: float) -> dict[str, Any]:
    """A cost as the agent told it."""
    return {"usd": usd, "source": "reported", "price_version": None, "billing": BILLING}


async def cost_of(run: "Run") -> dict[str, Any] | None:
    """{usd, source, price_version, billing}; None where nobody can say."""
    view, record = run.view, run.fixed
    if view.cost_usd is not None:
        return reported(view.cost_usd)
    spec = run.services.adapters[record.adapter].spec
    only = None if any(name.endswith(ELSEWHERE) for name in record.environment) else spec.pricing
    provider, model = served_by(view.model or record.model, view.provider, only)
    if not view.usage or provider is None or model is None:
        return None
    at_ms = view.started_ms or record.created_ms
    price = await price_of(provider, model, view.usage, at_ms, run.services.python)
    if price is None:
        return None
    return {
        "usd": price.usd,
        "source": "calculated",
        "price_version": price.price_version,
        "billing": BILLING,
    }


def served_by(
    model: str | None, told: str | None, only: str | None
) -> tuple[str | None, str | None]:
    """The provider and its own name of the model; nothing is concluded from a bare model name.

    ``told`` is what the agent says, ``only`` the provider of an agent that has one. A model may
    be spelled "provider/model", and at an aggregator its name may hold a slash of its own.
    """
    if model is None:
        return told or only, None
    prefix, slash, name = model.partition("/")
    if told is None and only is None:
        return (prefix, name) if slash and prefix and name else (None, model)
    provider = told or only
    return provider, name if slash and prefix == provider else model
