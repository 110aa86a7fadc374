# Completion of coachman for fish: coachman completion fish | source, or this file as
# ~/.config/fish/completions/coachman.fish.

function __coachman_candidates
    set -l words (commandline -opc) (commandline -ct)
    set -l found (command coachman completion --candidates -- $words[2..-1] 2>/dev/null </dev/null)
    switch "$found[1]"
        case :files
            __fish_complete_path (commandline -ct)
        case :directories
            __fish_complete_directories (commandline -ct)
        case '*'
            printf '%s\n' $found
    end
end

complete -c coachman -f -a '(__coachman_candidates)'
