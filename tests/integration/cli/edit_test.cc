// rung edit: what it changes and refuses; a message-id is an id; and show says what replaced what.
#include "tests/integration/cli/at_terminal.h"
#include "tests/integration/cli/fixture.h"

namespace rung::cli {
namespace {

using namespace std::chrono_literals;

class Edit : public CliTest {
 protected:
  Edit() { store(); }

  TaskId parked(const std::string& body = R"({"order":17})") {
    NewTask n = fresh("orders", 1h, "close-17");
    n.task.state = State::parked;
    n.task.next_at.reset();
    n.task.finished_at = now();
    auto message = std::make_shared<Message>(*n.message);
    message->body = body;
    message->properties.content_type = "application/json";
    message->headers = Table{{"tenant", "acme"}, {"tries", std::int32_t{3}}};
    n.message = message;
    n.task.body_bytes = static_cast<std::int64_t>(body.size());
    return insert(n);
  }
};

// Larger than max_allowed_packet: the message is in rung.parked, and the row has no body.
TEST_F(Edit, AMessageThatWasNotStoredIsMarkedAndSentByNothingElse) {
  const TaskId id = parked("");
  db.exec(
      "UPDATE rung_tasks SET rule = 'not_stored', body_bytes = 5000000, last_error = 'in the queue "
      "P.parked'");
  EXPECT_THAT(rung({"list"}).out, HasSubstr("parked, no body"));
  EXPECT_EQ(rung_json({"list"})["tasks"][0]["body_stored"], false);
  EXPECT_THAT(
      rung({"show", id.str()}).out,
      AllOf(HasSubstr(
                "the database has no body of this message, and nothing can send it: in the queue P.parked"),
            ContainsRegex("\nbody stored +no\n"), Not(HasSubstr("rung redrive"))));
  const Ran raw = rung({"show", id.str(), "--raw"}), redrive = rung({"redrive", id.str()});
  EXPECT_EQ(raw.exit, 3);
  EXPECT_EQ(raw.out, "");
  EXPECT_EQ(redrive.exit, 1);
  EXPECT_THAT(redrive.out + redrive.err, HasSubstr("in the queue P.parked"));
  const Ran dry = rung({"redrive", "--queue", "orders", "--dry-run"});
  EXPECT_THAT(dry.out, HasSubstr("0 tasks match"));
  EXPECT_THAT(dry.err, HasSubstr("1 task is left out"));
  const Ran bulk = rung({"redrive", "--queue", "orders", "--yes"});
  EXPECT_THAT(bulk.out, HasSubstr("no tasks match"));
  EXPECT_THAT(bulk.err, HasSubstr("1 task is left out"));
  EXPECT_EQ(rung({"edit", id.str(), "--body", file("small", "{}")}).exit, 0);
  EXPECT_EQ(row(id).state, State::discarded);
  EXPECT_EQ(rung_json({"list", "--state", "scheduled"})["tasks"][0]["body_stored"], true);
}

TEST_F(Edit, TheChildHasTheNewMessageAndTheOriginalSaysSo) {
  const TaskId id = parked();
  const json answer = rung_json({"edit", id.str(), "--body", file("fixed", R"({"order":17,"city":"Ulm"})"),
                                 "--set-header", "tenant=beta", "--set-header", "tries=4", "--set-header",
                                 "note=by hand", "--reason", "the city was missing"});
  EXPECT_EQ(answer["result"], "created");
  EXPECT_EQ(answer["task"]["parent_id"], id.str());
  EXPECT_EQ(answer["task"]["state"], "scheduled");
  EXPECT_EQ(answer["task"]["queue"], "orders");
  EXPECT_EQ(answer["task"]["attempt"], 0);
  const TaskId child = *TaskId::parse(answer["retry_id"].get<std::string>());
  const Message message = message_of(child);
  EXPECT_EQ(message.body, R"({"order":17,"city":"Ulm"})");
  EXPECT_EQ(message.properties, message_of(id).properties);
  EXPECT_EQ(message.headers, (Table{{"tenant", "beta"}, {"tries", std::int32_t{4}}, {"note", "by hand"}}))
      << "a number keeps its type";

  const json original = rung_json({"show", id.str()});
  EXPECT_EQ(original["state"], "discarded");
  EXPECT_EQ(original["replaced_by"], child.str());
  EXPECT_THAT(rung({"show", id.str()}).out,
              AllOf(ContainsRegex("\nreplaced by +" + child.str()),
                    HasSubstr("; replaced by " + child.str() + ", an edited copy")));
  EXPECT_THAT(rung({"show", child.str()}).out, ContainsRegex("\nparent id +" + id.str()));
  EXPECT_EQ(db.value("SELECT replaced_by FROM retry_current WHERE retry_id = " + id.str()), child.str());

  const json change = rung_json({"audit", id.str()})["audit"][0];
  EXPECT_EQ(change["what"], "edit");
  EXPECT_EQ(change["reason"], "the city was missing");
}

TEST_F(Edit, AMessageIdIsAnId) {
  const TaskId id = parked();
  EXPECT_THAT(rung({"edit", "close-17"}).err, HasSubstr("nothing would change: give --body"));
  EXPECT_EQ(rung({"edit", "close-17", "--set-header", "tenant=beta"}).exit, 0);
  EXPECT_NE(row(id).replaced_by, TaskId{});
  const Ran several = rung({"redrive", "close-17"});
  EXPECT_EQ(several.exit, 1);
  EXPECT_THAT(several.err,
              HasSubstr("several tasks have the message-id 'close-17': `rung list --message-id close-17`"));
  EXPECT_EQ(rung({"redrive", "no-such"}).exit, 3);
  const TaskId other = insert(fresh("orders", 1h, "4711"));
  EXPECT_THAT(rung({"cancel", "4711", other.str()}).out, testing::StartsWith(other.str() + "  cancelled"));
  EXPECT_EQ(row(other).version, 2U) << "once";
}

TEST_F(Edit, AtATerminalItShowsTheDifferenceAndAsks) {
  const TaskId id = parked();
  AtTerminal no(with_access({"edit", id.str(), "--set-header", "tenant=beta"}));
  EXPECT_THAT(no.until("[y/N]"), AllOf(HasSubstr("tenant: acme -> beta"), HasSubstr("send it to orders")));
  no.type("n\n");
  EXPECT_EQ(no.exit(), 1);
  EXPECT_EQ(row(id).replaced_by, TaskId{});
  AtTerminal yes(with_access({"edit", id.str(), "--set-header", "tenant=beta", "--yes"}));
  EXPECT_EQ(yes.exit(), 0);
  EXPECT_NE(row(id).replaced_by, TaskId{});
}

}  // namespace
}  // namespace rung::cli
