# cmake -D OUTPUT=embedded.c -D NAME=kiln__embedded [-D BASE=DIRECTORY] -P embed.cmake -- FILE...
# Writes a C file that holds the bytes of each FILE under its base name, or under its path in BASE: NAME_files and NAME_count.
# NAME_text0 and so on are the bytes.
include(${CMAKE_CURRENT_LIST_DIR}/generate.cmake)
input_files(files)

set(arrays "")
set(rows "")
set(count 0)
foreach(path IN LISTS files)
    file(READ "${path}" hex HEX)
    string(LENGTH "${hex}" digits)
    math(EXPR length "${digits} / 2")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REPEAT "....." 20 line)
    string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
    if(BASE)
        file(RELATIVE_PATH name "${BASE}" "${path}")
    else()
        get_filename_component(name "${path}" NAME)
    endif()
    string(APPEND arrays "const unsigned char ${NAME}_text${count}[] = {\n${bytes}0x00};\n")
    string(APPEND rows "    {\"${name}\", (const char *)${NAME}_text${count}, ${length}},\n")
    math(EXPR count "${count} + 1")
endforeach()
file(WRITE "${OUTPUT}" "#include \"template/embedded.h\"\n\n${arrays}
const kiln__embedded_file ${NAME}_files[] = {\n${rows}};\nconst size_t ${NAME}_count = ${count};\n")
