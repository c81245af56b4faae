# shellcheck shell=bash
# bash completion for kiln: the command itself says what a word may become.
_kiln() {
    local words=() whole=() line i piece prefix=""
    # Bash splits words at = and :, which are characters of Kiln's words.
    for ((i = 1; i <= COMP_CWORD; i++)); do
        piece=${COMP_WORDS[i]}
        if ((${#words[@]})) && [[ $piece == [=:]* || ${words[-1]} == *[=:] ]]; then
            words[-1]+=$piece
        else
            words+=("$piece")
        fi
    done
    if [[ ${words[-1]} == [\'\"]* ]]; then
        words[-1]=${words[-1]:1}
    elif [[ ${words[-1]} == *[=:]* ]]; then
        prefix=${words[-1]%"${words[-1]##*[=:]}"}
    fi
    mapfile -t whole < <("${COMP_WORDS[0]}" complete "${words[@]}" 2>/dev/null)
    COMPREPLY=()
    for line in "${whole[@]}"; do
        line=${line%%$'\t'*}
        COMPREPLY+=("${line#"$prefix"}")
    done
    [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace
}
complete -o default -F _kiln kiln
