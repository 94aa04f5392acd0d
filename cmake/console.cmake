# cmake -DSOURCE=src/console -DWORK=DIR -DOUT=SOURCE.cc -DNPM=PROGRAM -P console.cmake: installs what package-lock.json
# names into WORK, bundles the console there, and writes its files as one C++ source. If that fails (no npm, no network),
# the source has no files, the build says so, and the program answers that it has no console.
set(files "")
set(why "")
if(NOT WANTED)
elseif(NOT NPM)
  set(why "npm is missing (tests/packages build installs it)")
elseif(EXISTS ${SOURCE}/package.json)
  file(MAKE_DIRECTORY ${WORK})
  file(COPY ${SOURCE}/package.json ${SOURCE}/package-lock.json DESTINATION ${WORK})
  file(SHA256 ${SOURCE}/package-lock.json lock)
  set(installed "")
  if(EXISTS ${WORK}/installed)
    file(READ ${WORK}/installed installed)
  endif()
  if(NOT installed STREQUAL lock)
    execute_process(COMMAND ${NPM} ci --omit=dev --no-audit --no-fund --loglevel=error WORKING_DIRECTORY ${WORK}
      RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said TIMEOUT 300)
    if(failed)
      set(why "npm ci failed: ${said}")
    else()
      file(WRITE ${WORK}/installed "${lock}")
    endif()
  endif()
  if(NOT why)
    # Beside node_modules, where Node.js looks for packages.
    file(REMOVE_RECURSE ${WORK}/lib ${WORK}/pages ${WORK}/parts ${WORK}/style)
    file(COPY ${SOURCE}/ DESTINATION ${WORK} PATTERN node_modules EXCLUDE)
    execute_process(COMMAND ${NPM} run --silent build -- --outdir=out WORKING_DIRECTORY ${WORK}
      RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said TIMEOUT 120)
    if(failed)
      message(FATAL_ERROR "the console does not build: ${said}")
    endif()
    foreach(file "/|text/html|index.html" "/app.js|text/javascript|app.js" "/app.css|text/css|app.css"
        "/favicon.svg|image/svg+xml|favicon.svg")
      string(REPLACE "|" ";" file "${file}")
      list(GET file 0 path)
      list(GET file 1 type)
      list(GET file 2 name)
      file(SHA256 ${WORK}/out/${name} digest)
      file(READ ${WORK}/out/${name} hex HEX)
      string(LENGTH "${hex}" length)
      set(parts "")
      set(at 0)
      while(at LESS length)
        string(SUBSTRING "${hex}" ${at} 16000 part)
        string(REGEX REPLACE "(..)" "\\\\x\\1" part "${part}")
        string(APPEND parts "\n      \"${part}\"")
        math(EXPR at "${at} + 16000")
      endwhile()
      math(EXPR bytes "${length} / 2")
      string(APPEND files "    {\"${path}\", \"${type}; charset=utf-8\", \"\\\"${digest}\\\"\", std::string(${parts}, ${bytes})},\n")
    endforeach()
  endif()
else()
  set(why "src/console is missing")
endif()
if(why)
  message(WARNING "rung is built without its console: ${why}")
endif()
file(WRITE ${OUT} "// Made by cmake/console.cmake from src/console: do not edit.
#include \"src/http/api.h\"

namespace rung::http {

const std::vector<ConsoleFile>& console_files() {
  static const std::vector<ConsoleFile> files = {
${files}  };
  return files;
}

}  // namespace rung::http
")
