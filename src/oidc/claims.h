// What a token with a valid signature says: whom it is for, until when, and who its bearer is.
// Thread: pure functions.
#pragma once

#include <string_view>
#include <tl/expected.hpp>

#include "src/core/base/time.h"
#include "src/core/rules/oidc_options.h"
#include "src/oidc/key_set.h"

namespace rung::oidc {

// Clocks may differ by this much.
inline constexpr Ms kLeeway{std::chrono::seconds{60}};

struct Bearer {
  Person person;
  EpochMs until;  // the token is not accepted from then on
};

// `payload`: of a token whose signature is valid.
tl::expected<Bearer, Refusal> bearer_of(std::string_view payload, const OidcOptions& options, EpochMs now);

}  // namespace rung::oidc
