#include "levels/ladder.h"

#include <cmath>
#include <cstdint>

namespace rung::levels {

using namespace std::string_literals;

namespace {

std::string bad_jitter(double jitter) {
  if (jitter >= 0.0 && jitter <= 1.0) return {};  // false for NaN too
  return "jitter must be from 0% (off) to 100%";
}

// "" if the delay at `i` is valid.
std::string bad_delay(const std::vector<Ms>& delays, std::size_t i) {
  const Ms delay = delays[i];
  const auto level = [&] { return "level " + std::to_string(i + 1); };
  if (delay < Ms{1}) return level() + " is zero: a delay is at least 1ms";  // none is parsed as negative
  if (delay > kLongest)
    return level() + " is longer than " + format_duration(kLongest) + ", the longest delay";
  if (i == 0 || delay >= delays[i - 1]) return {};
  return level() + " (" + format_duration(delay) + ") is shorter than the previous level (" +
         format_duration(delays[i - 1]) + "): delays must not decrease";
}

std::string too_many(std::size_t levels) {
  return "a ladder of " + std::to_string(levels) + " levels: at most " + std::to_string(Ladder::kMostLevels) +
         " are allowed";
}

}  // namespace

tl::expected<Ladder, std::string> Ladder::from_list(std::vector<Ms> delays, double jitter) {
  if (delays.empty()) return tl::unexpected("a ladder needs at least one level, e.g. [5s, 30s, 1m]"s);
  if (delays.size() > static_cast<std::size_t>(kMostLevels)) return tl::unexpected(too_many(delays.size()));
  for (std::size_t i = 0; i < delays.size(); ++i) {
    if (auto what = bad_delay(delays, i); !what.empty()) return tl::unexpected(what);
  }
  if (auto what = bad_jitter(jitter); !what.empty()) return tl::unexpected(what);
  return Ladder(std::move(delays), jitter);
}

tl::expected<Ladder, std::string> Ladder::from_exponential(const Exponential& spec, double jitter) {
  if (spec.base < Ms{1}) return tl::unexpected("base is zero: it is the first delay, e.g. 10s"s);
  if (spec.base > kLongest)
    return tl::unexpected("base is longer than " + format_duration(kLongest) + ", the longest delay");
  if (!std::isfinite(spec.factor) || spec.factor < 1.0) {
    return tl::unexpected(
        "factor is a number from 1 (each delay as long as the previous one), e.g. 2 for doubling"s);
  }
  if (spec.max > kLongest)
    return tl::unexpected("max is longer than " + format_duration(kLongest) + ", the longest delay");
  if (spec.max != Ms::zero() && spec.max < spec.base) {
    return tl::unexpected("max (" + format_duration(spec.max) + ") is shorter than base (" +
                          format_duration(spec.base) + "): no delay could be that short");
  }
  if (spec.levels < 1)
    return tl::unexpected("a ladder needs at least one level: levels is how many, e.g. 12"s);
  if (spec.levels > kMostLevels) return tl::unexpected(too_many(static_cast<std::size_t>(spec.levels)));

  const Ms cap = spec.max == Ms::zero() ? kLongest : spec.max;
  std::vector<Ms> delays;
  delays.reserve(static_cast<std::size_t>(spec.levels));
  // A double represents every ms up to kLongest exactly; multiplication stops at the cap.
  double delay = static_cast<double>(spec.base.count());
  for (int level = 0; level < spec.levels; ++level) {
    const bool capped = delay >= static_cast<double>(cap.count());
    delays.push_back(capped ? cap : Ms{std::llround(delay)});
    if (!capped) delay *= spec.factor;
  }
  return from_list(std::move(delays), jitter);
}

Ms Ladder::delay(int level, double random) const {
  const Ms least = delay(level);
  if (jitter_ <= 0.0 || !(random > 0.0)) return least;
  const double dice = random < 1.0 ? random : 1.0;
  // Rounded down and added: never earlier than the level says, never later than the jitter allows.
  const double extra = std::floor(static_cast<double>(least.count()) * jitter_ * dice);
  return least + Ms{static_cast<std::int64_t>(extra)};
}

Ms Ladder::since_first(int level) const {
  Ms sum{0};  // at most kMostLevels * kLongest: far below overflow
  for (int i = 1; i <= level; ++i) sum += delay(i);
  return sum;
}

}  // namespace rung::levels
