// What a reload changes, and the fingerprint of a config. Both compare the keys as text: sorted, with
// durations in one form, after ${NAME} is replaced, and without secrets.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "levels/duration.h"
#include "src/config/load.h"
#include "src/core/base/url.h"
#include "src/core/base/utf8.h"
#include "src/core/message/identity.h"

namespace rung {

namespace confile {
namespace {

std::string leaf_text(const Node& value, Secrecy secrecy) {
  if (secrecy == Secrecy::hidden) return "***";
  if (secrecy == Secrecy::url) return hide_password(value.text);
  const auto duration = levels::parse_duration(value.text);
  return duration ? levels::format_duration(*duration) : value.text;
}

}  // namespace

std::string canonical_text(const Node& value, Secrecy secrecy) {
  if (value.kind == Node::Kind::text) return leaf_text(value, secrecy);
  std::string text;
  for (const Node& item : value.items) append_field(text, canonical_text(item, secrecy));
  std::map<std::string, std::string> sorted;
  for (const auto& [key, its] : value.entries) sorted[key.text] = canonical_text(its, secrecy);
  for (const auto& [key, its] : sorted) {
    append_field(text, key);
    append_field(text, its);
  }
  return text;
}

}  // namespace confile

namespace {

constexpr std::size_t kMostNames = 20;  // of a section, in the log

// "+orders, -invoices, ~payments"; "" = nothing.
std::string changed_names(const Config::Texts& before, const Config::Texts& after) {
  std::vector<std::string> names;
  for (const auto& [name, text] : after) {
    const auto old = before.find(name);
    if (old == before.end()) names.push_back("+" + name);
    if (old != before.end() && old->second != text) names.push_back("~" + name);
  }
  for (const auto& [name, text] : before) {
    if (!after.contains(name)) names.push_back("-" + name);
  }
  const std::size_t more = names.size() - std::min(names.size(), kMostNames);
  names.resize(names.size() - more);
  std::string out = fmt::format("{}", fmt::join(names, ", "));
  if (more > 0) out += fmt::format(" and {} more", more);
  return escape_controls(out);
}

// A key of this instance alone; or of another group's database, whose ${NAME} need not be set on the machines
// of this group.
bool may_differ(std::string_view key, const Config& config) {
  if (key == "node" || key == "http.listen") return true;
  if (!key.starts_with("groups.")) return false;
  return key.ends_with(".http.listen") ||
         (!config.groups.own.empty() && key.find(".store.") != std::string_view::npos &&
          !key.starts_with("groups." + config.groups.own + "."));
}

}  // namespace

std::string describe_changes(const Config& running, const Config& loaded) {
  static const Config::Texts kNone;
  std::map<std::string, std::pair<const Config::Texts*, const Config::Texts*>> sections;
  for (const auto& [section, texts] : running.reloadable) sections[section] = {&texts, &kNone};
  for (const auto& [section, texts] : loaded.reloadable) {
    auto& both = sections.try_emplace(section, &kNone, &kNone).first->second;
    both.second = &texts;
  }
  std::vector<std::string> parts;
  for (const auto& [section, both] : sections) {
    if (const std::string names = changed_names(*both.first, *both.second); !names.empty())
      parts.push_back(section + ": " + names);
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string fingerprint(const Config& config) {
  constexpr std::size_t kBytes = 8;
  std::string facts;
  for (const auto& [section, texts] : config.reloadable) {
    for (const auto& [name, text] : texts) {
      append_field(facts, section);
      append_field(facts, name);
      append_field(facts, text);
    }
  }
  for (const auto& [key, at] : config.at_start) {
    if (may_differ(key, config)) continue;
    append_field(facts, key);
    append_field(facts, at.shown);
  }
  return to_hex(sha256(facts), kBytes);
}

}  // namespace rung
