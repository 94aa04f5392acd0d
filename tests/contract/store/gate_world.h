// The fixture of tests of gates: states of queues, as they are written, read and shown.
#pragma once

#include "src/store/mysql/render.h"
#include "tests/contract/store/world.h"

namespace rung::test {

// The rows of the view retry_queues, by queue.
inline std::vector<QueueGate> shown_queues(MysqlSchema& schema) {
  const auto time = [](const std::string& text) {
    return text == "NULL" ? std::nullopt : std::optional(mysql::parse_datetime(text));
  };
  std::vector<QueueGate> out;
  for (const auto& row :
       schema.query("SELECT queue, state, since, until, COALESCE(reason, ''), "
                    "COALESCE(`by`, ''), waiting, next_at FROM retry_queues ORDER BY queue"))
    out.push_back(
        {row[0], row[1], time(row[2]), time(row[3]), row[4], row[5], std::stoll(row[6]), time(row[7])});
  return out;
}

class GateWorld : public StoreContract {
 protected:
  static constexpr Ms kLong{3'600'000};

  GateState change(const std::string& queue, const std::function<void(GateState&, EpochMs)>& how) {
    return store_->change_gate(queue, [&](GateState& state, EpochMs now) {
      how(state, now);
      return std::vector<SystemEvent>{};
    });
  }
  // As a new handle reads it.
  std::optional<GateState> read(const std::string& queue) {
    auto other = open();
    for (const GateState& one : other->gate_states()) {
      if (one.queue == queue) return one;
    }
    return std::nullopt;
  }
};

inline Breaker open_breaker(EpochMs now) {
  Breaker breaker;
  breaker.state = Breaker::State::open;
  breaker.since = breaker.opened_at = now;
  breaker.until = now + Ms{30'000};
  breaker.opened = 1;
  breaker.reason =
      "20 of the last 100 deliveries failed, the last one with: \"connect\\refused\" \u00fc \U0001F600";
  return breaker;
}

}  // namespace rung::test
