// When the tasks of a queue with a rate, or a rate for each value of a header, may go out. All instances
// share a schedule for each queue and each value (GCRA): it has the next free send time. An instance takes
// send times for the tasks that it has. What is taken and not used is lost: a send time is never given twice.
// A store calls take() inside a transaction that has locked the rows. Thread: values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/core/base/time.h"

namespace rung {

// After an idle time a queue may send one, and what its rate gives in this time, at once. An instance that
// asks late by no more than this loses nothing.
inline constexpr Ms kSendBurst{200};
// How far ahead send times are taken: so many are lost at most if an instance dies. With a rate for the queue
// and one for each value, kSendBurst: else a value that goes slowly would block the queue's next times for
// the others.
inline constexpr Ms kSendHorizon{1000};
// The key of tasks whose header has no value: they share one rate.
inline constexpr const char* kNoValue = "(no value)";

// The next free send time of a queue or a value, us since 1970 by the database's clock; 0 = free now.
struct SendSchedule {
  std::int64_t next_us = 0;
  bool operator==(const SendSchedule&) const = default;
  EpochMs next() const { return {(next_us + 999) / 1000}; }
};

// What a queue's rows say.
struct SendBook {
  SendSchedule queue;
  std::map<std::string, SendSchedule, std::less<>> values;  // of those that are asked for
};

// What an instance asks for, for one queue.
struct SendRequest {
  struct Value {
    std::string value;         // of rate_by's header; "" = the queue has no rate_by
    std::vector<EpochMs> due;  // of its tasks, those first that go first; in the past: as soon as possible
  };
  std::string queue;
  double rate = 0;            // of the queue, a second; 0 = no limit
  double rate_by = 0;         // of each value
  std::vector<Value> values;  // each gets one in turn
  Ms horizon{kSendHorizon};   // nothing later is given
};

struct SendTimes {
  struct Of {
    std::vector<EpochMs> given;   // for the first tasks of the value
    std::optional<EpochMs> next;  // the next one, if that is why not all have got one
  };
  std::vector<Of> values;  // as in the request
};

// How far ahead a queue with these rates may take send times.
Ms send_horizon(double rate, double rate_by);
// Takes send times and changes the book. `now`: the database's time.
SendTimes take(SendBook& book, const SendRequest& request, EpochMs now);

}  // namespace rung
