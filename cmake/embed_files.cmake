# cmake "-DFILES=a.yaml;b.yaml" -DOUT=SOURCE.cc -DHEADER=... -DNAMESPACE=rung::... -DTYPE=NAME -DFUNCTION=NAME -P
# embed_files.cmake: each file as a TYPE of its bare name and its text, all of them from one function.
set(entries "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND entries "    {\"${name}\", R\"embedded(${text})embedded\"},\n")
endforeach()
file(WRITE ${OUT} "// Made by cmake/embed_files.cmake: do not edit.
#include \"${HEADER}\"

namespace ${NAMESPACE} {
namespace {
constexpr ${TYPE} kAll${TYPE}[] = {
${entries}};
}  // namespace

std::span<const ${TYPE}> ${FUNCTION}() { return kAll${TYPE}; }

}  // namespace ${NAMESPACE}
")
