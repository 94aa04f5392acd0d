#include "src/otel/reply.h"

#include <opentelemetry/proto/collector/trace/v1/trace_service.pb.h>

#include <algorithm>

#include "src/core/utf8.h"

namespace rung::otel {
namespace {

namespace service = opentelemetry::proto::collector::trace::v1;

constexpr std::size_t kMostText = 200;

std::string with_text(const std::string& reason, const std::string& text) {
  return text.empty() ? reason : reason + ": " + escape_controls(clean_utf8(text, kMostText));
}

// The body of a failure is a google.rpc.Status. Its `message` has the number and type of error_message, and
// its `code` those of rejected_spans: one class reads both.
std::string failure_text(const std::string& body) {
  service::ExportTracePartialSuccess status;
  return status.ParseFromString(body) ? status.error_message() : std::string();
}

bool may_retry(int status) { return status == 429 || status == 502 || status == 503 || status == 504; }

}  // namespace

ExportResult read_reply(const net::HttpReply& reply, std::size_t spans) {
  using enum ExportResult::Kind;
  if (reply.status == 0) return {.kind = retry, .reason = reply.error};
  const std::string answers = "answers " + std::to_string(reply.status);
  if (may_retry(reply.status)) {
    return {.kind = retry,
            .retry_after = reply.retry_after,
            .reason = with_text(answers, failure_text(reply.body))};
  }
  if (reply.status / 100 != 2)
    return {.kind = refused, .reason = with_text(answers, failure_text(reply.body))};
  ExportResult result{.kind = accepted, .reason = {}};
  service::ExportTraceServiceResponse response;
  if (!response.ParseFromString(reply.body)) return result;  // the status is what counts
  result.rejected = std::clamp<std::int64_t>(response.partial_success().rejected_spans(), 0,
                                             static_cast<std::int64_t>(spans));
  if (result.rejected > 0) result.reason = with_text(answers, response.partial_success().error_message());
  return result;
}

}  // namespace rung::otel
