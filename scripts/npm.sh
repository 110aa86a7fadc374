# Installs a set of npm packages at pinned versions, outside the repository; POSIX sh, sourced
# with ROOT set by the scripts beside it.
# shellcheck shell=sh

# locked NAME CACHE --where|"": prints the directory of scripts/NAME.lock, installed unless --where.
locked() {
    lock="$ROOT/scripts/$1.lock"
    # A new pin gets a new directory, so that one cache serves several checkouts.
    directory="$2/$(cat "$lock/package.json" "$lock/package-lock.json" | cksum | cut -d ' ' -f 1)"
    if [ "$3" != --where ] && [ ! -e "$directory/complete" ]; then
        install_locked "$1"
    fi
    printf '%s\n' "$directory"
}

install_locked() {
    if ! command -v npm >/dev/null 2>&1; then
        echo "cannot install what scripts/$1.lock names: npm was not found on PATH
  next: install Node.js 20 or newer with npm" >&2
        exit 69
    fi
    mkdir -p "$directory"
    cp "$lock/package.json" "$lock/package-lock.json" "$directory/"
    # Not `npm ci`: it wants the lock file to name the binaries of every platform, also of those
    # that the package never published. What the lock file does name is checked by content.
    npm install --prefix "$directory" --no-save --no-audit --no-fund --loglevel=error >&2 || exit
    : >"$directory/complete"
}
