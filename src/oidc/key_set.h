// The public keys of an identity provider, from its JWKS document (RFC 7517), and what they have signed.
// Thread: a KeySet does not change; any thread may verify with it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "src/core/base/result.h"
#include "src/oidc/refusal.h"

namespace rung::oidc {

// A request's headers have at most 16 KB.
inline constexpr std::size_t kLongestToken = 12UL * 1024;

class KeySet {
 public:
  // Keys of other types, for other uses, or too weak are left out. Error: not a JWKS document;
  // not_found: it has no key that is of use.
  static Result<std::shared_ptr<const KeySet>> read(std::string_view jwks);
  ~KeySet();
  KeySet(const KeySet&) = delete;
  KeySet& operator=(const KeySet&) = delete;

  std::size_t size() const;
  // The payload of the token (JWS in compact form), if one of these keys has signed it. Nothing else in the
  // token is checked.
  tl::expected<std::string, Refusal> payload_of(std::string_view token) const;

 private:
  struct Impl;
  explicit KeySet(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};
using KeySetPtr = std::shared_ptr<const KeySet>;

}  // namespace rung::oidc
