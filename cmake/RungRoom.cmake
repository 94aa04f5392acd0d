# The one place that says how Rung's own code is compiled.
add_library(rung_flags INTERFACE)
target_compile_options(rung_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
  -Woverloaded-virtual -Wimplicit-fallthrough -Werror)
target_include_directories(rung_flags INTERFACE ${CMAKE_SOURCE_DIR})

# RUNG_SANITIZE: "" | address | thread. Set by the presets asan and tsan.
set(RUNG_SANITIZE "" CACHE STRING "address (with undefined) or thread")
if(RUNG_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(RUNG_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
endif()

# src/core/failpoint.h: for test builds. On in the presets dev, asan and tsan.
option(RUNG_FAILPOINTS "Compile in the points where a test may end the process" OFF)
if(RUNG_FAILPOINTS)
  target_compile_definitions(rung_flags INTERFACE RUNG_FAILPOINTS)
endif()

# rung_room(NAME SOURCES a.cc b.cc DEPS rung_core ...): a static library `rung_NAME`.
#
# RUNG_UNITY (presets asan, tsan, release): a room's sources are compiled as one, a third of the time. Rooms of many
# files with the same local names say SEPARATE.
option(RUNG_UNITY "Compile each room as one source" OFF)
function(rung_room name)
  cmake_parse_arguments(ARG "SEPARATE" "" "SOURCES;DEPS" ${ARGN})
  add_library(rung_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(rung_${name} PUBLIC ${ARG_DEPS} PRIVATE rung_flags)
  target_include_directories(rung_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  if(RUNG_UNITY AND NOT ARG_SEPARATE)
    set_target_properties(rung_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 16)
  endif()
endfunction()
