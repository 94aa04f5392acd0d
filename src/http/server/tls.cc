#include "src/http/server/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

namespace rung::http {
namespace {

std::string reason() {
  char text[200] = "unknown";
  if (const unsigned long code = ERR_get_error(); code != 0) ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  return text;
}

}  // namespace

// Calls OpenSSL directly where Asio's calls would hide the reason of a failure.
Result<boost::asio::ssl::context> load_tls(const std::string& cert, const std::string& key) {
  ERR_clear_error();
  boost::asio::ssl::context context(boost::asio::ssl::context::tls_server);
  SSL_CTX* const ctx = context.native_handle();
  if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) return permanent("TLS: " + reason());
  // TLS 1.3 has only authenticated encryption.
  if (SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1) return permanent("TLS: " + reason());
  SSL_CTX_set_options(ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
  // Never prompt for a password on the terminal.
  SSL_CTX_set_default_passwd_cb(ctx, [](char*, int, int, void*) { return -1; });
  if (SSL_CTX_use_certificate_chain_file(ctx, cert.c_str()) != 1)
    return permanent("http.cert: " + cert + " holds no certificate (PEM): " + reason());
  if (SSL_CTX_use_PrivateKey_file(ctx, key.c_str(), SSL_FILETYPE_PEM) != 1)
    return permanent("http.key: " + key +
                     " holds no private key (PEM, without a password) that fits http.cert: " + reason());
  return context;
}

}  // namespace rung::http
