// Values compared by their bits, so that a NaN is equal to itself and 0.0 is not -0.0.
// Thread: pure functions.
#pragma once

#include <bit>

#include "src/core/message/message.h"

namespace rung::fuzz {

bool same(const Value& a, const Value& b);

inline bool same(const Array& a, const Array& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same(a[i], b[i])) return false;
  }
  return true;
}

inline bool same(const Table& a, const Table& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].first != b[i].first || !same(a[i].second, b[i].second)) return false;
  }
  return true;
}

inline bool same(const Value& a, const Value& b) {
  if (a.v.index() != b.v.index()) return false;
  if (const auto* x = std::get_if<Array>(&a.v)) return same(*x, std::get<Array>(b.v));
  if (const auto* x = std::get_if<Table>(&a.v)) return same(*x, std::get<Table>(b.v));
  if (const auto* x = std::get_if<float>(&a.v))
    return std::bit_cast<std::uint32_t>(*x) == std::bit_cast<std::uint32_t>(std::get<float>(b.v));
  if (const auto* x = std::get_if<double>(&a.v))
    return std::bit_cast<std::uint64_t>(*x) == std::bit_cast<std::uint64_t>(std::get<double>(b.v));
  return a == b;
}

inline bool same(const Message& a, const Message& b) {
  return a.properties == b.properties && a.body == b.body && a.headers.has_value() == b.headers.has_value() &&
         (!a.headers || same(*a.headers, *b.headers));
}

inline int depth(const Value& value);
inline int depth(const Table& table) {
  int most = 0;
  for (const auto& [name, value] : table) most = std::max(most, depth(value));
  return most + 1;
}
inline int depth(const Value& value) {
  if (const auto* table = std::get_if<Table>(&value.v)) return depth(*table);
  int most = 0;
  const auto* array = std::get_if<Array>(&value.v);
  if (array == nullptr) return 0;
  for (const Value& item : *array) most = std::max(most, depth(item));
  return most + 1;
}

}  // namespace rung::fuzz
