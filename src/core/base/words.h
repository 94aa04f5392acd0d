// What a text says: the words by which people and rows know the values of an enum, and numbers. Thread:
// constants and pure functions.
#pragma once

#include <array>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>

namespace rung {

// In the order of the values; the first is 1. Specialised beside each enum that has words.
template <typename Enum>
inline constexpr std::array<std::string_view, 0> kWords{};

// "" for a value without a word.
template <typename Enum>
requires(!kWords<Enum>.empty()) constexpr std::string_view to_word(Enum value) {
  const auto i = static_cast<std::size_t>(value);
  return i >= 1 && i <= kWords<Enum>.size() ? kWords<Enum>[i - 1] : std::string_view{};
}

template <typename Enum>
requires(!kWords<Enum>.empty()) constexpr std::optional<Enum> from_word(std::string_view word) {
  for (std::size_t i = 0; i < kWords<Enum>.size(); ++i) {
    if (kWords<Enum>[i] == word) return static_cast<Enum>(i + 1);
  }
  return std::nullopt;
}

// Of all of `text`, in decimal; none for anything else.
template <typename Number>
std::optional<Number> number_from(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stopped == end ? std::optional(number) : std::nullopt;
}

}  // namespace rung
