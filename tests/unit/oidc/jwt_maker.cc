#include "tests/unit/oidc/jwt_maker.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include <array>
#include <stdexcept>
#include <vector>

namespace rung::test {
namespace {

using Bytes = std::vector<unsigned char>;

void must(bool ok) {
  if (!ok) throw std::runtime_error("OpenSSL");
}

std::string as_text(const Bytes& bytes) { return {bytes.begin(), bytes.end()}; }

// DER to two numbers of the same length, as JWS has them.
std::string raw_signature(const Bytes& der, int bytes) {
  const unsigned char* at = der.data();
  ECDSA_SIG* sig = d2i_ECDSA_SIG(nullptr, &at, static_cast<long>(der.size()));
  must(sig != nullptr);
  Bytes out(static_cast<std::size_t>(2 * bytes));
  must(BN_bn2binpad(ECDSA_SIG_get0_r(sig), out.data(), bytes) == bytes);
  must(BN_bn2binpad(ECDSA_SIG_get0_s(sig), out.data() + bytes, bytes) == bytes);
  ECDSA_SIG_free(sig);
  return as_text(out);
}

int curve_bytes(EVP_PKEY* key) { return (EVP_PKEY_get_bits(key) + 7) / 8; }

}  // namespace

std::string base64url(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    unsigned value = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    for (std::size_t i = 0; i < 3; ++i)
      value = value << 8U | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i <= count; ++i) out += kDigits[value >> (18 - 6 * i) & 63U];
  }
  return out;
}

std::string sign_by_secret(const Json& header, const std::string& payload, const std::string& secret) {
  const std::string input = base64url(header.dump()) + "." + base64url(payload);
  Bytes mac(EVP_MAX_MD_SIZE);
  unsigned size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(input.data()), input.size(), mac.data(), &size);
  mac.resize(size);
  return input + "." + base64url(as_text(mac));
}

void SigningKey::Free::operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
SigningKey SigningKey::rsa(unsigned bits) { return SigningKey(EVP_RSA_gen(bits)); }
SigningKey SigningKey::ec(const char* curve) { return SigningKey(EVP_EC_gen(curve)); }

std::string SigningKey::number(const char* name, int bytes) const {
  BIGNUM* value = nullptr;
  must(EVP_PKEY_get_bn_param(key_.get(), name, &value) == 1);
  const int size = bytes > 0 ? bytes : BN_num_bytes(value);
  Bytes out(static_cast<std::size_t>(size));
  must(BN_bn2binpad(value, out.data(), size) == size);
  BN_free(value);
  return base64url(as_text(out));
}

Json SigningKey::jwk(const std::string& kid) const {
  Json json{{"kid", kid}, {"use", "sig"}};
  if (EVP_PKEY_get_base_id(key_.get()) == EVP_PKEY_RSA) {
    json.update({{"kty", "RSA"}, {"n", number("n")}, {"e", number("e")}});
    return json;
  }
  const int bytes = curve_bytes(key_.get());
  const char* curve = bytes == 32 ? "P-256" : bytes == 48 ? "P-384" : "P-521";
  json.update({{"kty", "EC"}, {"crv", curve}, {"x", number("qx", bytes)}, {"y", number("qy", bytes)}});
  return json;
}

std::string SigningKey::public_pem() const {
  BIO* out = BIO_new(BIO_s_mem());
  must(PEM_write_bio_PUBKEY(out, key_.get()) == 1);
  char* text = nullptr;
  const long size = BIO_get_mem_data(out, &text);
  std::string pem(text, static_cast<std::size_t>(size));
  BIO_free(out);
  return pem;
}

std::string SigningKey::sign(const Json& header, const std::string& payload, int zeros) const {
  const std::string input = base64url(header.dump()) + "." + base64url(payload);
  const std::string alg = header.at("alg");
  const EVP_MD* digest = alg.ends_with("256")   ? EVP_sha256()
                         : alg.ends_with("384") ? EVP_sha384()
                                                : EVP_sha512();
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  EVP_PKEY_CTX* options = nullptr;
  must(EVP_DigestSignInit(context, &options, digest, nullptr, key_.get()) == 1);
  if (alg.starts_with("PS")) {
    must(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) == 1);
    must(EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) == 1);
  }
  const auto* const data = reinterpret_cast<const unsigned char*>(input.data());
  std::size_t size = 0;
  must(EVP_DigestSign(context, nullptr, &size, data, input.size()) == 1);
  Bytes signature(size);
  must(EVP_DigestSign(context, signature.data(), &size, data, input.size()) == 1);
  signature.resize(size);
  EVP_MD_CTX_free(context);
  const bool rsa = EVP_PKEY_get_base_id(key_.get()) == EVP_PKEY_RSA;
  return input + "." +
         base64url(rsa ? as_text(signature) : raw_signature(signature, curve_bytes(key_.get()) + zeros));
}

}  // namespace rung::test
