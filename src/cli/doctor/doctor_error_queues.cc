// Checks of error_queues, over AMQP; the management API lists the queues that a pattern matches.
#include "plugin/rabbitmq/consume/error_queues.h"
#include "plugin/rabbitmq/topology/attachment.h"
#include "plugin/rabbitmq/topology/probe.h"
#include "src/cli/doctor/doctor.h"
#include "src/core/base/url.h"

namespace rung::cli {
namespace {

bool is_missing(const Result<void>& answer) {
  return !answer && answer.error().kind == Error::Kind::not_found;
}

class ErrorQueueCheck {
 public:
  ErrorQueueCheck(const Config& config, QueueList& list, rabbit::Probe& probe)
      : config_(config), list_(list), probe_(probe) {}

  Findings run() {
    for (const ErrorQueue& entry : config_.broker.error_queues->all()) {
      if (entry.is_pattern()) {
        check_pattern(entry);
      } else if (check_queue(entry, entry.from)) {
        found_.push_back(good(name_of(entry.from), "exists and can be read; dialect " + entry.dialect->name +
                                                       ", " + destination(entry, entry.from)));
      }
    }
    return std::move(found_);
  }

 private:
  static std::string name_of(const std::string& queue) { return "error_queue." + queue; }

  static std::string destination(const ErrorQueue& entry, const std::string& queue) {
    if (!entry.retries) return "its messages are parked";
    const std::string to = target_by_name(entry, queue);
    return "its messages go back to " + (to.empty() ? "the queue that each message names" : "'" + to + "'");
  }

  // What only the management API knows. False: wrong.
  bool check_kind(const std::string& queue) {
    const auto& all = list_.get();
    if (!all) return true;
    const auto facts = std::ranges::find(*all, queue, &rabbit::QueueFacts::name);
    const std::string why = facts == all->end() ? "" : rabbit::unfit(*facts);
    if (!why.empty())
      found_.push_back(wrong(name_of(queue), why, "declare it anew, or remove it from error_queues"));
    return why.empty();
  }

  // True: nothing is wrong with it.
  bool check_queue(const ErrorQueue& entry, const std::string& queue) {
    const std::string name = name_of(queue);
    if (is_missing(probe_.queue_exists(queue))) {
      found_.push_back(warning(name, "no such queue: '" + queue + "'",
                               "correct error_queues, or do nothing: Rung consumes it within 5 seconds after "
                               "it is declared"));
      return false;
    }
    if (const auto read = probe_.may_consume(queue); !read) {
      found_.push_back(wrong(name, "it cannot be read: " + read.error().message,
                             "add it to the user's read pattern: docs/permissions.md"));
      return false;
    }
    if (!check_kind(queue)) return false;
    const std::string to = target_by_name(entry, queue);
    if (to.empty() || !entry.retries || !is_missing(probe_.queue_exists(to))) return true;
    found_.push_back(
        warning(name, "its messages go back to '" + to + "', which does not exist: they would be parked",
                "declare '" + to + "', or set error_queues.to"));
    return false;
  }

  void check_pattern(const ErrorQueue& entry) {
    const auto& all = list_.get();
    if (!all) {
      found_.push_back(
          warning(name_of(entry.from), "the queues that match cannot be listed: " + all.error().message,
                  "rabbitmq-plugins enable rabbitmq_management, or name each queue in error_queues"));
      return;
    }
    std::string fine;
    std::size_t matching = 0;
    for (const rabbit::QueueFacts& queue : *all) {
      if (!rabbit::may_match(config_.broker, queue) ||
          config_.broker.error_queues->find(queue.name) != &entry)
        continue;
      ++matching;
      if (check_queue(entry, queue.name)) fine += (fine.empty() ? "" : ", ") + queue.name;
    }
    if (matching == 0) {
      found_.push_back(
          warning(name_of(entry.from), "no queue matches this pattern",
                  "correct error_queues, or do nothing: Rung looks for new queues every minute"));
    } else if (!fine.empty()) {
      found_.push_back(good(name_of(entry.from), "matches queues that can be read: " + fine));
    }
  }

  const Config& config_;
  QueueList& list_;
  rabbit::Probe& probe_;
  Findings found_;
};

}  // namespace

Findings check_error_queues(const Config& config, QueueList& list, const Clock& clock) {
  if (config.broker.error_queues->empty()) return {};
  const auto probe = rabbit::Probe::open(config.broker, clock, kDoctorTimeout);
  if (!probe) return {skipped("error_queues", "not connected to the broker")};
  return ErrorQueueCheck(config, list, **probe).run();
}

}  // namespace rung::cli
