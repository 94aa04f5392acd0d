# The one place that says how Rung's own code is compiled. rung_flags: what is shipped. rung_test_flags: the tests, the same
# but for what RUNG_SANITIZE adds.
add_library(rung_flags INTERFACE)
add_library(rung_test_flags INTERFACE)
foreach(flags rung_flags rung_test_flags)
  target_compile_options(${flags} INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
    -Woverloaded-virtual -Wimplicit-fallthrough -Werror)
  target_include_directories(${flags} INTERFACE ${CMAKE_SOURCE_DIR})
  # GCC 12 reports offsets within tl::expected<T, Error> as out of bounds once it optimizes (as in GCC bug 105329).
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_compile_options(${flags} INTERFACE -Wno-array-bounds)
  endif()
endforeach()

# Paths in debug info begin at the source folder, as ./src/core/machine/machine.cc: builds in different folders are equal, byte for byte
# (CONTRIBUTING.md). For gdb outside the source folder: set substitute-path . /path/to/rung. Debug builds keep whole paths.
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
endif()

# lld links a test binary in a fifth of the time; tests/packages installs it.
find_program(RUNG_LLD ld.lld)
if(RUNG_LLD)
  add_link_options(-fuse-ld=lld)
endif()

# RUNG_SANITIZE: "" | address | thread. Set by the presets asan and tsan.
#
# With "address", the tests themselves are not sanitized but compiled as in the preset dev (tests/CMakeLists.txt): ccache then
# takes their objects from that build, and they were half of what this one compiles. A bad access of a test's own code is
# reported only where it ends in Rung's code or in libc. ThreadSanitizer needs all code that synchronizes.
set(RUNG_SANITIZE "" CACHE STRING "address (with undefined) or thread")
set(sanitized rung_flags)
set(sanitizer)
if(RUNG_SANITIZE STREQUAL "address")
  set(sanitizer -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
  # GCC's checks of each pointer for null and alignment doubled the time of this build (store: 105 s of processor time for
  # 55 s, with -Og 40 s). AddressSanitizer reports an access through null, and clang's fuzz targets keep both checks.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND sanitizer -fno-sanitize=null,alignment)
  endif()
elseif(RUNG_SANITIZE STREQUAL "thread")
  set(sanitizer -fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
  list(APPEND sanitized rung_test_flags)
endif()
foreach(flags ${sanitized})
  target_compile_options(${flags} INTERFACE ${sanitizer})
  # Under a sanitizer GCC's flow-based warnings (-Wstringop-overflow, -Wmaybe-uninitialized) report what the instrumented code
  # cannot do: it takes <regex>'s own std::function for uninitialised (GCC bug 105562). They are errors in the other builds.
  if(RUNG_SANITIZE)
    target_compile_options(${flags} INTERFACE -Wno-array-bounds $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> -Wno-error)
  endif()
endforeach()

# src/core/base/failpoint.h: for test builds. On in the presets dev, asan and tsan.
option(RUNG_FAILPOINTS "Compile in the points where a test may end the process" OFF)
if(RUNG_FAILPOINTS)
  target_compile_definitions(rung_flags INTERFACE RUNG_FAILPOINTS)
  target_compile_definitions(rung_test_flags INTERFACE RUNG_FAILPOINTS)
endif()

# RUNG_PCH: cmake/pch.h is precompiled once, and once more with gtest and gmock for the tests. ccache takes such
# objects from another clone too (CCACHE_SLOPPINESS in CMakePresets.json).
option(RUNG_PCH "Precompile the headers that most sources include" OFF)
if(RUNG_PCH)
  add_library(rung_pch OBJECT ${CMAKE_SOURCE_DIR}/cmake/pch.cc)
  target_link_libraries(rung_pch PRIVATE rung_flags tl::expected nlohmann_json::nlohmann_json)
  target_precompile_headers(rung_pch PRIVATE <cmake/pch.h>)
endif()
function(rung_use_pch target pch)
  if(RUNG_PCH)
    target_precompile_headers(${target} REUSE_FROM ${pch})
  endif()
endfunction()

# rung_room(NAME SOURCES a.cc b.cc DEPS rung_core ...): a static library `rung_NAME`.
#
# RUNG_UNITY (all presets): the sources of a room, or of a test binary, are compiled several as one, in half the time. So
# a name in an anonymous namespace is one in the whole room; tests/compile_alone compiles each source by itself.
# SEPARATE: not this one. BATCHES: never more than 16 as one: names of its anonymous namespaces repeat.
option(RUNG_UNITY "Compile the sources of a room as one" OFF)
# 0: all of them. Presets without precompiled headers (tidy, fuzz) spend most of their time parsing the same headers.
set(RUNG_UNITY_BATCH 16 CACHE STRING "How many sources of a room are compiled as one")
set(RUNG_ROOM_FLAGS rung_flags)  # in tests: rung_test_flags
set(RUNG_ROOM_PCH rung_pch)      # in tests: rung_test_pch
function(rung_room name)
  cmake_parse_arguments(ARG "SEPARATE;BATCHES" "" "SOURCES;DEPS" ${ARGN})
  add_library(rung_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(rung_${name} PUBLIC ${ARG_DEPS} PRIVATE ${RUNG_ROOM_FLAGS})
  target_include_directories(rung_${name} PUBLIC ${CMAKE_SOURCE_DIR})
  rung_use_pch(rung_${name} ${RUNG_ROOM_PCH})
  if(RUNG_UNITY AND NOT ARG_SEPARATE)
    set(batch ${RUNG_UNITY_BATCH})
    if(ARG_BATCHES)
      set(batch 16)
    endif()
    set_target_properties(rung_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
  endif()
endfunction()

# rung_runs_program(TARGET): it runs `rung`, which is built before. RUNG_ALONE (tests/compile_alone): not so, for an object
# would wait for the whole program, too.
option(RUNG_ALONE "Only objects are built, each by itself" OFF)
function(rung_runs_program target)
  if(NOT RUNG_ALONE)
    add_dependencies(${target} rung)
  endif()
endfunction()

# rung_generated(NAME FILE): a source that the build makes. The target `generated` makes all of them and compiles
# nothing: for clang-tidy.
add_custom_target(generated)
function(rung_generated name file)
  add_custom_target(generated_${name} DEPENDS ${file})
  add_dependencies(generated generated_${name})
endfunction()
