#include "src/io/log_limit.h"

#include <algorithm>

namespace rung::log {

bool LogLimit::admit(std::string_view event, Time now) {
  auto at = windows_.find(event);
  if (at == windows_.end()) at = windows_.emplace(std::string(event), Window{now}).first;
  Window& window = at->second;
  // What was suppressed is taken first (take_suppressed), so nothing is forgotten here.
  if (now - window.began >= kWindow) window = {now};
  if (++window.lines <= kMostLines) return true;
  next_ = std::min(next_, window.began + kWindow);
  return false;
}

std::vector<LogLimit::Suppressed> LogLimit::take_suppressed(Time now) {
  std::vector<Suppressed> out;
  if (now < next_) return out;
  next_ = Time::max();
  for (auto at = windows_.begin(); at != windows_.end();) {
    const auto& [event, window] = *at;
    const Time ends = window.began + kWindow;
    if (window.lines > kMostLines && ends <= now) out.push_back({event, window.lines - kMostLines});
    if (window.lines > kMostLines && ends > now) next_ = std::min(next_, ends);
    at = ends <= now ? windows_.erase(at) : std::next(at);
  }
  return out;
}

}  // namespace rung::log
