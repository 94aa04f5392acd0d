// Random numbers that are the same on every machine: own generator and distributions, because those of
// <random> differ between libraries. One stream per purpose, so that overriding a setting changes no other
// draw. Thread: a value, one thread per object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace rung::sim {

class Rng {
 public:
  explicit Rng(std::uint64_t seed) : state_(seed) {}
  Rng(std::uint64_t seed, std::string_view purpose, std::uint64_t index = 0) : state_(seed) {
    for (const char c : purpose) state_ = mix(state_ ^ static_cast<unsigned char>(c));
    state_ = mix(state_ + index * 0x9E3779B97F4A7C15ULL);
  }

  std::uint64_t next() {  // splitmix64
    state_ += 0x9E3779B97F4A7C15ULL;
    return mix(state_);
  }
  // REQUIRES: n > 0.
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  // Both ends are included.
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(most - least) + 1));
  }
  // The same, evenly distributed over orders of magnitude: small values are as frequent as large ones.
  std::int64_t spread(std::int64_t least, std::int64_t most) {
    std::int64_t top = least;
    while (top < most && below(4) != 0) top = top * 2 + 1;
    return between(least, top < most ? top : most);
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  bool chance(double p) { return static_cast<double>(next() >> 11U) * 0x1.0p-53 < p; }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(below(from.size()))];
  }

  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31U);
  }

 private:
  std::uint64_t state_;
};

}  // namespace rung::sim
