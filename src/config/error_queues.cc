// Error queues: from a queue to which a framework publishes failures to the queues that they go back to,
// without loops.
#include "src/core/rules/error_queues.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "src/config/dialects.h"
#include "src/config/draft.h"

namespace rung::confile {
namespace {

constexpr std::string_view kForm = "write { from: QUEUE, dialect: NAME }";
constexpr std::string_view kNoLadder = "none", kDefaultDialect = "plain";
constexpr std::size_t kMostDialectBytes = 1024UL * 1024;

class ErrorQueueCompletion {
 public:
  ErrorQueueCompletion(const Draft& draft, const RuleBook::Ladders& ladders, Problems& problems)
      : draft_(draft), ladders_(ladders), problems_(problems) {}

  ErrorQueuesPtr run() {
    for (std::size_t i = 0; i < draft_.error_queues.size(); ++i) {
      const ErrorQueueDraft& one = draft_.error_queues[i];
      path_ = "error_queues[" + std::to_string(i + 1) + "]";
      if (one.invalid || !one.from) {
        if (!one.invalid) problems_.add(one.mark, path_ + ": from is missing: " + std::string(kForm));
        continue;
      }
      check_names(one);
      if (check_group(one)) add(one);
    }
    check_loops();
    return std::make_shared<const ErrorQueues>(std::move(queues_));
  }

 private:
  void check_names(const ErrorQueueDraft& one) {
    const std::string& from = *one.from;
    const bool pattern = from.find('*') != std::string::npos;
    if (const std::string own = own_prefix(draft_.config, from); !own.empty())
      problems_.add(one.from_mark, path_ + ".from: names that begin with " + own + " are reserved for Rung");
    if (from.find_first_not_of('*') == std::string::npos) {
      problems_.add(one.from_mark, path_ +
                                       ".from: matches every queue: write a part of the error queues' names, "
                                       "like \"*_error\"");
    } else {
      check_live_queues(one, pattern);
    }
    if (!seen_.insert(from).second) problems_.add(one.from_mark, path_ + ".from: duplicate entry");
    if (!one.to) return;
    if (one.to->find('*') != std::string::npos)
      problems_.add(one.to_mark, path_ + ".to: must name one queue: only from may be a pattern");
    if (const std::string own = own_prefix(draft_.config, *one.to); !own.empty())
      problems_.add(one.to_mark, path_ + ".to: names that begin with " + own + " are reserved for Rung");
  }

  // The config gives rules for the retries of these: they have consumers.
  void check_live_queues(const ErrorQueueDraft& one, bool pattern) {
    for (const QueueDraft& queue : draft_.queues) {
      // An error queue may match a pattern of queues: it has no consumer of its own.
      const std::string name = queue.key.only_name().value_or(queue.name);
      if (*one.from != name && !(pattern && matches_pattern(*one.from, name))) continue;
      problems_.add(one.from_mark, path_ + ".from: " + (pattern ? "matches" : "is") + " the queue " +
                                       in_quotes(queue.name) +
                                       " of queues:, whose messages are for its consumer");
    }
  }

  // True: it is for this process.
  bool check_group(const ErrorQueueDraft& one) {
    const QueueGroups& groups = draft_.config.groups;
    const bool fits = groups.empty() ? !one.group : one.group && groups.find(*one.group) != nullptr;
    if (!fits) {
      problems_.add(one.group ? one.group_mark : one.mark,
                    path_ + ".group: " +
                        (groups.empty() ? "the config has no groups: remove it"
                                        : "set the group that takes these messages in: " + groups.names()));
      return false;
    }
    return groups.empty() || groups.own.empty() || *one.group == groups.own;
  }

  void add(const ErrorQueueDraft& one) {
    ErrorQueue queue;
    queue.from = *one.from;
    queue.to = one.to.value_or("");
    queue.retries = one.ladder != kNoLadder;
    if (one.ladder && queue.retries &&
        check_ladder({*one.ladder, one.ladder_mark, one.substituted}, path_ + ".ladder", ladders_, draft_,
                     problems_))
      queue.ladder = *one.ladder;
    queue.dialect = dialect_of(one);
    if (queue.dialect == nullptr) return;
    if (queue.dialect->name == kDefaultDialect && !one.to && draft_.reports_warnings() && !queue.is_pattern())
      problems_.warn(one.mark, path_ +
                                   ": without `to`, a message goes back to the queue that its x-death or its "
                                   "header retry-queue names; one that has neither is parked");
    queues_.push_back(std::move(queue));
  }

  // A user's dialect is unknown to commands that do not read its file.
  DialectPtr dialect_of(const ErrorQueueDraft& one) {
    const std::string name = one.dialect.value_or(std::string(kDefaultDialect));
    if (const auto found = draft_.config.dialects.find(name); found != draft_.config.dialects.end())
      return found->second;
    if (!draft_.dialect_files.empty() || draft_.reads_files_of("dialects")) {
      std::vector<std::string> names;
      for (const auto& [known, dialect] : draft_.config.dialects) names.push_back(known);
      std::string all;
      for (const std::string& known : names) all.append(all.empty() ? "" : ", ").append(known);
      problems_.add(one.dialect_mark, path_ +
                                          ".dialect: " + (one.substituted ? "the value" : in_quotes(name)) +
                                          " is not a dialect" + did_you_mean(name, names, ": one of " + all));
    }
    return nullptr;
  }

  // A message that goes to an error queue, also to another group's, would be taken in again.
  void check_loops() {
    std::vector<ErrorQueue> sources;
    for (const ErrorQueueDraft& one : draft_.error_queues) {
      if (one.from) sources.push_back({.from = *one.from});
    }
    const ErrorQueues all(std::move(sources));
    const auto check = [&](const std::string& to, const Mark& mark, const std::string& path) {
      if (all.find(to) != nullptr)
        problems_.add(mark, path + ": " + in_quotes(to) +
                                " is an error queue: Rung would take its messages in again and again");
    };
    for (std::size_t i = 0; i < draft_.error_queues.size(); ++i) {
      const ErrorQueueDraft& one = draft_.error_queues[i];
      if (one.to) check(*one.to, one.to_mark, "error_queues[" + std::to_string(i + 1) + "].to");
    }
    for (const TagDraft& tag : draft_.tags) {
      if (tag.queue) check(*tag.queue, tag.queue_mark, "tags." + tag.name + ".queue");
    }
    for (const RuleListDraft& list : draft_.rule_lists) {
      for (const RuleDraft& rule : list.rules) {
        if (const std::string& to = rule.rule.then.to; !to.empty())
          check(to, rule.to_mark, "rules." + list.name + ": then.to");
      }
    }
  }

  const Draft& draft_;
  const RuleBook::Ladders& ladders_;
  Problems& problems_;
  std::set<std::string> seen_;
  std::string path_;
  std::vector<ErrorQueue> queues_;
};

}  // namespace

Config::Dialects read_dialects(const Draft& draft, Problems& problems) {
  Config::Dialects all = ready_dialects();
  std::set<std::string> users;
  for (const auto& [file, mark] : draft.dialect_files) {
    std::ifstream in(file, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    if (!in || text.str().size() > kMostDialectBytes) {
      problems.add(mark, "dialects: " + in_quotes(file) + " cannot be read, or is larger than 1 MB");
      continue;
    }
    Problems own(file);
    const DialectPtr dialect = parse_dialect(text.str(), own);
    for (ConfigProblem& problem : own.take()) problems.add_other(std::move(problem));
    if (dialect != nullptr && !users.insert(dialect->name).second) {
      problems.add(mark,
                   "dialects: " + in_quotes(file) + ": another file has a dialect named " + dialect->name);
    } else if (dialect != nullptr) {
      all.insert_or_assign(dialect->name, dialect);
    }
  }
  return all;
}

ErrorQueuesPtr build_error_queues(const Draft& draft, const RuleBook::Ladders& ladders, Problems& problems) {
  return ErrorQueueCompletion(draft, ladders, problems).run();
}

}  // namespace rung::confile
