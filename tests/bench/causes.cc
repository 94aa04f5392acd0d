// What fingerprint() costs a failure, by the length and the kind of its error. No server.
//
//   cmake --preset release -DRUNG_BENCH=ON && cmake --build --preset release --target bench_causes &&
//   build/release/bench_causes
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "src/core/causes/fingerprint.h"

namespace {

constexpr std::size_t kMostBytes = 16 * 1024;

std::string repeated(const std::string& line, std::size_t bytes) {
  std::string out;
  while (out.size() + line.size() <= bytes) out += line;
  return out;
}

std::string java_trace(std::size_t bytes) {
  const std::string head = "java.lang.IllegalStateException: no stock of SKU-4711 for order 9f2c41d0\n";
  const std::string foreign =
      "\tat org.springframework.aop.framework.CglibAopProxy.intercept(CglibAopProxy.java:703)\n";
  return head + repeated(foreign, bytes - head.size() - 100) +
         "\tat com.acme.orders.OrderService.ship(OrderService.java:42)\n";
}

double us_per_failure(const std::string& error) {
  const int rounds = error.size() > 1000 ? 2'000 : 20'000;
  std::size_t bytes = 0;
  std::vector<double> all;
  for (int part = 0; part < 11; ++part) {
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds / 10; ++i) bytes += rung::fingerprint("orders", "", error).id.size();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begun;
    all.push_back(took.count() / (rounds / 10));
  }
  if (bytes == 0) fmt::print("no fingerprints: the bench is wrong\n");
  std::ranges::sort(all);
  return all[all.size() / 2];
}

}  // namespace

int main() {
  const std::string line =
      "charge ch_e778fec30fae of order ORD-2024-AB12 declined: the bank at "
      "https://bank.example.com/v1/charges answered "
      "503 Service Unavailable after 2.5 s (trace 9f2c41d0, customer 'Ann Lee', attempt 3 of 10)\n";
  const std::pair<const char*, std::string> errors[] = {
      {"message, 200 bytes", line},
      {"message, 2 KB", repeated(line, 2000)},
      {"message, 16 KB", repeated(line, kMostBytes)},
      {"Java trace, 16 KB", java_trace(kMostBytes)},
      {"quotes, 16 KB", repeated("'", kMostBytes)},
      {"\" 'a\", 16 KB", repeated(" 'a", kMostBytes)},
      {"digits, 16 KB", repeated("4", kMostBytes)},
      {"letters, 16 KB", repeated("e", kMostBytes)},
      {"\"at \", 16 KB", repeated("at ", kMostBytes)},
      {"\"at a(\\n\", 16 KB", repeated("at a(\n", kMostBytes)},
      {"newlines, 16 KB", repeated("\n", kMostBytes)},
      {"brackets, 16 KB", repeated("(1,", kMostBytes)},
      {"\" ---> \", 16 KB", repeated("a ---> ", kMostBytes)},
      {"a.php, 16 KB", repeated(" a.php:1", kMostBytes)},
      {"JSON, 16 KB", repeated(R"({"id": "4711", "items": [1, 2], "code": "declined"}, )", kMostBytes)}};
  fmt::print("{:<22} us a failure, median of 11\n", "error");
  for (const auto& [what, error] : errors) fmt::print("{:<22} {:>8.2f}\n", what, us_per_failure(error));
}
