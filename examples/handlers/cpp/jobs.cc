// Handlers by tag, in C++. Try: rung submit --tag mail.reminder --delay 5s --body ann
//
// usage: rung_example_jobs [AMQP-URL [QUEUE]]      default: amqp://guest:guest@127.0.0.1:5672/%2f jobs
#include <set>

#include "handlers.h"

void call_partner(const std::string& what) { throw Failure("partner.example: no answer to " + what); }

int main(int argc, char** argv) {
  std::set<std::string>
      done;  // stands for a table with a unique key, written in the same transaction as the work
  Handlers handlers;
  handlers.on("mail.reminder", [&](const Job& job) {
    if (!done.insert(job.key()).second) return;
    std::printf("mail.reminder %s: dear %s\n", job.key().c_str(), job.body.c_str());
    std::fflush(stdout);
  });
  // The partner responds from the second delivery on.
  handlers.on("partner.sync", [](const Job& job) {
    if (job.attempt < 2) call_partner(job.body);
    std::printf("partner.sync %s: done at attempt %lld\n", job.key().c_str(),
                static_cast<long long>(job.attempt));
    std::fflush(stdout);
  });
  handlers.on("report.build", [](const Job& job) {
    if (job.body.empty()) throw Never("a report needs a month: retries cannot succeed");
    if (job.body == "busy" && job.attempt < 2) throw Later("the warehouse is loading", "1s");
    // Exceptions of other types are reported too, with type and text but without a stack.
    if (job.body == "old library" && job.attempt < 2) throw 13;
    std::printf("report.build %s: %s\n", job.key().c_str(), job.body.c_str());
    std::fflush(stdout);
  });
  handlers.run(argc > 1 ? argv[1] : "amqp://guest:guest@127.0.0.1:5672/%2f", argc > 2 ? argv[2] : "jobs");
}
