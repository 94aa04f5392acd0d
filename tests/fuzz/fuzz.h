// Shared by the fuzz targets: a broken promise ends the process, and libFuzzer keeps the input.
// Thread: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "src/core/base/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace rung::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

inline void hold(bool holds, const char* promise, std::string_view shown = {}) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n%.*s\n", promise, static_cast<int>(shown.size()), shown.data());
  std::abort();
}

// Aborts unless the text fits a column of `most` bytes and is UTF-8.
inline void hold_text(std::string_view text, std::size_t most, const char* promise) {
  hold(is_utf8(text) && text.size() <= most, promise, text);
}

}  // namespace rung::fuzz
