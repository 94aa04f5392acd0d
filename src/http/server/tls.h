// The server's side of TLS: 1.3, and 1.2 with authenticated encryption and forward secrecy. Thread: any.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <string>

#include "src/core/base/result.h"

namespace rung::http {

// `cert`, `key`: PEM files, a chain and its key without a password. Error: names the config key.
Result<boost::asio::ssl::context> load_tls(const std::string& cert, const std::string& key);

}  // namespace rung::http
