// What a collector's reply means for the batch that was sent (OTLP/HTTP Response, in OTLP's specification).
// Pure. The body can be anything of up to HttpClientOptions::max_answer bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/core/base/time.h"
#include "src/net/http_client.h"

namespace rung::otel {

struct ExportResult {
  enum class Kind { accepted, retry, refused };
  Kind kind = Kind::refused;
  std::int64_t rejected = 0;  // accepted: all but so many
  Ms retry_after{0};          // retry: the collector asked for this pause; 0 = it did not
  std::string reason;         // retry, refused, or some were rejected: why
};

// `spans`: in the batch.
ExportResult read_reply(const net::HttpReply& reply, std::size_t spans);

}  // namespace rung::otel
