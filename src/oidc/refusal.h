// Why a token is not accepted. Thread: values.
#pragma once

#include <cstdint>
#include <string>

namespace rung::oidc {

struct Refusal {
  enum class Kind : std::uint8_t {
    invalid,      // this token will never be accepted
    unknown_key,  // no key that we have has its kid
    no_role,      // valid, but the config's map gives this person nothing
    later,        // the provider's keys are not known: the same token may be accepted soon
  };
  Kind kind = Kind::invalid;
  // For the client: printable ASCII without quotes and backslashes. Nothing of the token.
  std::string what;
};

}  // namespace rung::oidc
