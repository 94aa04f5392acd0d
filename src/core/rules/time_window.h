// The times of a week in which a queue's tasks may go out: "Mon-Fri 08:00-18:00" in a time zone. Local times
// follow the zone's clock, whatever it shows: a window that begins in the hour that a change to summer time
// skips begins at the change, one within that hour does not open on that day, and one within the hour that
// the change back repeats opens twice. Uses the system's time zone database as it was when the process first
// needed it; years that it does not cover (Debian's ends in 2037) have the last offset that it knows. Thread:
// immutable; all methods may be called from any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/core/base/result.h"
#include "src/core/base/time.h"

namespace rung {

class TimeWindow {
 public:
  // `allow`: any of these, "[DAYS] HH:MM-HH:MM"; DAYS like "Mon-Fri", "Sat,Sun", none = every day. A time
  // that ends before it begins ends on the next day; 24:00 is the end of the day. `zone`: "Europe/Berlin".
  // Errors: for people, with what would be right; also for a window that never opens.
  static Result<TimeWindow> parse(const std::vector<std::string>& allow, const std::string& zone);

  bool is_open(EpochMs at) const;
  // The first time after `at` at which it opens or closes. If there is none within 8 days, as in a window
  // that is always open, the time 8 days ahead.
  EpochMs next_change(EpochMs at) const;
  // How much of the time between the two it is closed; 0 unless from < to.
  Ms closed_between(EpochMs from, EpochMs to) const;
  // As parse() takes them.
  const std::vector<std::string>& allow() const { return allow_; }
  const std::string& zone() const { return zone_; }
  // "Mon-Fri 08:00-18:00 Europe/Berlin": for people.
  std::string describe() const;

  bool operator==(const TimeWindow& other) const { return describe() == other.describe(); }

 private:
  struct Week;
  std::vector<std::string> allow_;
  std::string zone_;
  std::shared_ptr<const Week> week_;
};

// The system's time zones that a window may have.
std::vector<std::string> time_zones();

}  // namespace rung
