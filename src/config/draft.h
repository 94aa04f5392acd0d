// What the loader gathers while it walks the file, before it is checked as a whole and becomes a Config.
// Thread: one load, one thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/config.h"
#include "src/config/document.h"

namespace rung::confile {

struct LadderDraft {
  std::string name;
  Mark mark;
  bool invalid = false;  // a part of it was wrong and told
  bool substituted = false;
  bool is_list = false;
  std::vector<Ms> delays;
  std::vector<Mark> delay_marks;
  levels::Exponential spec;
  std::map<std::string, Mark, std::less<>> present;  // base, factor, max, levels, jitter
  double jitter = 0.0;
};

// What a queue and a tag have in common.
struct RulesDraft {
  std::string name;
  Mark mark;
  std::optional<std::string> ladder;
  bool ladder_substituted = false;
  Mark ladder_mark;
  std::optional<Ms> presumed_after, reported_within;
  Mark presumed_mark, reported_mark;
  std::optional<Mark> success_mark;
  bool success_broken = false;
};

struct QueueDraft : RulesDraft {
  std::optional<bool> publish_parked;
  std::optional<int> catch_up;
};

struct TagDraft : RulesDraft {
  std::optional<std::string> queue, exchange, routing_key;
  Mark queue_mark, exchange_mark, routing_key_mark;
};

struct DelayDraft {
  Mark mark;
  bool invalid = false;  // a part of it was wrong and told
  bool substituted = false;
  std::optional<std::string> from, to, group;
  Mark from_mark, to_mark, group_mark;
};

struct GroupDraft {
  std::string name;
  Mark mark;
  std::string prefix;  // "" = left out
  std::string url, password_file, listen;
  std::vector<std::string> other_urls;
  TargetRules::Patterns queues;
  std::vector<Mark> queue_marks;
  // Of the keys in the file: "groups.eu.store".
  std::string path(std::string_view key) const { return "groups." + name + "." + std::string(key); }
};

struct Draft {
  Config config;
  std::string broker_password_file;
  bool publish_parked = false;
  std::optional<int> catch_up;
  std::optional<TargetRules::Patterns> allow;  // broker.targets
  TargetRules::Patterns deny;
  std::vector<LadderDraft> ladders;
  QueueDraft defaults;  // of every queue that is not named; its name is empty where the key is not there
  std::vector<QueueDraft> queues;
  std::vector<TagDraft> tags;
  std::vector<DelayDraft> delays;
  std::vector<GroupDraft> groups;
  GroupChoice choice;
  // The queue (or the defaults), and the queue or tag, that the walk is in.
  QueueDraft* queue = nullptr;
  RulesDraft* current_rules = nullptr;
  // What the file holds outside single ladders and queues, sections too, by path; groups by their own:
  // "groups.eu.store.url".
  struct Place {
    Mark mark;
    bool ok = false;           // its value was taken
    bool substituted = false;  // the value comes from the environment, in part at least
  };
  std::map<std::string, Place, std::less<>> present;
  std::set<std::string> keys_used;  // by the table's paths, "queues.*.ladder"
  std::string folder;               // of the config file: relative paths start there
  ConfigFor purpose = ConfigFor::sidecar;

  // Whether files that keys of this path's section name are looked at.
  bool reads_files_of(std::string_view path) const;
  // Whether somebody reads warnings: not where a command only asks the database or the broker.
  bool reports_warnings() const { return purpose == ConfigFor::sidecar || purpose == ConfigFor::check; }
};

// One value on its way to its place. The setters of the key table call its methods; each tells its own
// problems.
struct Value {
  Draft& draft;
  Problems& problems;
  const Node& node;
  std::string path;  // as the file has it: "queues.orders.ladder"
  bool secret = false;

  bool text(std::string& out);
  bool duration(Ms& out, Ms least, Ms most);
  bool whole_seconds(Ms& out, Ms least, Ms most);
  bool integer(int& out, int least, int most);
  bool number(double& out);
  bool percent_or_off(double& out);
  bool boolean(bool& out);
  bool choice(std::string& out, const std::vector<std::string>& words);
  // Letters, digits and . _ - , from 1 to `most` of them.
  bool name(std::string& out, std::size_t most);
  // Any text that AMQP takes for a name: at most 255 bytes.
  bool amqp_name(std::string& out);
  // A file's path, from the config's folder where it is relative; file(): one that can be read now, where the
  // draft's purpose needs it.
  bool path_of_file(std::string& out);
  bool file(std::string& out);
  bool url(std::string& out, const std::vector<std::string>& schemes);
  // A list, or a text with commas (what an environment variable can hold). The first goes to `first`.
  bool urls(std::string& first, std::vector<std::string>& others, const std::vector<std::string>& schemes);
  bool host_port(std::string& out);
  bool list_of_durations(LadderDraft& out);
  bool list_of_patterns(std::vector<std::string>& out);

  // "PATH: what", at the value's place. Always false.
  bool add_error(std::string what);
  bool add_error_at(Mark at, std::string what);

  // For the methods above.
  // "\"5x\"" where that may be shown, else "what ${X} stands for" or "the value".
  std::string shown() const;
  bool may_quote() const { return !secret && !node.substituted; }
  bool expect_scalar(std::string_view wanted);
};

// One row of the key table, and what puts its value in place.
struct Key {
  ConfigKey about;
  bool (*apply)(Value&) = nullptr;
};
const std::vector<Key>& key_table();

// Walks the tree by the key table. Returns the draft; problems say what is wrong with it.
Draft walk(const Node& root, std::string folder, Problems& problems, ConfigFor purpose = ConfigFor::sidecar,
           GroupChoice choice = {});

// The groups as the draft has them, with the prefixes that are left out.
QueueGroups groups_of(const Draft& draft);
// Checks the groups against each other and chooses one; its prefix and its http.listen become the config's.
void resolve_groups(Draft& draft, Problems& problems);
// The store of the chosen group becomes the config's, when its passwords are in it.
void use_group_store(Draft& draft);

// "rung." where the name begins with Rung's prefix, or with that of a group; "" where it is the user's own.
std::string own_prefix(const Config& config, std::string_view name);
// Checks `delays`; those of this process's group become the config's.
void complete_delays(Draft& draft, Problems& problems);

// Checks what concerns several keys, reads the secrets' files, builds the rule book.
void complete(Draft& draft, Problems& problems);

// The rules of the draft's ladders, queues and tags; nullptr where something in them is wrong.
RuleBookPtr build_rules(const Draft& draft, Problems& problems);
// All ready ladders, by name.
const std::map<std::string, levels::Ladder, std::less<>>& ready_ladders();

}  // namespace rung::confile
