#compdef forebay
# Completes forebay in zsh. The candidates come from forebay itself.
_forebay() {
    local text line files
    local -a names shown open_names open_shown
    text=$($words[1] __complete "${(@Q)words[2,CURRENT]}" 2>/dev/null)
    files=$?
    for line in "${(@f)text}"; do
        [[ -z $line ]] && continue
        if [[ ${line%%$'\t'*} == *[:=] ]]; then
            open_names+=("${line%%$'\t'*}") open_shown+=("${line/$'\t'/  -- }")
        else
            names+=("${line%%$'\t'*}") shown+=("${line/$'\t'/  -- }")
        fi
    done
    (( $#names )) && compadd -l -d shown -a names
    (( $#open_names )) && compadd -S '' -l -d open_shown -a open_names
    (( files == 3 )) && _files
    return 0
}
if [[ $funcstack[1] == _forebay ]]; then
    _forebay "$@"
else
    compdef _forebay forebay
fi
