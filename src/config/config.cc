#include "src/config/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "src/config/load.h"
#include "src/core/base/secret_file.h"
#include "src/core/base/url.h"
#include "src/core/base/utf8.h"
#include "src/core/message/identity.h"

namespace rung {

bool HttpOptions::has_console() const { return console.value_or(listen && is_loopback(listen->host)); }

using confile::Problems;

std::string ConfigProblem::str() const {
  std::string out = file;
  if (line > 0) out += ":" + std::to_string(line) + ":" + std::to_string(column);
  return out + ": " + what;
}

namespace {

// A config file is written by hand; a larger file is something else.
constexpr std::size_t kMostBytes = 1024 * 1024;

// The group that has this queue; "" if none has it, or there are no groups.
std::string group_of_queue(const confile::Node& root, const std::string& queue) {
  QueueGroups groups;
  for (const auto& [key, group] : root.entries_at("groups")) {
    groups.all.push_back({key.text, "", {}});
    for (const confile::Node& item : group.items_at("queues")) groups.all.back().queues.push_back(item.text);
  }
  const auto* group = groups.of_queue(queue);
  return group != nullptr ? group->name : std::string();
}

// The same lines, empty where they belong to a section that a command which only reads does not need: neither
// a wrong value there nor wrong YAML matters then.
std::string only_services(std::string_view text) {
  std::string out;
  for (bool needed = false; !text.empty();) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (!line.empty() && std::string_view(" \t\r#").find(line[0]) == std::string_view::npos)
      needed = line.starts_with("store:") || line.starts_with("api:") || line.starts_with("groups:");
    if (needed) out += line;
    out += '\n';
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return out;
}

LoadedConfig load_text(const std::string& path, const std::string& text, ConfigFor purpose,
                       GroupChoice choice) {
  LoadedConfig loaded;
  Problems problems(path);
  if (auto root = confile::parse_document(text, problems)) {
    if (choice.name.empty() && !choice.queue.empty()) choice.name = group_of_queue(*root, choice.queue);
    const auto slash = path.rfind('/');
    confile::Load load{problems, purpose, std::move(choice),
                       slash == std::string::npos ? "" : path.substr(0, slash)};
    load.root = *std::move(root);
    confile::walk(load);
    Config& config = load.config;
    const auto fill_all = [&](auto&... parts) { (confile::fill(load.root, parts), ...); };
    fill_all(config, config.broker, config.broker.rabbitmq, config.store, config.http, config.http.oidc,
             config.otel, config.api, config.log);
    confile::complete(load);
    loaded.config = std::move(load.config);
  }
  loaded.warnings = problems.take_warnings();
  loaded.problems = problems.take();
  return loaded;
}

constexpr std::size_t kMostNames = 20;  // in the log

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

namespace confile {

bool Load::needs(std::string_view path) const {
  using enum ConfigFor;
  if (purpose == check) return true;
  std::string_view section = path.substr(0, path.find('.'));
  if (section == "groups") {
    if (path.find(".store.") == std::string_view::npos) return true;
    if (!path.starts_with("groups." + choice.name + ".")) return false;
    section = "store";
  }
  if (purpose == sidecar) return true;
  if (section == "broker") return purpose == broker;
  if (section == "store") return purpose != broker && purpose != health;
  if (section == "api") return purpose == api || purpose == reading;
  if (section == "http") return purpose == health;
  return section != "otel" && section != "dialects";
}

std::optional<std::string> Load::text_of(const std::string& file, const Node& node) {
  auto text = read_start(file, kMostBytes + 1);
  if (text && text->size() <= kMostBytes) return *std::move(text);
  wrong(node, "", in_quotes(file) + " " + (text ? "is larger than 1 MB" : text.error().message));
  return std::nullopt;
}

}  // namespace confile

LoadedConfig load_config(const std::string& path, ConfigFor purpose, GroupChoice choice) {
  const auto text = read_start(path, kMostBytes + 1);
  if (!text || text->size() > kMostBytes)
    return {.config = {},
            .problems = {{path, 0, 0,
                          text ? "larger than 1 MB: not a configuration file" : text.error().message}},
            .warnings = {}};
  LoadedConfig loaded = load_text(path, *text, purpose, choice);
  if (loaded.ok() || purpose != ConfigFor::reading) return loaded;
  LoadedConfig services = load_text(path, only_services(*text), purpose, std::move(choice));
  services.warnings = loaded.problems;
  return services.ok() ? services : loaded;
}

// What a reload changes, and the fingerprint: the keys as text, sorted, with durations in one form, after
// ${NAME} is replaced.

std::vector<std::string> keys_for_restart(const Config& running, const Config& loaded) {
  std::set<std::string> changed;
  const std::string own = "groups." + loaded.groups.own + ".";
  const auto compare = [&](const Config& one, const Config& other) {
    for (const auto& [key, at] : one.at_start) {
      if (key.starts_with("groups.") && !key.starts_with(own)) continue;
      const auto it = other.at_start.find(key);
      if (at.value != (it == other.at_start.end() ? at.fallback : it->second.value)) changed.insert(key);
    }
  };
  compare(running, loaded);
  compare(loaded, running);
  return {changed.begin(), changed.end()};
}

std::string describe_changes(const Config& running, const Config& loaded) {
  std::vector<std::string> names;
  for (const auto& [key, at] : loaded.reloadable) {
    const auto old = running.reloadable.find(key);
    if (old == running.reloadable.end()) {
      names.push_back("+" + key);
    } else if (old->second.value != at.value) {
      names.push_back("~" + key);
    }
  }
  for (const auto& [key, at] : running.reloadable) {
    if (!loaded.reloadable.contains(key)) names.push_back("-" + key);
  }
  const std::size_t more = names.size() - std::min(names.size(), kMostNames);
  names.resize(names.size() - more);
  return escape_controls(fmt::format("{}", fmt::join(names, ", "))) +
         (more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string fingerprint(const Config& config) {
  constexpr std::size_t kBytes = 8;
  std::string facts;
  for (const auto* keys : {&config.reloadable, &config.at_start}) {
    for (const auto& [key, at] : *keys) {
      if (may_differ(key, config)) continue;
      facts += facts_of({key, at.shown});
    }
  }
  return to_hex(sha256(facts), kBytes);
}

}  // namespace rung
