"""The parts that real agents play in tests: how a user of each has it set up for the model."""

from parts.acp import CLAUDE_AGENT_ACP, CODEX_ACP
from parts.claude import CLAUDE
from parts.codex import CODEX_APP_SERVER, CODEX_EXEC
from parts.gemini import GEMINI
from parts.opencode import OPENCODE
from parts.part import Part
from parts.pi import PI
from parts.qwen import QWEN

PARTS: dict[str, Part] = {
    part.name: part
    for part in (
        CLAUDE,
        CLAUDE_AGENT_ACP,
        CODEX_ACP,
        CODEX_APP_SERVER,
        CODEX_EXEC,
        GEMINI,
        OPENCODE,
        PI,
        QWEN,
    )
}

__all__ = ["PARTS", "Part"]
