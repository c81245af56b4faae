include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Kiln)
set(generated ${PROJECT_BINARY_DIR}/install)

set(docdir ${CMAKE_INSTALL_DOCDIR})
if(NOT PROJECT_IS_TOP_LEVEL) # then it is the directory of the other project
    set(docdir ${CMAKE_INSTALL_DATAROOTDIR}/doc/Kiln)
endif()

# Programs need the component kiln_runtime to run, and kiln_development to be built.
install(FILES LICENSE DESTINATION ${docdir} COMPONENT kiln_runtime)
install(DIRECTORY include/kiln DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT kiln_development
    FILES_MATCHING PATTERN "*.h")
install(FILES ${KILN_TEMPLATES} DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln/templates COMPONENT kiln_development)
if(KILN_BUILD_TOOLS)
    install(TARGETS kiln_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT kiln_tools)
    configure_file(tools/systemd/kiln.service.in ${generated}/kiln.service @ONLY)
    install(FILES tools/systemd/kiln.socket ${generated}/kiln.service DESTINATION lib/systemd/user COMPONENT kiln_tools)
    install(FILES docs/man/kiln.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT kiln_tools)
    install(FILES tools/completions/kiln.bash RENAME kiln
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT kiln_tools)
    install(FILES tools/completions/_kiln DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT kiln_tools)
    install(FILES tools/completions/kiln.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT kiln_tools)
endif()

# Two export sets: who links the shared library needs none of the packages that the static one needs.
install(TARGETS kiln_worker EXPORT KilnTargets
    RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/kiln COMPONENT kiln_runtime)
if(KILN_BUILD_REMOTE)
    install(TARGETS kiln_remote LIBRARY DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/kiln COMPONENT kiln_remote)
endif()
install(TARGETS kiln_shared EXPORT KilnTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT kiln_runtime NAMELINK_COMPONENT kiln_development)
# A wheel has no links: the files have the names by which the loader asks for them.
if(KILN_BUNDLE_DEPS)
    set_target_properties(kiln_shared PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(CODE [[
        file(GET_RUNTIME_DEPENDENCIES RESOLVED_DEPENDENCIES_VAR needed LIBRARIES "$<TARGET_FILE:kiln_shared>"
            PRE_INCLUDE_REGEXES "^lib(uv|jansson)\\.so" PRE_EXCLUDE_REGEXES ".*")
        foreach(library IN LISTS needed)
            get_filename_component(name "${library}" NAME)
            file(REAL_PATH "${library}" file)
            file(COPY_FILE "${file}" "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/${name}")
        endforeach()
        foreach(package libuv1 libjansson4 libsodium-dev libxxhash-dev) # whose licences ask for their notices
            if(EXISTS "/usr/share/doc/${package}/copyright")
                file(COPY_FILE "/usr/share/doc/${package}/copyright"
                    "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share/doc/Kiln/${package}.txt")
            endif()
        endforeach()]] COMPONENT kiln_runtime)
endif()
install(TARGETS kiln_static EXPORT KilnStaticTargets
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT kiln_development)
install(EXPORT KilnTargets NAMESPACE Kiln:: DESTINATION ${package_dir} COMPONENT kiln_development)
install(EXPORT KilnStaticTargets NAMESPACE Kiln:: DESTINATION ${package_dir} COMPONENT kiln_development)

configure_package_config_file(tools/cmake/KilnConfig.cmake.in ${generated}/KilnConfig.cmake
    INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${generated}/KilnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${generated}/KilnConfig.cmake ${generated}/KilnConfigVersion.cmake DESTINATION ${package_dir}
    COMPONENT kiln_development)

# The pkg-config file finds its prefix from its own place, so that an installed tree can be moved.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}" OR
        IS_ABSOLUTE "${CMAKE_INSTALL_LIBEXECDIR}")
    set(pc_prefix "${CMAKE_INSTALL_PREFIX}")
    set(pc_libdir "${CMAKE_INSTALL_FULL_LIBDIR}")
    set(pc_includedir "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
    set(pc_libexecdir "${CMAKE_INSTALL_FULL_LIBEXECDIR}")
else()
    file(RELATIVE_PATH to_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
    string(REGEX REPLACE "/$" "" to_prefix "${to_prefix}")
    set(pc_prefix "\${pcfiledir}/${to_prefix}")
    set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
    set(pc_libexecdir "\${prefix}/${CMAKE_INSTALL_LIBEXECDIR}")
endif()
configure_file(tools/cmake/kiln.pc.in ${generated}/kiln.pc @ONLY)
install(FILES ${generated}/kiln.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT kiln_development)
