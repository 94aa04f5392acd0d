// The public keys of an identity provider, from its JWKS document (RFC 7517), and what they have signed.
// Thread: a KeySet does not change; any thread may verify with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "src/core/base/result.h"
#include "src/core/message/identity.h"

namespace rung::oidc {

// Why a token is not accepted.
struct Refusal {
  enum class Kind : std::uint8_t {
    invalid,      // this token will never be accepted
    unknown_key,  // no key that we have has its kid, or that key has not signed it: it may have been replaced
    no_role,      // valid, but the config's map gives this person nothing
    later,        // the provider's keys are not known: the same token may be accepted soon
  };
  Kind kind = Kind::invalid;
  // For the client: printable ASCII without quotes and backslashes. Nothing of the token.
  std::string what;
};

inline tl::unexpected<Refusal> refuse(Refusal::Kind kind, std::string what) {
  return tl::unexpected(Refusal{kind, std::move(what)});
}
inline tl::unexpected<Refusal> invalid(std::string what) {
  return refuse(Refusal::Kind::invalid, std::move(what));
}

// "": `json` is no object, or has no such text.
std::string text_member(const nlohmann::json& json, std::string_view name);

// Without padding, as in a JWT.
std::string to_base64url(const Sha256& bytes);

// A request's headers have at most 16 KB.
inline constexpr std::size_t kLongestToken = 12UL * 1024;

struct KeySet;
using KeySetPtr = std::shared_ptr<const KeySet>;

// Keys of other types, for other uses, or too weak are left out. Error: not a JWKS document; not_found: it
// has no key that is of use.
Result<KeySetPtr> read_keys(std::string_view jwks);
std::size_t size_of(const KeySet& keys);

// The payload of the token (JWS in compact form), if one of these keys has signed it. Nothing else in the
// token is checked.
tl::expected<std::string, Refusal> payload_of(std::string_view token, const KeySet& keys);

}  // namespace rung::oidc
