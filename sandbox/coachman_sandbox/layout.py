"""Where things are inside a sandbox: fixed, so that adapters and prompts can name them."""

WORKSPACE = "/workspace"
WORKSPACE_GIT = "/workspace/.git"
# Git's own "Unable to create '<path>/index.lock': Read-only file system" then says why.
GIT_COMMON = "/git, coachman commits for you"
HOME = "/home/agent"
SCRATCH = "/scratch"
OUTPUT = "/output"
INPUTS = "/inputs"
GUEST = "/run/coachman"
# A run's own socket, the client's package, and the command that speaks to the one with the other.
DELEGATE_SOCKETS = "/run/delegate/socket"
DELEGATE_SOCKET = "/run/delegate/socket/control.sock"
DELEGATE_PACKAGE = "/run/delegate/lib/coachman"
DELEGATE_PATH = "/run/delegate/bin"
TMP = "/tmp"  # noqa: S108 - a path inside the sandbox, a tmpfs of its own
SHM = "/dev/shm"  # noqa: S108 - likewise

CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
# Where other distributions' programs look for the same file.
CA_BUNDLE_ALIASES = (
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
)

PATH_DIRECTORIES = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
)
HOSTNAME = "coachman"
USER = "agent"

TMP_BYTES = 1024**3
SHM_BYTES = 256 * 1024**2
MASK_BYTES = 64 * 1024
