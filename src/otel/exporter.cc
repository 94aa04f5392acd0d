#include "src/otel/exporter.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <nlohmann/json.hpp>

#include "src/core/base/url.h"
#include "src/core/base/utf8.h"
#include "src/core/base/words.h"
#include "src/io/log.h"

namespace rung::otel {
namespace {

using nlohmann::json;

constexpr std::size_t kMostText = 200;
constexpr Ms kQuiet = std::chrono::minutes{1};
constexpr const char* kUnavailable = "trace collector unavailable: spans wait, and are dropped in time";
constexpr const char* kRefuses = "trace collector refuses spans: they are dropped";
constexpr const char* kSlow = "trace collector too slow: spans are dropped";

std::string with_text(const std::string& reason, const std::string& text) {
  return text.empty() ? reason : reason + ": " + escape_controls(clean_utf8(text, kMostText));
}

// "" if there is no such text.
std::string text_at(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// A google.rpc.Status, if the body is one.
std::string failure_text(const std::string& body) {
  return text_at(json::parse(body, nullptr, false), "message");
}

// 64 bits are text in OTLP's JSON, and some collectors write a number.
std::int64_t rejected_spans(const json& partial) {
  const auto value = partial.find("rejectedSpans");
  if (value != partial.end() && value->is_number_integer()) return value->get<std::int64_t>();
  return number_from<std::int64_t>(text_at(partial, "rejectedSpans")).value_or(0);
}

bool may_retry(int status) { return status == 429 || status == 502 || status == 503 || status == 504; }

// OTEL_EXPORTER_OTLP_ENDPOINT's rule: a base, to which the signal's path is appended.
std::string base_of(std::string endpoint) {
  while (endpoint.ends_with('/')) endpoint.pop_back();
  return endpoint;
}

net::HttpClientOptions client_options(const ExporterOptions& options, const ExportLimits& limits) {
  return {.base = base_of(options.endpoint),
          .headers = options.headers,
          .content_type = "application/json",
          .ca = options.ca,
          .verify = options.verify,
          .connecting = limits.connecting,
          .answering = limits.answering};
}

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
  const json response = json::parse(reply.body, nullptr, false);
  const auto partial = response.is_object() ? response.find("partialSuccess") : response.end();
  // The status is what counts.
  if (!response.is_object() || partial == response.end() || !partial->is_object()) return result;
  result.rejected = std::clamp<std::int64_t>(rejected_spans(*partial), 0, static_cast<std::int64_t>(spans));
  if (result.rejected > 0) result.reason = with_text(answers, text_at(*partial, "errorMessage"));
  return result;
}

CollectorLog::CollectorLog(const std::string& endpoint, const Clock* clock)
    : endpoint_(hide_password(endpoint)), clock_(clock) {}

bool CollectorLog::may_warn() const {
  return clock_ == nullptr || !warned_at_ || clock_->boot() - *warned_at_ >= kQuiet;
}

void CollectorLog::failing(std::string_view event, const std::string& reason, std::int64_t dropped) {
  if (warned_of_ == event || !may_warn()) return;
  log::warn(event, {{"collector", endpoint_}, {"reason", reason}, {"dropped", dropped - dropped_before_}});
  warned_of_ = event;
  if (clock_ != nullptr) warned_at_ = clock_->boot();
}

void CollectorLog::accepting(std::int64_t dropped) {
  if (!warned_of_.empty()) {
    log::info("trace collector accepts spans again",
              {{"collector", endpoint_}, {"dropped", dropped - dropped_before_}});
  }
  warned_of_ = {};
  dropped_before_ = dropped;
}

Exporter::Exporter(ExporterOptions options, ExportLimits limits)
    : options_(std::move(options)),
      limits_(limits),
      client_(client_options(options_, limits_)),
      delay_(limits_.first_pause, limits_.most_pause),
      log_(options_.endpoint, options_.clock),
      thread_([this] { run(); }) {}

void Exporter::add(Span span) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || queue_.size() >= limits_.queue) {
      ++overflowed_;
      return;
    }
    queue_.push_back(std::move(span));
    // Only what take() waits for: the first span, and a full batch.
    if (queue_.size() != 1 && queue_.size() != limits_.batch) return;
  }
  changed_.notify_one();
}

std::vector<Span> Exporter::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
  changed_.wait_for(lock, limits_.linger, [&] { return stopping_ || queue_.size() >= limits_.batch; });
  const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(std::min(limits_.batch, queue_.size()));
  std::vector<Span> batch(std::make_move_iterator(queue_.begin()), std::make_move_iterator(end));
  queue_.erase(queue_.begin(), end);
  return batch;
}

bool Exporter::wait_stopping(Ms most) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, most, [&] { return stopping_; });
}

void Exporter::stop() {
  if (!thread_.joinable()) return;
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_one();
  if (!ended_.wait_for(lock, limits_.stopping, [&] { return !running_; })) client_.interrupt();
  lock.unlock();
  thread_.join();
}

void Exporter::run() {
  begin_thread("rung-otel");
  for (;;) {
    const std::vector<Span> batch = take();
    if (batch.empty()) break;
    deliver(batch);
  }
  const std::lock_guard lock(mutex_);
  running_ = false;
  ended_.notify_one();
}

void Exporter::deliver(const std::vector<Span>& batch) {
  const auto spans = static_cast<std::int64_t>(batch.size());
  if (gave_up_) {
    dropped_ += spans;
    return;
  }
  const std::string body = encode(batch, options_.resource);
  for (int tried = 1;; ++tried) {
    const std::int64_t overflow = overflowed_;
    const bool stopping = wait_stopping(Ms{0});
    const ExportResult result = read_reply(client_.send("POST", "/v1/traces", body), batch.size());
    if (result.kind != ExportResult::Kind::retry) return count(result, spans, overflowed_ > overflow);
    gave_up_ = stopping;
    const bool last = stopping || tried == limits_.tries;
    if (last) dropped_ += spans;
    log_.failing(kUnavailable, result.reason, counts().dropped);
    if (last) return;
    // stop() ends it: one more try.
    const bool asked = result.retry_after > Ms{0};
    wait_stopping(asked ? std::min(result.retry_after, limits_.most_asked) : delay_.next());
  }
}

void Exporter::count(const ExportResult& result, std::int64_t spans, bool overflow) {
  delay_.reset();
  const std::int64_t lost = result.kind == ExportResult::Kind::accepted ? result.rejected : spans;
  exported_ += spans - lost;
  dropped_ += lost;
  const std::int64_t dropped = counts().dropped;
  if (lost > 0) return log_.failing(kRefuses, result.reason, dropped);
  if (overflow) return log_.failing(kSlow, "its answers take longer than spans to come", dropped);
  log_.accepting(dropped);
}

}  // namespace rung::otel
