#include "src/core/gates/send_times.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "src/core/base/failpoint.h"

namespace rung {
namespace {

// A schedule further ahead than any send time that may have been given is from before the database's clock
// was set back, or of a much slower rate. Instances drop what they hold that is half as far ahead (Throttle).
constexpr Ms kImpossible{1000};

constexpr std::int64_t us_of(EpochMs t) { return t.ms * 1000; }
constexpr std::int64_t us_of(Ms t) { return t.count() * 1000; }

// The generic cell rate algorithm.
class Pace {
 public:
  Pace(SendSchedule* schedule, double per_second, EpochMs now) {
    if (per_second <= 0) return;
    schedule_ = schedule;
    interval_us_ = 1e6 / per_second;
    const double latest =
        static_cast<double>(us_of(now) + us_of(kSendHorizon + kSendBurst + kImpossible)) + interval_us_;
    next_us_ = static_cast<double>(schedule->next_us);
    if (next_us_ > latest) next_us_ = static_cast<double>(us_of(now) + us_of(kSendBurst));
  }
  // The first free time from `from` on.
  double free_from(double from) const {
    return schedule_ == nullptr ? from : std::max(from, next_us_ - static_cast<double>(us_of(kSendBurst)));
  }
  void use(double at) {
    if (schedule_ == nullptr) return;
    next_us_ = std::max(next_us_, at) + interval_us_;
    schedule_->next_us = static_cast<std::int64_t>(std::ceil(next_us_));
  }

 private:
  SendSchedule* schedule_ = nullptr;  // nullptr: no limit
  double interval_us_ = 0, next_us_ = 0;
};

}  // namespace

Ms send_horizon(double rate, double rate_by) { return rate > 0 && rate_by > 0 ? kSendBurst : kSendHorizon; }

SendTimes take(SendBook& book, const SendRequest& request, EpochMs now) {
  assert(request.horizon <= kSendHorizon);
  const SendBook before = planted(Bug::send_time_given_twice) ? book : SendBook{};
  Pace queue(&book.queue, request.rate, now);
  std::vector<Pace> paces;
  for (const auto& value : request.values)
    paces.emplace_back(&book.values[value.value], value.value.empty() ? 0 : request.rate_by, now);
  const auto latest = static_cast<double>(us_of(now) + us_of(request.horizon));

  SendTimes out;
  out.values.resize(request.values.size());
  for (bool more = true; more;) {
    more = false;
    for (std::size_t i = 0; i < request.values.size(); ++i) {
      const auto& value = request.values[i];
      SendTimes::Of& of = out.values[i];
      const std::size_t nth = of.given.size();
      if (nth == value.due.size() || of.next) continue;
      const auto from = static_cast<double>(us_of(std::max(value.due[nth], now)));
      const double at = paces[i].free_from(queue.free_from(from));
      const EpochMs at_ms{static_cast<std::int64_t>(std::ceil(at / 1000))};
      if (at > latest) {
        of.next = at_ms;
        continue;
      }
      queue.use(at);
      paces[i].use(at);
      of.given.push_back(at_ms);
      more = true;
    }
  }
  if (planted(Bug::send_time_given_twice)) book = before;
  return out;
}

}  // namespace rung
