# The version stands in base.h and in project(); this proves that they agree.
file(STRINGS ${PROJECT_SOURCE_DIR}/include/kiln/base.h lines REGEX "#define KILN_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+).*" "\\1.\\2.\\3" header_version "${lines}")
if(NOT header_version VERSION_EQUAL PROJECT_VERSION)
    message(FATAL_ERROR
        "base.h says version ${header_version}, CMakeLists.txt says ${PROJECT_VERSION}: make them equal")
endif()
