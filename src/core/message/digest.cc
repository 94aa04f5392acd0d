#include "src/core/message/digest.h"

#include <openssl/evp.h>

#include <charconv>
#include <stdexcept>

namespace rung {
namespace {

constexpr std::size_t kDigestKeyBytes = 16;

std::string_view as_text(const Sha256& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

Sha256 sha256(std::string_view data) {
  Sha256 digest{};
  // A digest of zeros would make all messages equal.
  if (EVP_Digest(data.data(), data.size(), digest.data(), nullptr, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("OpenSSL computes no SHA-256");
  return digest;
}

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 15U];
  }
  return out;
}

std::string to_hex(const Sha256& digest, std::size_t count) {
  return to_hex(as_text(digest).substr(0, count));
}

std::optional<std::string> from_hex_digits(std::string_view digits) {
  if (digits.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(digits.size() / 2);
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    unsigned byte = 0;
    const char* from = digits.data() + i;
    const auto [end, error] = std::from_chars(from, from + 2, byte, 16);
    if (error != std::errc{} || end != from + 2) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

void append_field(std::string& facts, std::string_view field) {
  facts.append(std::to_string(field.size())).append(":").append(field);
}

void append_digest(std::string& facts, std::string_view body) { append_field(facts, as_text(sha256(body))); }

std::string key_of_facts(std::string_view facts) {
  return std::string(as_text(sha256(facts)).substr(0, kDigestKeyBytes));
}

}  // namespace rung
