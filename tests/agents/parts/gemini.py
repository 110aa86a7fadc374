"""Gemini CLI with an API key, its API on loopback."""

from model_server import ModelServer

from parts.part import Part


def _env(model: ModelServer) -> dict[str, str]:
    return {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{model.port}"}


GEMINI = Part(
    name="gemini",
    adapter="gemini",
    executable="@google/gemini-cli/bundle/gemini.js",
    wrong_session="00000000-0000-4000-8000-000000000000",
    env=_env,
    model="gemini-2.5-flash",
    # Its tools' ids are a name, a time and a count.
    ids=(r"\b(write_file__write_file_|run_shell_command__run_shell_command_)\d{13}_\d+",),
)
