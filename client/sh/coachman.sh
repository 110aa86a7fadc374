#!/bin/sh
# A client of coachman's daemon for a shell: socat (or nc of OpenBSD, or ncat) and jq are enough.
# It starts no daemon and holds no state; docs/clients/sh.md says more.

usage() {
    cat <<'EOF'
usage: coachman.sh VERB
  status                     the daemon and its load; needs no jq
  list                       the living runs and those of the last 12 hours
  tail X [SEQ]               the events of a run, behind SEQ, until it ends
  answer X CHOICE [MESSAGE]  its oldest question: allow, deny, always, or an option's id;
                             what it asks in words: the answer
  prompt X TEXT              another prompt; - reads it from stdin. An ended run is resumed as another
  interrupt X [TEXT]         end the turn that runs; TEXT, or - for stdin, comes next
  close X...                 end kept runs once they have nothing more to do
  cancel X...                end runs now
X is a run's id, its handle, a unique prefix of either, a task, or @. With --json before the
verb the daemon's result is printed as it is.
EOF
}

# fail CODE TEXT [REMEDY]
fail() {
    printf 'cannot %s\n' "$2" >&2
    [ -z "${3:-}" ] || printf '  %s\n' "$3" >&2
    exit "$1"
}

socket_path() {
    if [ -n "${COACHMAN_SOCKET:-}" ]; then
        socket=$COACHMAN_SOCKET
    elif [ -n "${XDG_RUNTIME_DIR:-}" ] && [ -z "${COACHMAN_STATE_DIR:-}" ]; then
        socket=$XDG_RUNTIME_DIR/coachman/control.sock
    else
        socket=${COACHMAN_STATE_DIR:-${XDG_STATE_HOME:-${HOME:-~}/.local/state}/coachman}/control.sock
    fi
    [ -S "$socket" ] || nobody
}

nobody() {
    fail 69 "reach the daemon: nobody listens on $socket" "start it: coachman daemon start"
}

find_program() {
    if command -v socat >/dev/null; then
        program=socat
    elif command -v nc >/dev/null && case $(nc -h 2>&1) in *OpenBSD*) ;; *) false ;; esac then
        program=nc
    elif command -v ncat >/dev/null; then
        program=ncat
    else
        fail 69 "reach the daemon: there is neither socat nor an nc that knows Unix sockets" \
            "install socat or netcat-openbsd"
    fi
}

# Lines to the daemon, its lines back, until it has answered all. From the socket's directory,
# since the path of a Unix socket has to be short.
wire() {
    cd "${socket%/*}" || exit
    case $program in
    socat) exec socat -t 31536000 - "UNIX-CONNECT:${socket##*/}" ;;
    nc) exec nc -N -U "${socket##*/}" ;;
    ncat) exec ncat -U "${socket##*/}" ;;
    esac
} 2>/dev/null

# ask METHOD PARAMS: one request, and every line that comes.
ask() {
    wire <<EOF
{"jsonrpc":"2.0","id":1,"method":"$1","params":$2}
EOF
}

# call METHOD PARAMS: sets result, or tells the refusal and exits with its code.
call() {
    reply=$(ask "$1" "$2")
    accepted "$reply"
    result=${reply#*'"result":'}
    result=${result%?}
}

accepted() {
    case $1 in
    '{"jsonrpc":"2.0","id":1,"result":'*) ;;
    '') nobody ;;
    *) refused "$1" ;;
    esac
}

refused() {
    jq -r "$visible"'.error | (.message | visible), (.data.hint // empty | "  " + visible),
        (.data.next[]? | "  next: " + (map(visible) | join(" ")))' <<EOF >&2
$1
EOF
    name=${1#*'"data":{"name":"'}
    case ${name%%'"'*} in
    NotFound) exit 66 ;;
    InvalidParams) exit 64 ;;
    Conflict) exit 76 ;;
    Denied) exit 77 ;;
    Timeout) exit 11 ;;
    Busy) exit 75 ;;
    AgentFailed) exit 78 ;;
    BoundaryUnavailable) exit 71 ;;
    Degraded) exit 74 ;;
    Cancelled) exit 130 ;;
    *) exit 70 ;;
    esac
}

# What agents and repositories wrote must not act on a terminal: neither control and escape
# sequences, nor marks that turn or hide text.
visible='
def hex: [(. / 16 | floor), . % 16] | map("0123456789abcdef"[.:. + 1]) | add;
def named: {"7": "\\a", "8": "\\b", "9": "\\t", "10": "\\n", "13": "\\r"}[tostring];
def hidden: . == 1564 or . == 8203 or . == 8206 or . == 8207 or (. > 8231 and . < 8239)
    or (. > 8287 and . < 8304) or . == 65279 or (. > 65528 and . < 65532);
def escaped:
    if . < 32 or (. > 126 and . < 160) then named // ("\\x" + hex)
    elif hidden then "\\u" + (. / 256 | floor | hex) + (. % 256 | hex)
    elif . > 917503 and . < 917632 then "\\U000e00" + (. - 917504 | hex)
    else [.] | implode end;
def visible: tostring | explode | map(escaped) | add // "";
def pad(width): . + ((" " * (width - length)) // "");
'

# params NAME VALUE...: an object of strings, with the caller's directory.
params() {
    jq -cn '[$ARGS.positional | recurse(.[2:]; length > 1) | {(.[0]): .[1]}] | add' \
        --args dir "$PWD" "$@"
}

# shown FILTER [OPTION...]: the result through jq, or as it is with --json.
shown() {
    filter=$1
    shift
    if [ -n "$json" ]; then
        printf '%s\n' "$result"
    else
        found "$filter" "$@"
    fi
}

# found FILTER [OPTION...]: what jq finds in the result, made visible where the filter does so.
found() {
    filter=$1
    shift
    printf '%s\n' "$result" | jq -r "$@" "$visible$filter"
}

# The one verb that shows watch: no process but the one that connects.
status() {
    call daemon.status '{}'
    if [ -n "$json" ]; then
        printf '%s\n' "$result"
        return
    fi
    member version && printf 'coachmand %s' "$value"
    member pid && printf ', pid %s\n' "$value"
    counts=${result#*'"runs":{'}
    counts=${counts%%'}'*},
    runs=
    while [ -n "$counts" ]; do
        state=${counts%%'":'*}
        count=${counts%%,*}
        counts=${counts#*,}
        [ "${count##*:}" = 0 ] || runs="$runs ${count##*:} ${state#?}"
    done
    member max_active && printf '  runs     %s (at most %s at once)\n' "${runs:- none}" "$value"
    member state && printf '  storage   %s\n' "$value"
    member ok && [ "$value" = true ] && value=ok || value="unavailable: coachman status says why"
    printf '  boundary  %s\n' "$value"
}

# member NAME: sets value to a member of the result that is a number or a plain word.
member() {
    value=${result#*"\"$1\":"}
    value=${value%%[,\}]*}
    value=${value#\"}
    value=${value%\"}
}

list() {
    call run.list '{}'
    # shellcheck disable=SC2016 # jq's variables
    shown '
        .runs as $runs | (["RUN", "TASK", "AGENT", "STATE", "NOW"],
            ($runs[] | [.handle, .task, .agent,
                (if .attention then "needs you" else .outcome // .state end),
                .attention.question // .now // ""]))
        | map(visible) | (.[0] | pad(6)) + " " + (.[1] | pad(20)) + " " + (.[2] | pad(9)) + " "
            + (.[3] | pad(10)) + " " + .[4] | sub(" +$"; "")'
}

tail_() {
    asked=$(params run "$1" | jq -c --argjson after "${2:-0}" '. + {after_seq: $after}') || exit 64
    ask event.subscribe "$asked" | {
        IFS= read -r first
        accepted "$first"
        jq --unbuffered -rn --arg json "$json" "$visible"'
            def line: .params.event | if $json != "" then tojson else
                "\(.seq) \(.type) \(.text // .title // .question // .label // .to
                    // .outcome // .stop_reason // "" | visible)" end;
            def next: (try input catch null) as $message
                | if $message == null then "the daemon went: tail again behind the last number\n"
                    | halt_error(69)
                elif $message.method == "event.event" then ($message | line), next
                elif $message.method != "event.end" then next
                elif $message.params.reason == "run_ended" then empty
                else "the stream was interrupted: tail again behind the last number\n"
                    | halt_error(69) end;
            next'
    }
}

open='[.permissions[] | select(.resolved == null)][0] | select(.) | '
# Nothing where what was typed is the id of an option.
# shellcheck disable=SC2016 # jq's variables
offered='.options | select(all(.[]; .id != $typed))
    | "choose allow, deny, always, or: " + (map("\(.id | visible) (\(.name | visible))") | join(", "))'
# shellcheck disable=SC2016 # jq's variables
settled='[.permissions[], .questions[]?] | map(select(.resolved)) | sort_by(.asked_at // .requested_at)
    | (map(select(.resolved.by.resolver as $r | $r != "policy" and $r != "rule")) | last) // last
    | select(.) | .resolved | (.by // {}) as $by
    | "the last question was settled: " + (.answer // (.kind // .outcome | sub("_"; " ")) | visible)
        + ", by " + ($by.user // $by.resolver // "somebody" | visible)
        + (if $by.pid then ", pid \($by.pid)" else "" end)'

answer() {
    call permission.list "$(params run "$1" | jq -c '. + {pending: false}')"
    asked=$(found "$open"'.request')
    words=$(found '[.questions[]? | select(.resolved == null)][0] | select(.) | .request')
    if [ -z "$asked" ] && [ -n "$words" ]; then
        call run.answer "$(params run "$1" question "$words" answer "$2")"
        shown '"\(.handle)  answered"'
        return
    fi
    [ -z "$words" ] || fail 64 "answer $1: it asks $asked and $words" "coachman answer --request"
    [ -n "$asked" ] || fail 76 "answer $1: nothing waits for an answer" "$(found "$settled")"
    case $2 in
    allow | deny | always) by=kind ;;
    *)
        by=option
        choices=$(found "$open$offered" --arg typed "$2")
        [ -z "$choices" ] || fail 64 "answer $1: '$2' is not one of its choices" "$choices"
        ;;
    esac
    call permission.answer "$(params run "$1" request "$asked" "$by" "$2" ${3:+message "$3"})"
    shown '"\(.run[-5:])  \(.kind | sub("_"; " ") | visible)"'
}

prompt() {
    call run.prompt "$(worded "$@")"
    # shellcheck disable=SC2016 # jq's variables
    shown 'if .resumed then "\($named | visible) has ended: resumed as \(.handle | visible)"
        else "\(.handle | visible)  prompt \(.prompt)" end' --arg named "$1"
}

interrupt() {
    if [ "$#" -gt 1 ]; then asked=$(worded "$@"); else asked=$(params run "$1"); fi
    call run.interrupt "$asked"
    shown '"\(.handle | visible)  "
        + (if .turn then "turn \(.turn) ends" else "no turn is running" end)
        + (if .prompt then ", then prompt \(.prompt)" else "" end),
        (.dropped[] | "  dropped: prompt \(.prompt): \(.title | visible)")'
}

# worded X TEXT: parameters with a prompt. As an argument of jq's it could be read by anybody on
# the machine, and not be long.
worded() {
    text=$2
    [ "$text" != - ] || text=$(cat)
    printf '%s' "$text" | jq -cRs --argjson at "$(params run "$1")" '$at + {prompt: .}'
}

close() { ended run.close "$@"; }

cancel() { ended run.cancel "$@"; }

# ended METHOD X...
ended() {
    method=$1
    shift
    call "$method" "$(jq -cn '{runs: $ARGS.positional, dir: env.PWD}' --args "$@")"
    shown '.runs[] | "\(.handle | visible)  \(.state | visible)"'
}

# needs COUNT GIVEN...: at least so many words behind the verb.
needs() {
    [ "$#" -gt "$1" ] && return
    usage >&2
    exit 64
}

# unknown VERB: names those that begin as it does, or else all.
unknown() {
    near=
    for known in $verbs; do
        [ "${known%"${known#?}"}" != "${1%"${1#?}"}" ] || near="$near${near:+ or }$known"
    done
    if [ -n "$near" ]; then near="did you mean $near?"; else near="there are: $verbs"; fi
    fail 64 "find the verb '$1'" "$near"
}

verbs='status list tail answer prompt interrupt close cancel'
json=
if [ "${1:-}" = --json ]; then
    json=1
    shift
fi
verb=${1:-}
[ "$#" -eq 0 ] || shift
case $verb in
status | list) needs 0 "$@" ;;
tail | interrupt | close | cancel) needs 1 "$@" ;;
answer | prompt) needs 2 "$@" ;;
-h | --help | help) usage && exit ;;
'') needs 1 ;;
*) unknown "$verb" ;;
esac
[ "$verb" = status ] || command -v jq >/dev/null || fail 69 "$verb: there is no jq" "install jq"
socket_path
find_program
case $verb in
tail) tail_ "$@" ;;
*) "$verb" "$@" ;;
esac
