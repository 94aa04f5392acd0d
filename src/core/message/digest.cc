#include "src/core/message/digest.h"

#include <openssl/evp.h>

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

std::string to_hex(const Sha256& digest, std::size_t count) {
  return to_hex(as_text(digest).substr(0, count));
}

void append_field(std::string& facts, std::string_view field) {
  facts.append(std::to_string(field.size())).append(":").append(field);
}

void append_digest(std::string& facts, std::string_view body) { append_field(facts, as_text(sha256(body))); }

std::string key_of_facts(std::string_view facts) {
  return std::string(as_text(sha256(facts)).substr(0, kDigestKeyBytes));
}

}  // namespace rung
