#include "src/core/causes/fingerprint.h"

#include <cstddef>

#include "src/core/base/utf8.h"
#include "src/core/causes/text.h"
#include "src/core/causes/token.h"
#include "src/core/causes/trace.h"
#include "src/core/message/digest.h"

namespace rung {
namespace {

constexpr std::size_t kMostBytes = 16 * 1024;  // kErrorBytes, src/core/task/task.h
constexpr std::size_t kShownBytes = 500;
constexpr std::size_t kIdBytes = 6;

std::string common_text(std::string_view error_type, std::string_view error) {
  const auto trace = causes::find_trace(error);
  if (!trace) return causes::normalise(error, error_type).words;
  const causes::Text message = causes::normalise(trace->message, trace->type);
  std::string text = causes::folded(trace->type);
  if (trace->frame.empty() || trace->type.empty()) {
    if (!text.empty() && !message.words.empty()) text += ": ";
    text += message.words;
  } else if (!message.codes.empty()) {
    text += ": " + message.codes;
  }
  if (!trace->frame.empty()) text += " in " + trace->frame;
  return text;
}

}  // namespace

Fingerprint fingerprint(std::string_view queue, std::string_view error_type, std::string_view error) {
  std::string text = common_text(error_type, error.substr(0, kMostBytes));
  std::string facts;
  facts.reserve(queue.size() + error_type.size() + text.size() + 24);
  append_field(facts, queue);
  append_field(facts, error_type);
  append_field(facts, text);
  return {to_hex(sha256(facts), kIdBytes), clean_utf8(text, kShownBytes)};
}

}  // namespace rung
