// What a request with a token of an identity provider costs: the time of its signature and its claims, by
// algorithm. No server.
//
//   cmake --preset release -DRUNG_BENCH=ON && cmake --build --preset release --target bench_tokens &&
//   build/release/bench_tokens
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "src/oidc/claims.h"
#include "src/oidc/key_set.h"
#include "tests/unit/oidc/jwt_maker.h"

namespace {

using namespace rung;
using test::Json;
using test::SigningKey;

constexpr int kTimes = 300;
constexpr std::int64_t kNow = 1'800'000'000;  // s

std::string claims_of_bearer() {
  Json claims{{"iss", "https://id"}, {"aud", "rung"},     {"sub", "7f0c"},
              {"iat", kNow},         {"exp", kNow + 300}, {"preferred_username", "alice"}};
  for (int i = 0; i < 30; ++i) claims["groups"].push_back("some-group-" + std::to_string(i));
  claims["groups"].push_back("sre");
  return claims.dump();
}

// The median, in us.
double us_per_token(const SigningKey& key, const char* alg) {
  OidcOptions options;
  options.issuer = "https://id";
  options.client_id = "rung";
  options.roles_claim = "groups";
  options.map = {{"sre", {Role::acts, nullptr}}};
  const auto keys = oidc::KeySet::read(Json{{"keys", {key.jwk("k")}}}.dump()).value();
  const std::string token = key.sign({{"alg", alg}, {"kid", "k"}}, claims_of_bearer());
  std::vector<double> all;
  for (int i = 0; i < kTimes; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    const auto payload = keys->payload_of(token);
    const bool ok = payload && oidc::bearer_of(*payload, options, EpochMs{kNow * 1000});
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begun;
    if (!ok) fmt::print("a token was refused: the bench is wrong\n");
    all.push_back(took.count());
  }
  std::ranges::nth_element(all, all.begin() + kTimes / 2);
  return all[kTimes / 2];
}

}  // namespace

int main() {
  for (const unsigned bits : {2048U, 4096U}) {
    const SigningKey key = SigningKey::rsa(bits);
    for (const char* alg : {"RS256", "PS256"})
      fmt::print("{} {}: {:.0f} us\n", alg, bits, us_per_token(key, alg));
  }
  for (const auto& [curve, alg] :
       {std::pair{"P-256", "ES256"}, std::pair{"P-384", "ES384"}, std::pair{"P-521", "ES512"}})
    fmt::print("{}: {:.0f} us\n", alg, us_per_token(SigningKey::ec(curve), alg));
}
