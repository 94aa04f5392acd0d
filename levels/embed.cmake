# cmake -DFILES="a.yaml;b.yaml" -DOUT=ready.cc -P embed.cmake: each file as a string literal, by its bare name.
set(entries "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND entries "    {\"${name}\", R\"ladder(${text})ladder\"},\n")
endforeach()
file(WRITE ${OUT} "// Made by levels/embed.cmake from levels/*.yaml.
#include \"levels/ready.h\"

#include <utility>

namespace rung::levels {
namespace {
constexpr std::pair<std::string_view, std::string_view> kReady[] = {
${entries}};
}  // namespace

std::vector<std::string_view> ready_ladder_names() {
  std::vector<std::string_view> names;
  for (const auto& entry : kReady) names.push_back(entry.first);
  return names;
}

std::string_view ready_ladder_yaml(std::string_view name) {
  for (const auto& entry : kReady) {
    if (entry.first == name) return entry.second;
  }
  return {};
}

}  // namespace rung::levels
")
