# Completes forebay in bash. The candidates come from forebay itself.
_forebay() {
    local line=${COMP_LINE:0:COMP_POINT} words typed text files broken
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    typed=${words[-1]}
    text=$("${words[0]/#\~/$HOME}" __complete "${words[@]:1}" 2>/dev/null)
    files=$?
    mapfile -t COMPREPLY < <(printf '%s' "${text:+$text$'\n'}" | cut -f1)
    # Bash takes colons and equals signs for ends of words, and replaces only what follows them.
    broken=${typed%"$2"}
    COMPREPLY=("${COMPREPLY[@]#"$broken"}")
    if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *[:=] ]]; then
        compopt -o nospace
    fi
    if ((files == 3)); then
        compopt -o filenames
        mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$2")
    fi
}
complete -F _forebay forebay
