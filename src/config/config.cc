#include "src/config/config.h"

#include <algorithm>

#include "src/config/load.h"
#include "src/core/base/secret_file.h"

namespace rung {

bool HttpOptions::has_console() const { return console.value_or(is_loopback(host)); }

using confile::Problems;

std::string ConfigProblem::str() const {
  std::string out = file;
  if (line > 0) out += ":" + std::to_string(line) + ":" + std::to_string(column);
  return out + ": " + what;
}

namespace {

// A config file is written by hand; a larger file is something else.
constexpr std::size_t kMostBytes = 1024 * 1024;

// Sections whose variables need not be set: rung attach needs no database password, and a group does not need
// those of other groups.
confile::Unused unused_sections(ConfigFor purpose, const std::string& group) {
  if (purpose == ConfigFor::check) return {};
  return [purpose, own = "groups." + group + ".store"](std::string_view path) {
    const bool broker = purpose == ConfigFor::broker, health = purpose == ConfigFor::health;
    if (path == "otel") return purpose != ConfigFor::sidecar;
    if (path.starts_with("groups.") && path.ends_with(".store")) return broker || health || path != own;
    if (path == "store") return broker || health;
    return (broker && path == "http") || (health && path == "broker");
  };
}

// The group that has this queue; "" if none has it, or there are no groups.
std::string group_of_queue(const std::string& text, const std::string& queue) {
  Problems ignored("");
  const auto root = confile::parse_document(text, ignored, [](auto) { return true; });
  if (!root) return {};
  confile::Load load{ignored};
  load.root = *root;
  confile::walk(load);
  const QueueGroups groups = confile::groups_of(load);
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
  if (choice.name.empty() && !choice.queue.empty()) choice.name = group_of_queue(text, choice.queue);
  if (auto root = confile::parse_document(text, problems, unused_sections(purpose, choice.name))) {
    const auto slash = path.rfind('/');
    confile::Load load{problems, purpose, std::move(choice),
                       slash == std::string::npos ? "" : path.substr(0, slash)};
    load.root = *std::move(root);
    confile::walk(load);
    confile::complete(load);
    loaded.config = std::move(load.config);
    loaded.keys_used.assign(load.keys_used.begin(), load.keys_used.end());
  }
  loaded.warnings = problems.take_warnings();
  loaded.problems = problems.take();
  return loaded;
}

}  // namespace

std::vector<std::string> keys_for_restart(const Config& running, const Config& loaded) {
  std::vector<std::string> changed;
  const std::string own = "groups." + loaded.groups.own + ".";
  const auto compare = [&](const Config& one, const Config& other) {
    for (const auto& [key, at] : one.at_start) {
      if (key.starts_with("groups.") && !key.starts_with(own)) continue;
      const auto it = other.at_start.find(key);
      if (it == other.at_start.end() ? at.value != at.fallback : at.value != it->second.value)
        changed.push_back(key);
    }
  };
  compare(running, loaded);
  compare(loaded, running);
  std::ranges::sort(changed);
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  return changed;
}

LoadedConfig load_config(const std::string& path, ConfigFor purpose, GroupChoice choice) {
  const auto text = read_start(path, kMostBytes + 1);
  if (!text || text->size() > kMostBytes)
    return {.config = {},
            .problems = {{path, 0, 0,
                          text ? "larger than 1 MB: not a configuration file" : text.error().message}},
            .warnings = {},
            .keys_used = {}};
  LoadedConfig loaded = load_text(path, *text, purpose, choice);
  if (loaded.ok() || purpose != ConfigFor::reading) return loaded;
  LoadedConfig services = load_text(path, only_services(*text), purpose, std::move(choice));
  services.warnings = loaded.problems;
  return services.ok() ? services : loaded;
}

}  // namespace rung
