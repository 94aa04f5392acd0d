// The lines of stack traces. Thread: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rung::causes {

struct Frame {
  std::string name;  // the function without arguments and line numbers; of an anonymous one its file
  bool own = false;  // neither the language's nor a framework's
  bool innermost_last = false;  // Python prints the innermost frame last
};

// The frame that `line` is; `next`: the line after it, which has the file in Go and Rust.
std::optional<Frame> frame_of(std::string_view line, std::string_view next);

}  // namespace rung::causes
