#include "src/oidc/key_set.h"

#include <cjose/cjose.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

namespace rung::oidc {

struct Algorithm {
  std::string_view name, key;  // the type of its keys
};

struct ReleaseKey {
  void operator()(cjose_jwk_t* key) const { cjose_jwk_release(key); }
};

struct Key {
  std::string kid, alg;  // "" = not given
  std::string type;      // "RSA", or a curve
  std::unique_ptr<cjose_jwk_t, ReleaseKey> jwk;
  std::size_t signature_digits = 0;  // the length of its signatures, in base64

  bool fits(const Algorithm& algorithm) const {
    return type == algorithm.key && (alg.empty() || alg == algorithm.name);
  }
};

namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostKeys = 64;
constexpr std::size_t kLeastRsaBits = 2048, kMostRsaBits = 8192;
constexpr std::size_t kBitsOfByte = 8, kBitsOfDigit = 6;  // a digit of base64

// What a token may be signed with: public keys alone, so never `none`, never a shared secret (HS256).
constexpr std::array<Algorithm, 9> kAlgorithms{{{"RS256", "RSA"},
                                                {"RS384", "RSA"},
                                                {"RS512", "RSA"},
                                                {"PS256", "RSA"},
                                                {"PS384", "RSA"},
                                                {"PS512", "RSA"},
                                                {"ES256", "P-256"},
                                                {"ES384", "P-384"},
                                                {"ES512", "P-521"}}};

struct ReleaseJws {
  void operator()(cjose_jws_t* jws) const { cjose_jws_release(jws); }
};
using Jws = std::unique_ptr<cjose_jws_t, ReleaseJws>;

bool is_for_signatures(const Json& json) {
  if (json.contains("use")) return text_member(json, "use") == "sig";
  const auto ops = json.find("key_ops");
  if (ops == json.end()) return true;
  return ops->is_array() && std::ranges::any_of(*ops, [](const Json& one) { return one == "verify"; });
}

std::size_t digits_of(std::size_t bytes) { return (bytes * kBitsOfByte + kBitsOfDigit - 1) / kBitsOfDigit; }

// None: not a key for us.
std::optional<Key> key_of(const Json& json) {
  if (!json.is_object() || !is_for_signatures(json)) return std::nullopt;
  const std::string kty = text_member(json, "kty");
  if (kty != "RSA" && kty != "EC") return std::nullopt;
  // The public parts alone: whatever else a provider publishes, we do not hold its private key.
  Json publics{{"kty", kty}};
  for (const char* name : {"n", "e", "crv", "x", "y"}) {
    const std::string value = text_member(json, name);
    // The library ends the process for some other characters (an assertion, in 0.6.2.1).
    if (!RE2::FullMatch(value, R"([\w-]*)")) return std::nullopt;
    if (!value.empty()) publics[name] = value;
  }
  const std::string text = publics.dump(-1, ' ', true, Json::error_handler_t::replace);
  Key key{text_member(json, "kid"), text_member(json, "alg"), kty == "RSA" ? kty : text_member(json, "crv"),
          std::unique_ptr<cjose_jwk_t, ReleaseKey>(cjose_jwk_import(text.data(), text.size(), nullptr))};
  if (key.jwk == nullptr) return std::nullopt;
  const std::size_t bits = cjose_jwk_get_keysize(key.jwk.get(), nullptr);
  const std::size_t bytes = (bits + kBitsOfByte - 1) / kBitsOfByte;
  if (kty == "RSA" && (bits < kLeastRsaBits || bits > kMostRsaBits)) return std::nullopt;
  key.signature_digits = digits_of(kty == "RSA" ? bytes : 2 * bytes);
  return key;
}

// The provider may have replaced its keys since they were fetched, some under the same kid.
tl::unexpected<Refusal> other_key(std::string what) {
  return refuse(Refusal::Kind::unknown_key, std::move(what));
}

// Text in base64url without padding, decoded.
std::optional<std::string> decode(std::string_view digits) {
  std::uint8_t* bytes = nullptr;
  std::size_t size = 0;
  if (!cjose_base64url_decode(digits.data(), digits.size(), &bytes, &size, nullptr)) return std::nullopt;
  std::string text(reinterpret_cast<const char*>(bytes), size);
  std::free(bytes);  // NOLINT: cjose allocates by malloc
  return text;
}

// Of ID tokens and access tokens; not of a provider's other tokens, as logout tokens.
bool is_known_type(const std::string& typ) {
  static const RE2 known(R"((?i)(application/)?(at\+)?jwt)");
  return RE2::FullMatch(typ, known);
}

// What the header of a token says.
struct Header {
  const Algorithm* algorithm = nullptr;
  std::string kid;  // "" = none
};

tl::expected<Header, Refusal> header_of(std::string_view digits) {
  const auto text = decode(digits);
  const Json json = text ? Json::parse(*text, nullptr, false) : Json();
  if (!json.is_object()) return invalid("the token is malformed: its header is not JSON in base64url");
  if (json.contains("enc")) return invalid("the token is encrypted: only signed tokens are accepted");
  if (json.contains("crit"))
    return invalid("the header of the token demands extensions (crit), which are not supported");
  if (json.contains("typ") && !is_known_type(text_member(json, "typ")))
    return invalid("the token is neither an ID token nor an access token (typ)");
  const std::string alg = text_member(json, "alg");
  if (alg == "none") return invalid("the token is not signed (alg none)");
  const auto* const algorithm = std::ranges::find(kAlgorithms, alg, &Algorithm::name);
  if (algorithm == kAlgorithms.end())
    return invalid(
        "the signature algorithm is not accepted: use RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 "
        "or ES512");
  if (json.contains("kid") && !json["kid"].is_string())
    return invalid("the token is malformed: kid is not a string");
  return Header{algorithm, text_member(json, "kid")};
}

// The key that the header names. Without a name: the only key (OpenID Connect Core, 10.1).
tl::expected<const Key*, Refusal> find_key(const std::vector<Key>& keys, const Header& header) {
  if (header.kid.empty() && keys.size() > 1)
    return invalid("the token does not name its key (kid), and the provider has several");
  bool named = false;
  for (const Key& key : keys) {
    if (!header.kid.empty() && key.kid != header.kid) continue;
    if (key.fits(*header.algorithm)) return &key;
    named = true;
  }
  return other_key(named ? "the signature algorithm of the token does not fit its key"
                         : "the key of the token (kid) is none of the identity provider's");
}

// The header, the signature's length, and the key are checked already.
tl::expected<std::string, Refusal> verified(std::string_view token, const Header& header, const Key& key) {
  const Jws jws(cjose_jws_import(token.data(), token.size(), nullptr));
  if (jws == nullptr) return invalid("the token is malformed");
  // The library has parsed the header by itself: it must have read what we have read.
  const char* const alg = cjose_header_get(cjose_jws_get_protected(jws.get()), CJOSE_HDR_ALG, nullptr);
  if (alg == nullptr || alg != header.algorithm->name) return invalid("the header of the token is ambiguous");
  if (!cjose_jws_verify(jws.get(), key.jwk.get(), nullptr))
    return other_key("the signature of the token is wrong");
  std::uint8_t* payload = nullptr;  // the jws's
  std::size_t size = 0;
  if (!cjose_jws_get_plaintext(jws.get(), &payload, &size, nullptr)) return invalid("the token is malformed");
  return std::string(reinterpret_cast<const char*>(payload), size);
}

}  // namespace

std::string text_member(const Json& json, std::string_view name) {
  const auto it = json.is_object() ? json.find(name) : json.end();
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

std::string to_base64url(const Sha256& bytes) {
  char* digits = nullptr;
  std::size_t size = 0;
  if (!cjose_base64url_encode(bytes.data(), bytes.size(), &digits, &size, nullptr))
    throw std::runtime_error("cjose encodes no base64");
  std::string text(digits, size);
  std::free(digits);  // NOLINT: cjose allocates by malloc
  return text;
}

struct KeySet {
  std::vector<Key> keys;
};

std::size_t size_of(const KeySet& keys) { return keys.keys.size(); }

Result<KeySetPtr> read_keys(std::string_view jwks) {
  const Json json = Json::parse(jwks, nullptr, false);
  if (!json.is_object() || !json.contains("keys") || !json["keys"].is_array())
    return permanent("not a JWKS document: a JSON object with the array keys");
  KeySet all;
  for (const Json& one : json["keys"]) {
    if (all.keys.size() == kMostKeys) break;
    if (auto key = key_of(one)) all.keys.push_back(*std::move(key));
  }
  if (all.keys.empty())
    return not_found("none of its " + std::to_string(json["keys"].size()) +
                     " keys can be used: RSA from 2048 to 8192 bits, P-256, P-384 or P-521, for signatures");
  return std::make_shared<const KeySet>(std::move(all));
}

tl::expected<std::string, Refusal> payload_of(std::string_view token, const KeySet& keys) {
  if (token.size() > kLongestToken)
    return invalid("the token is longer than " + std::to_string(kLongestToken / 1024) + " KB");
  static const RE2 is_encrypted(R"([\w-]*(\.[\w-]*){4})"), is_signed(R"(([\w-]*)\.[\w-]*\.([\w-]*))");
  const re2::StringPiece all(token.data(), token.size());
  re2::StringPiece head, signature;
  if (RE2::FullMatch(all, is_encrypted))
    return invalid("the token is encrypted: only signed tokens are accepted");
  if (!RE2::FullMatch(all, is_signed, &head, &signature)) return invalid("the token is malformed");
  const auto header = header_of({head.data(), head.size()});
  if (!header) return tl::unexpected(header.error());
  const auto key = find_key(keys.keys, *header);
  if (!key) return tl::unexpected(key.error());
  // For curves the library does not look at it.
  if (signature.size() != (*key)->signature_digits) return other_key("the signature of the token is wrong");
  return verified(token, *header, **key);
}

}  // namespace rung::oidc
