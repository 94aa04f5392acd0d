# cmake -DFILES="a.yaml;b.yaml" -DOUT=ready.cc -P embed.cmake: each file as a string literal, by its bare name.
set(entries "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND entries "    {\"${name}\", R\"dialect(${text})dialect\"},\n")
endforeach()
file(WRITE ${OUT} "// Made by plugin/rabbitmq/dialects/embed.cmake from the YAML files beside it.
#include \"plugin/rabbitmq/dialects/ready.h\"

namespace rung::rabbit {
namespace {
constexpr ReadyDialect kReadyDialects[] = {
${entries}};
}  // namespace

std::span<const ReadyDialect> ready_dialects() { return kReadyDialects; }

}  // namespace rung::rabbit
")
