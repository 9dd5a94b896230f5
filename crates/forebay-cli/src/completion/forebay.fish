# Completes forebay in fish. The candidates come from forebay itself.
function __forebay_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l lines (command $words[1] __complete $words[2..-1] 2>/dev/null)
    set -l files $status
    printf '%s\n' $lines
    if test $files -eq 3
        __fish_complete_path (commandline -ct)
    end
end
complete -c forebay -f -a '(__forebay_complete)'
