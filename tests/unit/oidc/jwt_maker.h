// Keys and signed tokens for tests, made by OpenSSL alone.
// Thread: one per object.
#pragma once

#include <openssl/types.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace rung::test {

using Json = nlohmann::json;

std::string base64url(std::string_view bytes);
// An HMAC, as a provider of HS256 makes it.
std::string sign_by_secret(const Json& header, const std::string& payload, const std::string& secret);

class SigningKey {
 public:
  static SigningKey rsa(unsigned bits = 2048);
  static SigningKey ec(const char* curve = "P-256");

  // As in a JWKS document.
  Json jwk(const std::string& kid) const;
  std::string public_pem() const;
  // header.payload.signature; by the `alg` of the header: RS..., PS... or ES...
  // `zeros`: bytes before each number of ES...
  std::string sign(const Json& header, const std::string& payload, int zeros = 0) const;

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const;
  };
  explicit SigningKey(EVP_PKEY* key) : key_(key) {}
  std::string number(const char* name, int bytes = 0) const;

  std::unique_ptr<EVP_PKEY, Free> key_;
};

}  // namespace rung::test
