# cmake -DPROGRAM=... -DSYMBOLS=... -DOBJCOPY=... -DREADELF=... -DTREE=... -P split_debug.cmake
#
# Moves the debug information of PROGRAM into the file SYMBOLS beside it, compressed, and strips PROGRAM. gdb, addr2line
# and perf find it there by PROGRAM's .gnu_debuglink. TREE gets the same file under the name by which they look for it in
# /usr/lib/debug: .build-id/ab/cdef.debug.
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY OUTPUT_VARIABLE out)
  set(out "${out}" PARENT_SCOPE)
endfunction()

get_filename_component(folder ${SYMBOLS} DIRECTORY)
get_filename_component(name ${SYMBOLS} NAME)
run(${OBJCOPY} --only-keep-debug --compress-debug-sections ${PROGRAM} ${SYMBOLS})
file(CHMOD ${SYMBOLS} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
execute_process(COMMAND ${OBJCOPY} --strip-all --remove-section=.comment --add-gnu-debuglink=${name} ${PROGRAM}
  WORKING_DIRECTORY ${folder} COMMAND_ERROR_IS_FATAL ANY)

run(${READELF} --notes ${PROGRAM})
if(NOT out MATCHES "Build ID: ([0-9a-f][0-9a-f])([0-9a-f]+)")
  message(FATAL_ERROR "${PROGRAM} has no build ID: link it with --build-id")
endif()
file(REMOVE_RECURSE ${TREE})
file(MAKE_DIRECTORY ${TREE}/.build-id/${CMAKE_MATCH_1})
file(CREATE_LINK ${SYMBOLS} ${TREE}/.build-id/${CMAKE_MATCH_1}/${CMAKE_MATCH_2}.debug COPY_ON_ERROR)
