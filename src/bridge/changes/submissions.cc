#include "src/bridge/changes/submissions.h"

#include <memory>
#include <optional>
#include <utility>

#include "src/bridge/flight/inserts.h"
#include "src/bridge/flight/transitions.h"

namespace rung::bridge {
namespace {

Error not_now(const char* why) { return {Error::Kind::transient, why}; }

}  // namespace

void Submissions::submit(std::vector<Submission> batch, SubmitDone done) {
  sidecar_.loop.post([this, batch = std::move(batch), done = std::move(done)] {
    if (!sidecar_.clock.known()) return done(tl::unexpected(not_now("the database has not answered yet")));
    if (batch.empty()) return done(std::vector<Submitted>{});
    Inserts::Item call;
    // A lag of our reading of the database's clock never cuts a delay short.
    const EpochMs now = sidecar_.clock.latest();
    for (const Submission& submission : batch) call.tasks.push_back(submission.begun(*sidecar_.rules, now));
    call.done = [done](const Inserts::Item& item, const Result<std::vector<Inserted>>& answers) {
      if (!answers) return done(tl::unexpected(answers.error()));
      std::vector<Submitted> submitted;
      for (std::size_t i = 0; i < answers->size(); ++i)
        submitted.push_back({(*answers)[i], item.tasks[i].task});
      done(std::move(submitted));
    };
    sidecar_.inserts.add(std::move(call));
    sidecar_.inserts.flush();
  });
}

void Submissions::change(std::vector<Event> events, ChangeDone done) {
  struct Answers {
    std::vector<Decision> decisions;
    std::size_t missing = 0;
    std::optional<Error> error;
    ChangeDone done;
  };
  auto answers = std::make_shared<Answers>();
  answers->decisions.resize(events.size());
  answers->missing = events.size();
  answers->done = std::move(done);
  sidecar_.loop.post([this, answers, events = std::move(events)]() mutable {
    if (draining_) return answers->done(tl::unexpected(not_now("this instance is shutting down")));
    if (events.empty()) return answers->done(std::vector<Decision>{});
    for (std::size_t i = 0; i < events.size(); ++i) {
      sidecar_.transitions.add(std::move(events[i]), [this, i, answers](const Result<Decision>& decision) {
        if (decision) {
          answers->decisions[i] = *decision;
        } else {
          answers->error = decision.error();
        }
        if (--answers->missing > 0) return;
        if (answers->error) return answers->done(tl::unexpected(*answers->error));
        answers->done(std::move(answers->decisions));
      });
    }
    sidecar_.transitions.flush();
  });
}

}  // namespace rung::bridge
