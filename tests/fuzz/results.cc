// What a consumer says at <prefix>.results, and what the machine makes of it in every state of a task.
// Input: the payload of a content header frame.
#include "plugin/rabbitmq/wire/codec.h"
#include "src/core/machine/headers.h"
#include "src/core/machine/machine.h"
#include "tests/fuzz/fuzz.h"

namespace rung {
namespace {

using fuzz::hold;
using fuzz::hold_text;

const RuleBook& rules() {
  static const RuleBook book({{"default", *levels::Ladder::from_list({Ms{5000}, Ms{30'000}}, 0.2)}}, {});
  return book;
}

void hold_word(const ResultWord& word) {
  hold_text(word.complaint, 500, "a complaint is a short text");
  hold_text(word.error, kErrorBytes, "error");
  hold_text(word.error_type, 255, "error type");
  hold(word.attempt >= 0 && (!word.id || word.id->value > 0), "numbers are in range");
  hold(!word.complaint.empty() || word.id, "a word without a complaint has an id");
}

void hold_decision(const Task& before, const Decision& d) {
  using enum Decision::Verdict;
  if (d.verdict != applied) {
    hold(!d.reason.empty() && d.task == before && !d.attempt,
         "what does not fit changes nothing, and says why");
    return;
  }
  const Task& t = d.task;
  hold(before.state != State::cancelled && before.state != State::discarded, "the end is the end");
  hold(t.id == before.id && t.attempt == before.attempt && t.queue == before.queue, "it is the same task");
  hold(t.level >= before.level && t.level <= before.level + 1, "at most one level up");
  hold_text(t.last_error, kErrorBytes, "last error");
  hold(t.state == State::scheduled || t.state == State::parked || t.state == State::succeeded,
       "a word ends an attempt");
  hold(is_finished(t.state) == t.finished_at.has_value(), "what is over has its time");
  hold(t.state != State::scheduled || (t.next_at && *t.next_at >= EpochMs{1'800'000'000'000}),
       "what waits too");
  hold(rules().ladder(t.ladder) != nullptr || t.state == State::succeeded, "it stands on a ladder");
}

}  // namespace
}  // namespace rung

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rung;
  Message message;
  std::uint64_t body_size = 0;
  rabbit::decode_content_header(fuzz::text_of(data, size), message, body_size);
  const ResultWord word = read_result(message);
  hold_word(word);
  const Happening what =
      word.succeeded ? Happening{event::Succeeded{word.attempt}}
                     : Happening{event::Failed{word.attempt, word.error, word.error_type, word.directives}};
  for (int state = 1; state <= 7; ++state) {
    for (const int attempt : {0, 1, 5}) {
      Task task;
      task.id = {4711};
      task.state = static_cast<State>(state);
      task.attempt = attempt;
      task.level = attempt == 0 ? 1 : 2;
      task.ladder = "default";
      task.queue = "orders";
      if (state <= 3) task.next_at = EpochMs{1'800'000'000'000};
      if (is_finished(task.state)) task.finished_at = EpochMs{1'700'000'000'000};
      if (task.state == State::succeeded) task.finished_by = FinishedBy::presumed;
      hold_decision(task, decide(task, what, rules(), {EpochMs{1'800'000'000'000}, 0.5, 1, 1, 7}));
    }
  }
  return 0;
}
