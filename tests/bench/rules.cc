// What rules cost: the time of FailureRules::match() for one failure, by the number of rules. No server.
//
//   cmake --preset release -DRUNG_BENCH=ON && cmake --build --preset release --target bench_rules &&
//   build/release/bench_rules
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "src/core/rules/failure_rules.h"

namespace {

using namespace rung;

constexpr int kRounds = 200'000;

// Like a long list in use: types, expressions, headers and limits in turns; none matches, the costliest case.
FailureRules rules(int count) {
  std::vector<FailureRule> list;
  for (int i = 0; i < count; ++i) {
    FailureRule rule;
    rule.name = "bench[" + std::to_string(i + 1) + "]";
    const std::string n = std::to_string(i);
    switch (i % 5) {
      case 0:
        rule.when.types = {"Error" + n, "*.Exception" + n};
        break;
      case 1:
      case 2:
        rule.when.error =
            parse_rule_regex("/HTTP 5" + n + "|gateway " + n + " (timed out|refused)/i").value();
        break;
      case 3:
        rule.when.headers = {{"tier", "level" + n}};
        break;
      default:
        rule.when.attempts_above = 3;
        rule.when.types = {"Timeout" + n};
    }
    list.push_back(std::move(rule));
  }
  return FailureRules(std::move(list));
}

double ns_per_failure(const FailureRules& rules, const std::string& error) {
  const RuleHeaders headers{{"tier", "gold"}};
  FailureCase failure{
      "orders", "order.created", "com.example.PaymentException", error, "rejected", &headers, 4, Ms{0}};
  std::size_t matched = 0;
  std::vector<double> all;
  for (int part = 0; part < 10; ++part) {
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < kRounds / 10; ++i) matched += rules.match(failure).rule != nullptr ? 1 : 0;
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begun;
    all.push_back(took.count() / (kRounds / 10));
  }
  if (matched != 0) fmt::print("a rule matched: the bench is wrong\n");
  std::ranges::sort(all);
  return all[all.size() / 2];
}

}  // namespace

int main() {
  const std::string line = "charge declined: the bank of order 4711 did not answer in 2 s (trace 9f2c41d0)";
  fmt::print("{:>6} {:>12} {:>14}   ns a failure, median of 10 x {}; no rule matches\n", "rules",
             std::to_string(line.size()) + " bytes", "2000 bytes", kRounds / 10);
  std::string lines;
  while (lines.size() < 2000) lines += line + "\n";
  for (const int count : {1, 5, 10, 50, 200}) {
    const FailureRules list = rules(count);
    fmt::print("{:>6} {:>12.0f} {:>14.0f}\n", count, ns_per_failure(list, line), ns_per_failure(list, lines));
  }
}
