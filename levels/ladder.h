// A ladder: the delays that a failed message climbs, level 1 first.
// Thread: immutable after construction, free to share. Unit: milliseconds.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "levels/duration.h"

namespace rung::levels {

// base, base*factor, base*factor^2 ... none above max, `levels` of them.
struct Exponential {
  Ms base{};
  double factor = 2.0;  // >= 1
  Ms max{};             // 0 = no cap but kLongest
  int levels = 0;
};

class Ladder {
 public:
  static constexpr int kMostLevels = 1000;

  // Errors (for people, with the correction): empty, a zero or negative delay, a delay shorter than the one
  // before it, over kLongest, over kMostLevels, jitter outside [0, 1].
  static tl::expected<Ladder, std::string> from_list(std::vector<Ms> delays, double jitter = 0.0);
  static tl::expected<Ladder, std::string> from_exponential(const Exponential& spec, double jitter = 0.0);

  int levels() const { return static_cast<int>(delays_.size()); }
  // REQUIRES: 1 <= level <= levels(). The delay without jitter.
  Ms delay(int level) const { return delays_[static_cast<std::size_t>(level - 1)]; }
  // With jitter: between delay(level) and delay(level) * (1 + jitter()). `random` is in [0, 1).
  Ms delay(int level, double random) const;
  Ms highest() const { return delays_.back(); }
  double jitter() const { return jitter_; }
  // Time since the first failure at which `level` is due, if every attempt fails at once and without jitter.
  Ms since_first(int level) const;

  bool operator==(const Ladder&) const = default;

 private:
  Ladder(std::vector<Ms> delays, double jitter) : delays_(std::move(delays)), jitter_(jitter) {}

  std::vector<Ms> delays_;
  double jitter_ = 0.0;
};

}  // namespace rung::levels
