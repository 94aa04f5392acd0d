#include "src/core/causes/fingerprint.h"

#include <openssl/evp.h>

#include <array>

#include "src/core/causes/text.h"
#include "src/core/causes/token.h"
#include "src/core/causes/trace.h"

namespace rung {
namespace {

constexpr std::size_t kMostBytes = 16 * 1024;  // kErrorBytes, src/core/task/task.h
constexpr std::size_t kIdBytes = 6;

std::string common_text(std::string_view error) {
  const auto trace = causes::find_trace(error);
  if (!trace) return causes::normalise(error);
  const std::string type = trace->type.empty() ? causes::normalise(trace->message) : trace->type;
  if (trace->frame.empty()) {
    if (trace->type.empty()) return type;
    return type + ": " + causes::normalise(trace->message.substr(0, trace->message.find('\n')));
  }
  std::string codes = causes::codes_of(trace->message);
  // KeyError: 'total'
  std::string_view key = trace->message;
  if (type.ends_with("keyerror") && key.size() > 2 && (key.front() == '\'' || key.front() == '"') &&
      causes::is_name(key = key.substr(1, key.find(key.front(), 1) - 1)))
    codes = key;
  return type + " in " + trace->frame + (codes.empty() ? "" : ", " + codes);
}

}  // namespace

Fingerprint fingerprint(std::string_view queue, std::string_view error_type, std::string_view error) {
  Fingerprint out;
  out.text = common_text(error.substr(0, kMostBytes));
  std::string all(queue);
  all.append(1, '\0').append(error_type).append(1, '\0').append(out.text);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  EVP_Digest(all.data(), all.size(), digest.data(), &length, EVP_sha256(), nullptr);
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (std::size_t i = 0; i < kIdBytes; ++i) {
    out.id += kDigits[digest[i] >> 4U];
    out.id += kDigits[digest[i] & 15U];
  }
  return out;
}

}  // namespace rung
