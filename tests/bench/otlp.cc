// What the export of traces costs: CPU per span to encode a batch; with ENDPOINT, also to hand a span over,
// and in all. The collector's CPU is not counted: run it as another process (tests/support/otlp_recorder.py).
//
//   cmake --preset release -DRUNG_BENCH=ON && cmake --build --preset release --target bench_otlp &&
//   build/release/bench_otlp [ENDPOINT]
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "src/otel/encode.h"
#include "src/otel/exporter.h"

namespace {

using namespace rung;
using otel::Span;

constexpr int kBatch = 512, kRounds = 400;

// As a retry of a task: a parent, a link to the message's own trace, seven attributes, an error.
Span span(int number) {
  Span span;
  for (std::size_t i = 0; i < span.context.trace.size(); ++i)
    span.context.trace[i] = static_cast<std::uint8_t>(number + static_cast<int>(i) + 1);
  span.context.span = {1, 2, 3, 4, 5, 6, 7, static_cast<std::uint8_t>(number)};
  span.parent = otel::SpanId{8, 7, 6, 5, 4, 3, 2, 1};
  span.name = "orders retry";
  span.kind = otel::SpanKind::producer;
  span.start = EpochMs{1'790'000'000'000};
  span.end = EpochMs{1'790'000'060'000};
  span.attributes = {{"messaging.system", std::string("rabbitmq")},
                     {"messaging.destination.name", std::string("orders")},
                     {"messaging.operation.name", std::string("retry")},
                     {"messaging.message.id", std::string("018f5a3e-7b7e-7c3a-9a55-5f4d0c3b2a10")},
                     {"rung.task.id", std::int64_t{4711}},
                     {"rung.attempt", std::int64_t{3}},
                     {"rung.policy", std::string("default")}};
  span.links = {{.to = {.trace = {1, 2, 3}, .span = {4, 5, 6}, .state = "vendor=1"}}};
  span.error = "java.net.SocketTimeoutException: connect timed out";
  return span;
}

std::vector<Span> batch() {
  std::vector<Span> spans;
  for (int i = 0; i < kBatch; ++i) spans.push_back(span(i));
  return spans;
}

double cpu_us(int who) {
  rusage use{};
  getrusage(who, &use);
  const auto us = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec);
  };
  return us(use.ru_utime) + us(use.ru_stime);
}

void encoding(const std::vector<Span>& spans) {
  std::size_t bytes = 0;
  const double before = cpu_us(RUSAGE_THREAD);
  for (int i = 0; i < kRounds; ++i)
    bytes += otel::encode(spans, {{"service.name", std::string("rung")}}).size();
  const double us = (cpu_us(RUSAGE_THREAD) - before) / (kRounds * kBatch);
  fmt::print("encode: {:.2f} us of CPU per span, {:.0f} spans/s on one core, {} bytes per span\n", us,
             1e6 / us, bytes / (kRounds * kBatch));
}

// Adds a batch when the queue has room for it.
void exporting(const std::string& endpoint, const std::vector<Span>& spans) {
  otel::Exporter exporter({.endpoint = endpoint, .resource = {{"service.name", std::string("rung")}}});
  const auto done = [&] {
    const auto counts = exporter.counts();
    return counts.exported + counts.dropped;
  };
  const auto others_us = [] { return cpu_us(RUSAGE_SELF) - cpu_us(RUSAGE_THREAD); };
  const double before = others_us();
  const auto begun = std::chrono::steady_clock::now();
  double adding = 0;
  std::int64_t added = 0;
  for (int i = 0; i < kRounds; ++i, added += kBatch) {
    while (done() + 4 * kBatch < added) usleep(500);
    std::vector<Span> mine = spans;
    const double start = cpu_us(RUSAGE_THREAD);
    for (Span& one : mine) exporter.add(std::move(one));
    adding += cpu_us(RUSAGE_THREAD) - start;
  }
  while (done() < added) usleep(500);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  const auto all = static_cast<double>(added);
  fmt::print("add: {:.2f} us of CPU per span on the caller's thread\n", adding / all);
  fmt::print(
      "export: {:.2f} us of CPU per span on the exporter's thread; {:.0f} spans/s; {} accepted, {} dropped\n",
      (others_us() - before) / all, all / took.count(), exporter.counts().exported,
      exporter.counts().dropped);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<Span> spans = batch();
  encoding(spans);
  if (argc > 1) exporting(argv[1], spans);
  return 0;
}
