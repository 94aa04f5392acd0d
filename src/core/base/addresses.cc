#include "src/core/base/addresses.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>

#include "src/core/base/result.h"

namespace rung {
namespace {

constexpr std::size_t kMostFailuresKept = 100;  // a name may resolve to ever new addresses

using Answer = Result<std::vector<std::string>>;

Answer resolve(const std::string& host, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  if (const int failed = getaddrinfo(host.c_str(), nullptr, &hints, &list); failed != 0)
    return transient("looking up " + host + ": " + gai_strerror(failed));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, freeaddrinfo);
  std::vector<std::string> found;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    std::array<char, INET6_ADDRSTRLEN + 32> text{};
    if (getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    if (std::ranges::find(found, text.data()) == found.end()) found.emplace_back(text.data());
  }
  if (found.empty()) return transient("looking up " + host + ": no address");
  return found;
}

// Resolves in a detached thread: the caller may stop waiting before it ends.
std::future<Answer> ask(const std::string& host) {
  std::packaged_task<Answer()> question([host] { return resolve(host, 0); });
  auto answer = question.get_future();
  std::thread(std::move(question)).detach();
  return answer;
}

Answer wait_for(std::future<Answer>& answer, const std::string& host, const Clock& clock, BootMs deadline,
                const std::function<bool()>& stopping) {
  while (answer.wait_for(Ms{20}) != std::future_status::ready) {
    if (stopping && stopping()) return transient("stopping");
    if (clock.boot() >= deadline) return transient("looking up " + host + ": no answer");
  }
  return answer.get();
}

// For each host its numeric addresses ("10.0.0.7", "fe80::2"), in the resolver's order, or the error, which
// is transient. All hosts are resolved in parallel. A numeric address resolves to itself. getaddrinfo() can
// hang for longer than we may wait, so each name is resolved in a thread of its own, which is abandoned when
// the time is up.
std::vector<Answer> look_up(const std::vector<std::string>& hosts, const Clock& clock, BootMs deadline,
                            const std::function<bool()>& stopping) {
  std::vector<Answer> answers;
  std::vector<std::future<Answer>> asked;
  for (const std::string& host : hosts) {
    answers.push_back(resolve(host, AI_NUMERICHOST));
    asked.push_back(answers.back() ? std::future<Answer>() : ask(host));
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (asked[i].valid()) answers[i] = wait_for(asked[i], hosts[i], clock, deadline, stopping);
  }
  return answers;
}

}  // namespace

Addresses::Addresses(std::vector<Url> urls, int usual_port, Order order, const Clock& clock,
                     std::uint32_t seed)
    : urls_(std::move(urls)), usual_port_(usual_port), order_(order), clock_(clock), seed_(seed) {
  RUNG_REQUIRE(!urls_.empty());
}

std::string Addresses::key_of(const Address& address) {
  return address.url.host + ":" + std::to_string(address.url.port) + "/" + address.ip;
}

Addresses::Found Addresses::find(BootMs deadline, const Stopping& stopping, bool names) const {
  std::vector<std::string> hosts;
  for (const Url& url : urls_) hosts.push_back(url.host);
  const std::vector<Answer> answers = names ? std::vector<Answer>(hosts.size(), std::vector{std::string()})
                                            : look_up(hosts, clock_, deadline, stopping);
  Found found;
  for (std::size_t i = 0; i < urls_.size(); ++i) {
    if (!answers[i]) {
      found.missing.push_back(answers[i].error());
      continue;
    }
    const std::string name = urls_[i].host_port(usual_port_);
    for (const std::string& ip : *answers[i]) {
      const bool many = answers[i]->size() > 1;
      found.all.push_back({urls_[i], ip, many ? name + " (" + ip + ")" : name, found.all.size(), false});
    }
  }
  if (urls_.size() == 1 && found.all.size() == 1) found.all.front().alone = true;
  return found;
}

std::vector<Address> Addresses::in_order(std::vector<Address> all) const {
  const std::lock_guard lock(mutex_);
  const auto rank = [&](const Address& address) -> std::tuple<bool, std::uint64_t, std::size_t, std::size_t> {
    const std::string key = key_of(address);
    if (order_ == Order::listed) return {key != serving_, 0, 0, address.place};
    const auto it = failures_.find(key);
    const std::size_t dice = std::hash<std::string>{}(std::to_string(seed_) + key);
    return {key != serving_, it == failures_.end() ? 0 : it->second, dice, address.place};
  };
  std::ranges::stable_sort(all, [&](const Address& a, const Address& b) { return rank(a) < rank(b); });
  return all;
}

Ms Addresses::slice() const {
  const std::lock_guard lock(mutex_);
  return slice_;
}

void Addresses::serves(const Address& address, const std::string& passed_over) {
  {
    const std::lock_guard lock(mutex_);
    serving_ = key_of(address);
    failures_.erase(serving_);
    slice_ = kSlice;
    if (std::exchange(told_of_, serving_) == serving_) return;
  }
  if (told_) told_(address.shown, passed_over);
}

void Addresses::failed(const Address& address) {
  const std::lock_guard lock(mutex_);
  const std::string key = key_of(address);
  if (serving_ == key) serving_.clear();
  if (failures_.size() >= kMostFailuresKept) failures_.clear();
  failures_[key] = ++count_;
}

void Addresses::was_silent(Ms given) {
  const std::lock_guard lock(mutex_);
  if (slice_ == given) slice_ = std::min(slice_ * 2, kLongestSlice);
}

bool Addresses::left(const Address& address) const {
  const std::lock_guard lock(mutex_);
  const std::string key = key_of(address);
  // A name may resolve to a different address each time: that alone is no reason to leave an address that
  // serves.
  return !serving_.empty() && serving_ != key && failures_.contains(key);
}

// `refused` only if every address refuses: an unreachable one may serve when it is back.
Error Addresses::together(const std::map<std::size_t, Error>& errors, const std::vector<Error>& missing) {
  std::vector<Error> all;
  for (const auto& [place, error] : errors) all.push_back(error);
  all.insert(all.end(), missing.begin(), missing.end());
  if (all.empty()) return {Error::Kind::transient, ""};
  Error whole = all.front();
  for (std::size_t i = 1; i < all.size(); ++i) {
    whole.message += "; " + all[i].message;
    if (all[i].kind == Error::Kind::transient) whole.kind = Error::Kind::transient;
  }
  return whole;
}

}  // namespace rung
