#include "src/core/base/lookup.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace rung {
namespace {

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

// Shared with the resolver thread, which may outlive the waiting caller.
struct Question {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Answer> answer;  // guarded by mutex
};

std::shared_ptr<Question> ask(const std::string& host) {
  auto question = std::make_shared<Question>();
  std::thread([question, host] {
    Answer answer = resolve(host, 0);
    const std::lock_guard lock(question->mutex);
    question->answer.emplace(std::move(answer));
    question->changed.notify_all();
  }).detach();
  return question;
}

Answer wait_for(Question& question, const std::string& host, const Clock& clock, BootMs deadline,
                const std::function<bool()>& stopping) {
  std::unique_lock lock(question.mutex);
  while (!question.answer) {
    if (stopping && stopping()) return transient("stopping");
    if (clock.boot() >= deadline) return transient("looking up " + host + ": no answer");
    question.changed.wait_for(lock, Ms{20});
  }
  return *question.answer;
}

}  // namespace

std::vector<Answer> look_up(const std::vector<std::string>& hosts, const Clock& clock, BootMs deadline,
                            const std::function<bool()>& stopping) {
  std::vector<Answer> answers;
  std::vector<std::shared_ptr<Question>> asked;
  for (const std::string& host : hosts) {
    answers.push_back(resolve(host, AI_NUMERICHOST));
    asked.push_back(answers.back() ? nullptr : ask(host));
  }
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (asked[i] != nullptr) answers[i] = wait_for(*asked[i], hosts[i], clock, deadline, stopping);
  }
  return answers;
}

}  // namespace rung
