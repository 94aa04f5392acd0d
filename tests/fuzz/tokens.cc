// Tokens of an identity provider, which anybody may send, and the documents of one.
// Input: a token; or, after a 'k', a JWKS document; or, after a 'c', the claims of a token.
#include "src/core/base/utf8.h"
#include "src/oidc/key_set.h"
#include "src/oidc/provider.h"
#include "tests/fuzz/fuzz.h"

namespace {

using rung::fuzz::hold;

// The public keys of RFC 7515, A.2 and A.3, and what is signed there.
constexpr std::string_view kCurve =
    R"({"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"})";
constexpr std::string_view kRsa =
    R"({"kty":"RSA","kid":"r","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"})";
constexpr std::string_view kSigned =
    "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}";

rung::oidc::KeySetPtr keys(std::string_view text) {
  auto read = rung::oidc::read_keys("{\"keys\":[" + std::string(text) + "]}");
  hold(read.has_value(), "the keys of the RFC are keys");
  return *read;
}

void hold_reason(const rung::oidc::Refusal& refusal) {
  for (const char c : refusal.what)
    hold(c >= ' ' && c < 0x7f && c != '"' && c != '\\', "a reason goes into a header", refusal.what);
  hold(refusal.what.size() < 300, "a reason is a short sentence", refusal.what);
}

void token(std::string_view text) {
  static const auto curve = keys(kCurve), both = keys(std::string(kCurve) + "," + std::string(kRsa));
  for (const auto& set : {curve, both}) {
    const auto payload = payload_of(text, *set);
    if (payload) hold(*payload == kSigned, "nothing else is signed", *payload);
    if (!payload) hold_reason(payload.error());
  }
}

void claims(std::string_view text) {
  rung::OidcOptions options;
  options.issuer = "i";
  options.client_id = "a";
  options.roles_claim = "r.s";
  options.map = {{"g", {rung::Role::acts, nullptr}}};
  const auto bearer = rung::oidc::bearer_of(text, options, rung::EpochMs{1'800'000'000'000});
  if (!bearer) return hold_reason(bearer.error());
  const std::string& name = bearer->name;
  hold(!name.empty() && name.size() <= rung::kLongestPersonName, "a name is bounded", name);
  for (const char c : name) hold(rung::is_person_name_char(c), "a name goes into the audit", name);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = rung::fuzz::text_of(data, size);
  if (text.starts_with('k')) (void)rung::oidc::read_keys(text.substr(1));
  if (text.starts_with('c')) claims(text.substr(1));
  token(text);
  return 0;
}
