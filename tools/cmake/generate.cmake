# What the scripts of this directory that write C files share.

# Leaves in `out` what stands after "--" on the command line.
function(input_files out)
    set(files "")
    set(seen_separator OFF)
    math(EXPR last "${CMAKE_ARGC} - 1")
    foreach(index RANGE ${last})
        if(seen_separator)
            list(APPEND files "${CMAKE_ARGV${index}}")
        elseif(CMAKE_ARGV${index} STREQUAL "--")
            set(seen_separator ON)
        endif()
    endforeach()
    set(${out} "${files}" PARENT_SCOPE)
endfunction()

# The text as a string of C.
function(quote out text)
    string(REGEX REPLACE "([\\\\\"])" "\\\\\\1" text "${text}")
    string(REPLACE "\n" "\\n" text "${text}")
    set(${out} "\"${text}\"" PARENT_SCOPE)
endfunction()
