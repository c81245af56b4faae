include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Kiln)
set(generated ${PROJECT_BINARY_DIR}/install)

install(DIRECTORY include/kiln DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES docs/man/kiln.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${KILN_TEMPLATES} DESTINATION ${CMAKE_INSTALL_DATADIR}/kiln/templates)
install(TARGETS kiln_worker RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/kiln)
if(KILN_BUILD_TOOLS)
    install(TARGETS kiln_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# Two export sets: who links the shared library needs none of the packages that the static one needs.
install(TARGETS kiln_shared EXPORT KilnTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS kiln_static EXPORT KilnStaticTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT KilnTargets NAMESPACE Kiln:: DESTINATION ${package_dir})
install(EXPORT KilnStaticTargets NAMESPACE Kiln:: DESTINATION ${package_dir})

set(worker ${CMAKE_INSTALL_LIBEXECDIR}/kiln/kiln-worker)
configure_package_config_file(tools/cmake/KilnConfig.cmake.in ${generated}/KilnConfig.cmake
    INSTALL_DESTINATION ${package_dir} PATH_VARS worker NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${generated}/KilnConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${generated}/KilnConfig.cmake ${generated}/KilnConfigVersion.cmake DESTINATION ${package_dir})

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
install(FILES ${generated}/kiln.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
