// What follows from a collector's replies: whether a batch has arrived, the pause before it is sent again,
// and what is logged of it. Thread: one per object; read_reply() is pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "src/core/base/clock.h"
#include "src/core/base/time.h"
#include "src/net/http_client.h"

namespace rung::otel {

struct ExportResult {
  enum class Kind { accepted, retry, refused };
  Kind kind = Kind::refused;
  std::int64_t rejected = 0;  // accepted: all but so many
  Ms retry_after{0};          // retry: the collector asked for this pause; 0 = it did not
  std::string reason;         // retry, refused, or some were rejected: why
};

// What the reply to a batch of `spans` means (OTLP/HTTP Response, in OTLP's specification). Its body can be
// anything of up to HttpClientOptions::max_answer bytes.
ExportResult read_reply(const net::HttpReply& reply, std::size_t spans);

// Pauses before a request is sent again: doubled from `first` to `most`, each shortened at random by up to
// half, so that many instances do not ask in step.
class RetryDelay {
 public:
  RetryDelay(Ms first, Ms most) : first_(first), most_(most), step_(first) {}

  // More than this no collector gets, whatever its Retry-After says: spans wait in bounded memory meanwhile.
  static constexpr Ms kMostAsked{5 * 60'000};

  // `asked`: the collector's Retry-After, 0 = none.
  Ms next(Ms asked) {
    if (asked > Ms{0}) return std::min(asked, kMostAsked);
    const Ms longest = step_;
    step_ = std::min(step_ * 2, most_);
    return Ms{std::uniform_int_distribution<std::int64_t>(longest.count() / 2, longest.count())(random_)};
  }
  void reset() { step_ = first_; }

 private:
  const Ms first_, most_;
  Ms step_;
  std::minstd_rand random_{std::random_device{}()};
};

// Logs when spans stop arriving at the collector, and when they arrive again: one line per change, and at
// most one warning a minute.
class CollectorLog {
 public:
  // `clock`: nullptr = no limit per minute.
  CollectorLog(const std::string& endpoint, const Clock* clock);

  // `event`: a constant. `dropped`: spans so far, in both.
  void failing(std::string_view event, const std::string& reason, std::int64_t dropped);
  void accepting(std::int64_t dropped);

 private:
  bool may_warn() const;

  const std::string endpoint_;
  const Clock* const clock_;
  std::string_view warned_of_;       // the event of this outage; "" = none logged
  std::optional<BootMs> warned_at_;  // the last warning
  std::int64_t dropped_before_ = 0;  // this outage
};

}  // namespace rung::otel
