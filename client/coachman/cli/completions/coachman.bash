# Completion of coachman for bash: eval "$(coachman completion bash)", or this file as
# share/bash-completion/completions/coachman.

_coachman() {
    local value about
    COMPREPLY=()
    while IFS=$'\t' read -r value about; do
        case $value in
        :files) compopt -o default ;;
        :directories) compopt -o dirnames ;;
        *) COMPREPLY+=("$value") ;;
        esac
    done < <(command coachman completion --candidates -- \
        "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null </dev/null)
}

complete -F _coachman coachman
