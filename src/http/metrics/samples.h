// The samples of one metric, as prometheus-cpp's serializer takes them. Part of Metrics: only its files
// include this.
#pragma once

#include <prometheus/labels.h>
#include <prometheus/metric_family.h>

#include <array>
#include <cstddef>
#include <string>

#include "src/http/metrics/metrics.h"

namespace rung::http {

using prometheus::Labels;
using prometheus::MetricType;
inline constexpr auto kCounter = MetricType::Counter, kGauge = MetricType::Gauge,
                      kHistogram = MetricType::Histogram;

class Samples {
 public:
  Samples(const char* name, MetricType type, const char* help) : family_{name, help, type, {}} {}

  void add(auto value, const Labels& labels = {}) {
    prometheus::ClientMetric& sample = with(labels);
    (family_.type == kCounter ? sample.counter.value : sample.gauge.value) = static_cast<double>(value);
  }
  void add(const bridge::Lateness& late, const Labels& labels = {});
  // Each count with its word; `queue`: "" = no such label.
  template <std::size_t N, typename Count>
  void add_each(const char* label, const std::array<const char*, N>& words,
                const std::array<Count, N>& counts, const std::string& queue = "") {
    for (std::size_t i = 0; i < N; ++i) {
      Labels labels = {{label, words[i]}};
      if (!queue.empty()) labels.emplace("queue", queue);
      add(counts[i], labels);
    }
  }
  const prometheus::MetricFamily& family() const { return family_; }

 private:
  prometheus::ClientMetric& with(const Labels& labels);

  prometheus::MetricFamily family_;
};

}  // namespace rung::http
