#include "src/core/message/digest.h"

#include <openssl/evp.h>

#include <memory>
#include <stdexcept>

namespace rung {
namespace {

constexpr std::size_t kDigestKeyBytes = 16;

// EVP_Digest() looks up the algorithm, and allocates a context, for each digest: that takes longer than to
// compute one of a few hundred bytes. Thread: each has its own.
class Hasher {
 public:
  bool hash(std::string_view data, Sha256& out) {
    return context_ != nullptr && EVP_DigestInit_ex2(context_.get(), algorithm(), nullptr) == 1 &&
           EVP_DigestUpdate(context_.get(), data.data(), data.size()) == 1 &&
           EVP_DigestFinal_ex(context_.get(), out.data(), nullptr) == 1;
  }

 private:
  // Of the process, never freed: threads may still hash while it ends.
  static const EVP_MD* algorithm() {
    static const EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    return sha256;
  }
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

std::string_view as_text(const Sha256& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace

Sha256 sha256(std::string_view data) {
  thread_local Hasher hasher;
  Sha256 digest{};
  // A digest of zeros would make all messages equal.
  if (!hasher.hash(data, digest)) throw std::runtime_error("OpenSSL computes no SHA-256");
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
