"""Which hosts an agent speaks to: its providers', and where its user says that APIs are."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from urllib.parse import urlsplit

# By the names that agents have for them: the variables with their credentials, and their hosts, in
# which a variable in braces stands for its value. Hosts that many share are named no further than
# they must be: whoever may reach all buckets of a cloud can leave things in one of their own.
PROVIDERS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "anthropic": (
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_OAUTH_TOKEN"),
        ("api.anthropic.com", "platform.claude.com", "console.anthropic.com", "claude.ai"),
    ),
    "openai": (("OPENAI_API_KEY",), ("api.openai.com", "auth.openai.com", "chatgpt.com")),
    "openai-codex": ((), ("api.openai.com", "auth.openai.com", "chatgpt.com")),
    "google": (
        ("GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GOOGLE_API_KEY"),
        ("generativelanguage.googleapis.com",),
    ),
    "google-vertex": (
        ("GOOGLE_CLOUD_API_KEY", "GOOGLE_CLOUD_PROJECT", "ANTHROPIC_VERTEX_PROJECT_ID"),
        (
            *("aiplatform.googleapis.com", "oauth2.googleapis.com"),
            "{GOOGLE_CLOUD_LOCATION}-aiplatform.googleapis.com",
            "{CLOUD_ML_REGION}-aiplatform.googleapis.com",
        ),
    ),
    "amazon-bedrock": (
        ("AWS_ACCESS_KEY_ID", "AWS_BEARER_TOKEN_BEDROCK"),
        ("bedrock-runtime.{AWS_REGION}.amazonaws.com", "bedrock.{AWS_REGION}.amazonaws.com"),
    ),
    "azure": (
        ("AZURE_API_KEY", "AZURE_OPENAI_API_KEY"),
        ("{AZURE_RESOURCE_NAME}.openai.azure.com", "{AZURE_OPENAI_RESOURCE_NAME}.openai.azure.com"),
    ),
    "foundry": (
        ("ANTHROPIC_FOUNDRY_API_KEY",),
        ("{ANTHROPIC_FOUNDRY_RESOURCE}.services.ai.azure.com",),
    ),
    "cerebras": (("CEREBRAS_API_KEY",), ("api.cerebras.ai",)),
    "cloudflare": (("CLOUDFLARE_API_KEY",), ("api.cloudflare.com", "gateway.ai.cloudflare.com")),
    "deepseek": (("DEEPSEEK_API_KEY",), ("api.deepseek.com",)),
    "fireworks": (("FIREWORKS_API_KEY",), ("api.fireworks.ai",)),
    "github-copilot": (
        ("COPILOT_GITHUB_TOKEN", "GITHUB_TOKEN"),
        ("api.github.com", "*.githubcopilot.com", "models.github.ai"),
    ),
    "groq": (("GROQ_API_KEY",), ("api.groq.com",)),
    "huggingface": (("HF_TOKEN",), ("router.huggingface.co",)),
    "baseten": (("BASETEN_API_KEY",), ("inference.baseten.co",)),
    "kimi": (("KIMI_API_KEY",), ("api.kimi.com", "api.moonshot.ai")),
    "minimax": (("MINIMAX_API_KEY",), ("api.minimax.io",)),
    "mistral": (("MISTRAL_API_KEY",), ("api.mistral.ai",)),
    "moonshotai": (("MOONSHOT_API_KEY",), ("api.moonshot.ai", "api.moonshot.cn")),
    "nvidia": (("NVIDIA_API_KEY",), ("integrate.api.nvidia.com",)),
    "opencode": (("OPENCODE_API_KEY",), ("opencode.ai",)),
    "openrouter": (("OPENROUTER_API_KEY",), ("openrouter.ai",)),
    "togetherai": (("TOGETHER_API_KEY",), ("api.together.xyz", "api.together.ai")),
    "vercel": (("AI_GATEWAY_API_KEY",), ("ai-gateway.vercel.sh",)),
    "xai": (("XAI_API_KEY",), ("api.x.ai",)),
    "zai": (("ZAI_API_KEY", "ZHIPU_API_KEY"), ("api.z.ai", "open.bigmodel.cn")),
}
# Variables whose values are where an API is.
_URL_NAME = re.compile(r"(?:.*_)?(?:BASE_URL|API_BASE|ENDPOINT|HOST)")
# In JSON, TOML and YAML alike: a key that ends so, with a URL for its value.
_URL_KEY = re.compile(
    r"""(?i)\b[\w.-]*(?:base_?-?ur[li]|api_?base|endpoint)["']?\s*[:=]\s*"""
    r"""["']?(https?://[^"'\s,}\]]+)"""
)
_COMMENT = ("#", "//")
_PORTS = {"http": 80, "https": 443}


def of_url(url: str) -> str | None:
    """A URL's host and port as a destination; None where it has none."""
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    if not host or port is None or "%" in host or "*" in host:
        return None
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def of_urls(names: Iterable[str], environment: Mapping[str, str]) -> Iterator[str]:
    """Where the agent's own variables say that its APIs are."""
    for name in sorted(names):
        url = environment.get(name) if _URL_NAME.fullmatch(name) else None
        if url and (found := of_url(url)):
            yield found


def of_keys(names: Iterable[str], environment: Mapping[str, str]) -> Iterator[str]:
    """Where those are whose keys the agent's own variables hold."""
    given = {name for name in names if environment.get(name)}
    for variables, hosts in PROVIDERS.values():
        if given.intersection(variables):
            yield from (filled for host in hosts if (filled := _filled(host, environment)))


def _filled(host: str, environment: Mapping[str, str]) -> str | None:
    """The host with the values of its variables; None where one is not set."""
    try:
        return host.format_map(dict(environment))
    except (KeyError, ValueError, AttributeError, IndexError):
        return None


def of_settings(content: bytes) -> Iterator[str]:
    """What a file of the user's settings says of where APIs are."""
    text = content.decode("utf-8", "replace")
    for line in text.splitlines():
        if not line.lstrip().startswith(_COMMENT):
            yield from filter(None, map(of_url, _URL_KEY.findall(line)))


def of_credentials(content: bytes) -> Iterator[str]:
    """Whose logins a file of credentials holds, where it names them as its members."""
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        return
    for name in told if isinstance(told, dict) else ():
        yield from (host for host in PROVIDERS.get(name, ((), ()))[1] if "{" not in host)
