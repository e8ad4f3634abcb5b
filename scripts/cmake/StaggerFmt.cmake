# fmt, for what formats text: stagger_fmt. Version 9 is compiled once, into core.
find_package(fmt REQUIRED)
add_library(stagger_fmt INTERFACE)
if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  set(STAGGER_FMT_ONCE ON)
  target_include_directories(stagger_fmt SYSTEM INTERFACE
    $<TARGET_PROPERTY:fmt::fmt-header-only,INTERFACE_INCLUDE_DIRECTORIES>)
else()
  set(STAGGER_FMT_ONCE OFF)
  target_link_libraries(stagger_fmt INTERFACE fmt::fmt-header-only)
endif()
