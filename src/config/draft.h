// The state of the loader: what it collects from the file, before validation as a whole turns it into a
// Config. Thread: one load, one thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/config/config.h"
#include "src/config/document.h"
#include "src/core/causes/fingerprint.h"

namespace rung::confile {

// An entry of `causes`, for errors.
inline constexpr std::string_view kCauseForm = "{ match: /EXPRESSION/, as: NAME } or { mask: /EXPRESSION/ }";

struct LadderDraft {
  std::string name;
  Mark mark;
  bool invalid = false;  // a part of it has a reported error
  bool substituted = false;
  bool is_list = false;
  std::vector<Ms> delays;
  std::vector<Mark> delay_marks;
  levels::Exponential spec;
  std::map<std::string, Mark, std::less<>> present;  // base, factor, max, levels, jitter
  double jitter = 0.0;
};

struct RuleDraft {
  Mark mark;
  bool invalid = false;  // a part of it has a reported error
  FailureRule rule;
  bool has_then = false;
  bool ladder_substituted = false;
  Mark ladder_mark, to_mark, queue_mark, type_from_mark, error_mark;
};
struct RuleListDraft {
  std::string name;
  Mark mark;
  std::vector<RuleDraft> rules;
};

// Common to queues and tags.
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

// `gate` of a queue. A key that is missing, or has a reported error, is not set.
struct GateDraft {
  std::optional<double> rate;
  std::optional<std::string> by_header;  // rate_by
  std::optional<double> by_rate;
  std::optional<std::vector<std::string>> allow;  // window
  std::optional<std::string> zone;
  std::optional<int> open_after, of_last, probes, close_after;  // breaker
  std::optional<std::vector<std::string>> only;
  std::optional<std::vector<Ms>> wait;
  std::optional<Ms> probe_timeout;
  std::optional<Ms> cap, longest_hold;  // retry_after
  std::optional<bool> pauses_queue;
  // The keys, and the sections without errors, in the file, by their path below gate: "rate_by.header",
  // "rate_by".
  std::map<std::string, Mark, std::less<>> present;

  bool has(std::string_view path) const { return present.find(path) != present.end(); }
};

struct QueueDraft : RulesDraft {
  // Its key: a pattern, or the name of a queue. `name` is the key as in the file.
  QueuePattern key{""};
  std::optional<bool> publish_parked;
  std::optional<int> catch_up;
  std::optional<std::string> rules;
  Mark rules_mark;
  std::optional<int> give_up_attempts;
  std::optional<Ms> give_up_after;
  std::optional<bool> needs_attachment;
  std::optional<Ms> late_by;
  GateDraft gate;
};

struct TagDraft : RulesDraft {
  std::optional<std::string> queue, exchange, routing_key;
  Mark queue_mark, exchange_mark, routing_key_mark;
};

struct DelayDraft {
  Mark mark;
  bool invalid = false;  // a part of it has a reported error
  bool substituted = false;
  std::optional<std::string> from, to, group;
  Mark from_mark, to_mark, group_mark;
};

struct CauseDraft {
  Mark mark;
  bool invalid = false;  // a part of it has a reported error
  std::optional<RuleRegex> match, mask;
  std::string as;
};

struct ErrorQueueDraft {
  Mark mark;
  bool invalid = false;  // a part of it has a reported error
  bool substituted = false;
  std::optional<std::string> from, dialect, to, ladder, group;
  Mark from_mark, dialect_mark, to_mark, ladder_mark, group_mark;
};

struct GroupDraft {
  std::string name;
  Mark mark;
  std::string prefix;  // "" = not set
  std::string url, password_file, listen;
  std::vector<std::string> other_urls;
  TargetRules::Patterns queues;
  std::vector<Mark> queue_marks;
  // The path of a key in the file: "groups.eu.store".
  std::string path(std::string_view key) const { return "groups." + name + "." + std::string(key); }
};

struct Draft {
  Config config;
  bool publish_parked = false;
  std::optional<int> catch_up;
  std::optional<TargetRules::Patterns> allow;  // broker.targets
  TargetRules::Patterns deny;
  std::vector<LadderDraft> ladders;
  QueueDraft defaults;  // for all other queues; its name is empty if the key is missing
  std::vector<QueueDraft> queues;
  std::vector<TagDraft> tags;
  std::vector<DelayDraft> delays;
  std::vector<ErrorQueueDraft> error_queues;
  std::vector<CauseDraft> causes;
  std::vector<std::pair<std::string, Mark>> dialect_files;  // full paths
  std::vector<RuleListDraft> rule_lists;
  std::vector<GroupDraft> groups;
  GroupChoice choice;
  // The current queue (or the defaults), and the current queue or tag, of the walk.
  QueueDraft* queue = nullptr;
  RulesDraft* current_rules = nullptr;
  // The keys and sections in the file, by path, except those of single ladders and queues; with the names of
  // groups: "groups.eu.store.url".
  struct Place {
    Mark mark;
    bool ok = false;           // its value is valid
    bool substituted = false;  // the value comes at least partly from the environment
  };
  std::map<std::string, Place, std::less<>> present;
  // Mark{} = it is not in the file.
  Mark mark(std::string_view path) const {
    const auto it = present.find(path);
    return it != present.end() ? it->second.mark : Mark{};
  }
  // It is in the file, and valid.
  bool has_valid(std::string_view path) const {
    const auto it = present.find(path);
    return it != present.end() && it->second.ok;
  }
  std::set<std::string> keys_used;  // by the table's paths, "queues.*.ladder"
  std::string folder;               // of the config file; base of relative paths
  ConfigFor purpose = ConfigFor::sidecar;

  // Whether files named by keys of this path's section are read.
  bool reads_files_of(std::string_view path) const;
  // Whether warnings are reported: not for commands that only use the database or the broker.
  bool reports_warnings() const { return purpose == ConfigFor::sidecar || purpose == ConfigFor::check; }
};

// One value of the file. The setters of the key table call its methods, which report errors themselves.
struct Value {
  Draft& draft;
  Problems& problems;
  const Node& node;
  std::string path;  // as in the file: "queues.orders.ladder"
  bool secret = false;

  bool text(std::string& out);
  bool duration(Ms& out, Ms least, Ms most);
  bool whole_seconds(Ms& out, Ms least, Ms most);
  bool integer(int& out, int least, int most);
  bool number(double& out);
  bool percent_or_off(double& out);
  bool boolean(bool& out);
  bool choice(std::string& out, const std::vector<std::string>& words);
  // 1 to `most` letters, digits and . _ -
  bool name(std::string& out, std::size_t most);
  // The same, with %H for the host name and %i for the variable RUNG_INSTANCE.
  bool node_name(std::string& out, std::size_t most);
  // Any valid AMQP name: at most 255 bytes.
  bool amqp_name(std::string& out);
  // A file's path; relative paths start at the config's directory. file(): the file must also be readable, if
  // the draft's purpose needs it.
  bool path_of_file(std::string& out);
  bool file(std::string& out);
  bool url(std::string& out, const std::vector<std::string>& schemes);
  // A list, or a comma-separated string (for environment variables). The first goes to `first`.
  bool urls(std::string& first, std::vector<std::string>& others, const std::vector<std::string>& schemes);
  bool host_port(std::string& out);
  bool list_of_durations(LadderDraft& out);
  bool list_of_patterns(std::vector<std::string>& out);
  // A pattern, or a list of patterns.
  bool patterns(std::vector<std::string>& out);

  // Sets `out` only if the value is right: optional(gate.probes, &Value::integer, 1, 100).
  template <typename T, typename... Limits>
  bool optional(std::optional<T>& out, bool (Value::*read)(T&, Limits...),
                std::type_identity_t<Limits>... limits) {
    T value{};
    if (!(this->*read)(value, limits...)) return false;
    out = std::move(value);
    return true;
  }

  // Adds "PATH: what" at the value's position. Always returns false.
  bool add_error(std::string what);
  bool add_error_at(Mark at, std::string what);

  // For the methods above.
  // "\"5x\"" if it may be shown, otherwise "the value of \"${X}\"" or "the value".
  std::string shown() const;
  bool may_quote() const { return !secret && !node.substituted; }
  bool expect_scalar(std::string_view wanted);
};

// How a value is compared with another config's: its text, a URL without its password, or only the keys.
enum class Secrecy { none, url, hidden };
// Equal for values that mean the same: sorted by key, durations in one form.
std::string canonical_text(const Node& value, Secrecy secrecy = Secrecy::none);

// One row of the key table, and its setter.
struct Key {
  ConfigKey about;
  bool (*apply)(Value&) = nullptr;
};
const std::vector<Key>& key_table();
// The part of the table about policies: rules and give_up.
std::vector<Key> policy_keys();
// The part about gates.
std::vector<Key> gate_keys();
// The part about error queues.
std::vector<Key> error_queue_keys();
// The part about signing in by OpenID Connect.
std::vector<Key> http_keys();
std::vector<Key> oidc_keys();
// The part about traces.
std::vector<Key> otel_keys();
// The part about the API that is used instead of a database.
std::vector<Key> api_keys();

// Reads the tree into a draft, by the key table.
Draft walk(const Node& root, std::string folder, Problems& problems, ConfigFor purpose = ConfigFor::sidecar,
           GroupChoice choice = {});

// "" if it is not known.
std::string host_name();

// The groups of the draft, with default prefixes filled in.
QueueGroups groups_of(const Draft& draft);
// Checks the groups for conflicts and chooses one; copies its prefix and http.listen to the config.
void resolve_groups(Draft& draft, Problems& problems);
// Copies the store of the chosen group to the config, after its passwords are read.
void use_group_store(Draft& draft);

// "rung." if the name begins with Rung's prefix or that of a group; "" if it is a user's name.
std::string own_prefix(const Config& config, std::string_view name);
// Finds rules that snooze a message from queue to queue in a circle.
void check_snooze_loops(const Draft& draft, const RuleBook& rules, Problems& problems);
// Checks `delays`, and copies those of this process's group to the config.
void complete_delays(Draft& draft, Problems& problems);

// Whether the config names an API; and its checks, instead of all others.
bool is_api_config(const Draft& draft);
void complete_api(Draft& draft, Problems& problems);

// Checks that involve several keys; also reads the files with secrets and builds the rule book.
void complete(Draft& draft, Problems& problems);

// A ladder that a queue, a tag or a rule names.
struct LadderName {
  const std::string& name;
  Mark mark;
  bool substituted = false;  // never quote it
};
// Whether it exists; reports an error if not. `path`: of its key.
bool check_ladder(const LadderName& wanted, const std::string& path, const RuleBook::Ladders& ladders,
                  const Draft& draft, Problems& problems);

// The lists of `rules`, checked; warns of rules that never match.
RuleBook::RuleLists build_rule_lists(const Draft& draft, const RuleBook::Ladders& ladders,
                                     Problems& problems);
// `causes`, checked; nullptr: there are none.
CauseRulesPtr build_cause_rules(const Draft& draft, Problems& problems);
// Whether the list that the queue names exists; reports an error if not.
bool check_rules_name(const QueueDraft& queue, const std::string& section, const Draft& draft,
                      Problems& problems);

// The gates of a queue, or of the defaults themselves (`defaults` is then nullptr). Keys that the queue
// leaves out come from the defaults. Reports errors in what the two make together, and warns. `section`:
// "queues.", or "" for the defaults. `silence`: of the queue.
GateRules build_gate(const QueueDraft& queue, const GateDraft* defaults, const std::string& section,
                     const Silence& silence, const Draft& draft, Problems& problems);
// Warns if every user of this machine can read the file with a secret. `why`: what is secret.
void warn_if_readable(Problems& problems, Mark at, const std::string& file, const std::string& why);
// The entries of http.tokens_file. Errors have the place in that file; only those of reading it have `at`.
std::vector<PersonToken> read_tokens_file(const std::string& file, Mark at, Problems& problems);
// `queues` of one who may use the HTTP API: a list of patterns; `path` is its place, for errors. nullptr
// after an error.
QueueScopePtr read_queue_scope(const Node& list, const std::string& path, Problems& problems);
// The built-in dialects, and those of the config's files, which it reads.
Config::Dialects read_dialects(const Draft& draft, Problems& problems);
// `error_queues`, those of this process's group.
ErrorQueuesPtr build_error_queues(const Draft& draft, const RuleBook::Ladders& ladders, Problems& problems);
// The rules from the draft's ladders, queues and tags; nullptr on errors.
RuleBookPtr build_rules(const Draft& draft, Problems& problems);
// All predefined ladders, by name.
const std::map<std::string, levels::Ladder, std::less<>>& ready_ladders();

}  // namespace rung::confile
