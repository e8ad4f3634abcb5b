# `cmake --install`: libraries, headers as <stagger/core/index.hpp>, the C interface, the command, its man page and
# completions, and packages for find_package(stagger) and, of the C interface, for pkg-config.

include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY STAGGER_LIBRARIES)
foreach(library IN LISTS libraries)
  # Our own headers include "core/index.hpp", a consumer <stagger/core/index.hpp>: both roots.
  target_include_directories(${library} INTERFACE
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/stagger>)
endforeach()
install(TARGETS ${libraries} EXPORT stagger-targets
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/stagger)
if(TARGET stagger_shared)
  target_include_directories(stagger_shared INTERFACE
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/stagger>)
  set_target_properties(stagger_shared PROPERTIES EXPORT_NAME shared)
  install(TARGETS stagger_shared EXPORT stagger-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${PROJECT_SOURCE_DIR}/workbench/stagger.h
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/stagger)
  # From where the file is to the prefix, which may be moved.
  file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" up "${up}")
  configure_file(${PROJECT_SOURCE_DIR}/scripts/cmake/stagger.pc.in
    ${PROJECT_BINARY_DIR}/stagger.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/stagger.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
list(TRANSFORM libraries REPLACE "^stagger_" "" OUTPUT_VARIABLE STAGGER_COMPONENTS)
if(TARGET stagger_shared)
  list(APPEND STAGGER_COMPONENTS shared)
endif()
install(EXPORT stagger-targets NAMESPACE stagger::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/stagger)
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/scripts/cmake/stagger-config.cmake.in
  ${PROJECT_BINARY_DIR}/stagger-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/stagger)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/stagger-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/stagger-config.cmake
              ${PROJECT_BINARY_DIR}/stagger-config-version.cmake
              ${PROJECT_SOURCE_DIR}/scripts/cmake/FindCaDiCaL.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/stagger)

install(FILES ${PROJECT_SOURCE_DIR}/LICENSE
  DESTINATION ${CMAKE_INSTALL_DATADIR}/licenses/stagger)

if(STAGGER_BUILD_CLI)
  install(TARGETS stagger_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  set(generated ${PROJECT_BINARY_DIR}/share)
  add_custom_command(
    OUTPUT ${generated}/stagger.1 ${generated}/stagger.bash ${generated}/_stagger
           ${generated}/stagger.fish
    COMMAND ${CMAKE_COMMAND} -E make_directory ${generated}
    COMMAND stagger_cli man > ${generated}/stagger.1
    COMMAND stagger_cli completion bash > ${generated}/stagger.bash
    COMMAND stagger_cli completion zsh > ${generated}/_stagger
    COMMAND stagger_cli completion fish > ${generated}/stagger.fish
    DEPENDS stagger_cli
    COMMENT "Writing the man page and the completion scripts" VERBATIM)
  add_custom_target(stagger_share ALL DEPENDS ${generated}/stagger.1)
  install(FILES ${generated}/stagger.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${generated}/stagger.bash RENAME stagger
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${generated}/_stagger DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${generated}/stagger.fish
    DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
