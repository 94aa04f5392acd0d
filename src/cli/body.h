// A message's body for people and scripts. Thread: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace rung::cli {

// UTF-8 text with control characters escaped; otherwise every byte that is not printable ASCII as \xNN.
std::string printable_body(std::string_view body);

std::string to_base64(std::string_view bytes);

}  // namespace rung::cli
