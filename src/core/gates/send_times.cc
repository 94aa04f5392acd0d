#include "src/core/gates/send_times.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <sstream>

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

// Removes what no longer counts, and the tasks that are asked for. Returns how many more may be out.
int room_in_flight(SendBook& book, const SendRequest& request, EpochMs now) {
  if (request.in_flight <= 0) {
    book.reserved.clear();
    return std::numeric_limits<int>::max();
  }
  std::set<TaskId> asked;
  for (const auto& value : request.values) asked.insert(value.ids.begin(), value.ids.end());
  std::erase_if(book.reserved, [&](const Reservation& one) {
    const auto row = book.scheduled.find(one.id);
    return asked.contains(one.id) || row == book.scheduled.end() || row->second != one.attempt ||
           std::chrono::abs(now - one.at) > kReservedFor;
  });
  return std::max(request.in_flight - book.out - static_cast<int>(book.reserved.size()), 0);
}

}  // namespace

Ms send_horizon(double rate, double rate_by, int in_flight) {
  return (rate > 0 && rate_by > 0) || in_flight > 0 ? kSendBurst : kSendHorizon;
}

SendTimes take(SendBook& book, const SendRequest& request, EpochMs now) {
  assert(request.horizon <= kSendHorizon);
  const SendBook before = planted(Bug::send_time_given_twice) ? book : SendBook{};
  int room = room_in_flight(book, request, now);
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
      if (room == 0) {
        out.full = true;
        return out;
      }
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
      if (request.in_flight <= 0) continue;
      --room;
      if (nth >= value.ids.size()) continue;  // a replay has no rows
      const auto row = book.scheduled.find(value.ids[nth]);
      if (row != book.scheduled.end()) book.reserved.push_back({row->first, row->second, now});
    }
  }
  if (planted(Bug::send_time_given_twice)) book = before;
  return out;
}

std::string to_text(const std::vector<Reservation>& reserved) {
  std::string out;
  for (const Reservation& one : reserved) {
    out.append(out.empty() ? "" : " ").append(one.id.str()).append(":").append(std::to_string(one.attempt));
    out.append(":").append(std::to_string(one.at.ms));
  }
  return out;
}

std::vector<Reservation> reservations_from(const std::string& text) {
  std::vector<Reservation> out;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    long long id = 0, at = 0;
    int attempt = 0;
    if (std::sscanf(word.c_str(), "%lld:%d:%lld", &id, &attempt, &at) == 3)
      out.push_back({TaskId{id}, attempt, EpochMs{at}});
  }
  return out;
}

}  // namespace rung
