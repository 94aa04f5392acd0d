// Failures to replay against a config: given as JSON Lines, or read from the history. Thread: values.
#pragma once

#include <istream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/core/base/time.h"
#include "src/core/rules/policy.h"
#include "src/store/queries.h"

namespace rung::api {

// What a failure says.
struct FailureText {
  // How Rung learnt of it: it was reported (or dead-lettered), no answer came, or there was no such queue.
  enum class How : std::uint8_t { reported, silent, returned };
  std::string error, type;
  How how = How::reported;
  auto operator<=>(const FailureText&) const = default;
};

struct RecordedFailure {
  EpochMs at;                          // from then on deliveries fail with it
  const FailureText* text = nullptr;   // FailureLog has it
  Ms answer{0};                        // how long after its delivery the failure was known
  std::optional<Ms> retry_after = {};  // what its consumer asked for
};

// A message that failed, and what is known about when it works.
struct FailedMessage {
  std::string tag;
  RuleHeaders headers;
  std::string ladder;                     // from the header retry-ladder; "" = none
  int max_attempts = 0;                   // from the header retry-max-attempts; 0 = none
  std::vector<RecordedFailure> failures;  // by time. REQUIRES: not empty
  std::optional<EpochMs> works_at;        // from then on deliveries succeed; none: never
  Ms answer{0};                           // how long after its delivery the success was reported
  bool reported = false;                  // its success was reported

  EpochMs began() const { return failures.front().at; }
};

// Many messages fail with the same text, so it is kept once. Move-only: its messages point into it.
class FailureLog {
 public:
  FailureLog() = default;
  FailureLog(FailureLog&&) = default;
  FailureLog& operator=(FailureLog&&) = default;

  const FailureText* text(FailureText text) { return &*texts_.insert(std::move(text)).first; }
  void add(FailedMessage message) { messages_.push_back(std::move(message)); }
  const std::vector<FailedMessage>& messages() const { return messages_; }

 private:
  std::set<FailureText> texts_;
  std::vector<FailedMessage> messages_;
};

// An `at` that is a duration counts from here, a Monday, 00:00 UTC.
inline constexpr EpochMs kLogBegins{1'767'571'200'000};

// One JSON object a line; docs/try-a-config.md describes it. Errors: for people, each with its line.
tl::expected<FailureLog, std::vector<std::string>> read_failure_log(std::istream& in,
                                                                    const std::string& queue);

}  // namespace rung::api
