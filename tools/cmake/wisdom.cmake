# cmake -D OUTPUT=shipped.c -P wisdom.cmake -- FILE.json...
# Writes a C file with the records of all files as constants, so that a process which asks for them parses nothing. The form is
# docs/tuning.md's; a unit test compares the constants with what the library itself reads from the files.
include(${CMAKE_CURRENT_LIST_DIR}/generate.cmake)
input_files(files)

# Each field of a record, and its member in kiln__wisdom_entry.
set(fields
    model device.model            target device.target         multiprocessors device.multiprocessors
    l2_bytes device.l2_bytes      memory_bytes device.memory_bytes
    template template_name        class op_class               op op
    dtype dtype                   log2_n log2_n                geometry geometry
    ms ms                         gbps gbps                    ratio ratio
    samples samples               variants variants            template_digest digest
    toolchain toolchain           by maker)

# Leaves in `row` what stands between the braces of one record.
function(make_row record where)
    set(members "")
    set(known 0)
    set(rest ${fields})
    while(rest)
        list(POP_FRONT rest name member)
        string(JSON kind ERROR_VARIABLE missing TYPE "${record}" ${name})
        if(missing)
            message(FATAL_ERROR "${where} has no field ${name}")
        endif()
        string(JSON value GET "${record}" ${name})
        if(kind STREQUAL "STRING")
            quote(value "${value}")
        endif()
        string(APPEND members ".${member} = ${value}, ")
        math(EXPR known "${known} + 1")
    endwhile()
    string(JSON count LENGTH "${record}")
    if(NOT count EQUAL known)
        message(FATAL_ERROR "${where} has a field that tools/cmake/wisdom.cmake does not know")
    endif()
    set(row "${members}.extra = \"\"" PARENT_SCOPE)
endfunction()

set(rows "")
set(total 0)
foreach(path IN LISTS files)
    file(READ "${path}" text)
    string(JSON count LENGTH "${text}" records)
    math(EXPR last "${count} - 1")
    foreach(index RANGE ${last})
        string(JSON record GET "${text}" records ${index})
        make_row("${record}" "${path}: record ${index}")
        string(APPEND rows "    { ${row} },\n")
        math(EXPR total "${total} + 1")
    endforeach()
endforeach()

file(WRITE "${OUTPUT}" "#include \"wisdom/shipped.h\"\n
const kiln__wisdom_entry kiln__wisdom_shipped[] = {\n${rows}};
const size_t kiln__wisdom_shipped_count = ${total};\n")
