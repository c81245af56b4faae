# fish completion for kiln: the command itself says what a word may become.
function __kiln_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct | string replace -r '^[\'"]' '')
    set -l found ($words[1] complete $words[2..] "$last" 2>/dev/null)
    if set -q found[1]
        printf '%s\n' $found
    else
        __fish_complete_path $last
    end
end
complete -c kiln -f -a '(__kiln_complete)'
