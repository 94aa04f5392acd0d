// What is told about target queues that take a retry which no consumer will get.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "src/cli/attach/queue_notes.h"

namespace rung::cli {
namespace {

using nlohmann::json;

std::set<std::string> notes_on(const json& arguments, const json& policy = json::object()) {
  rabbit::QueueFacts facts{std::nullopt, "p", "classic", "orders"};
  facts.arguments = arguments.dump();
  std::set<std::string> names;
  for (const QueueNote& note : target_notes(facts, {{"p", ".*", "queues", policy.dump(), 0}})) {
    EXPECT_NE(note.fix, "");
    names.insert(note.name);
  }
  return names;
}
using Names = std::set<std::string>;

TEST(TargetNotes, NothingOfAnOrdinaryQueue) {
  EXPECT_EQ(notes_on(json::object()), Names{});
  EXPECT_EQ(notes_on({{"x-max-length", 10}, {"x-overflow", "reject-publish"}, {"x-message-ttl", 3'600'000}}),
            Names{});
}

TEST(TargetNotes, OverflowThatDeadLettersWhatItRefuses) {
  EXPECT_EQ(notes_on({{"x-max-length", 10}, {"x-overflow", "reject-publish-dlx"}}), Names{"overflow"});
  EXPECT_EQ(notes_on(json::object(), {{"overflow", "reject-publish-dlx"}}), Names{"overflow"});
}

TEST(TargetNotes, OverflowThatDropsWhatItHadConfirmed) {
  EXPECT_EQ(notes_on({{"x-max-length", 10}}), Names{"overflow"});
  EXPECT_EQ(notes_on({{"x-max-length-bytes", 10}, {"x-overflow", "drop-head"}}), Names{"overflow"});
  EXPECT_EQ(notes_on({{"x-max-length", 0}, {"x-overflow", "drop-head"}}), Names{"length"});
}

TEST(TargetNotes, QueuesThatDoNotKeepWhatTheyConfirmed) {
  EXPECT_EQ(notes_on({{"x-message-ttl", 0}}), Names{"ttl"});
  EXPECT_EQ(notes_on(json::object(), {{"expires", 60'000}}), Names{"expires"});
  rabbit::QueueFacts facts{std::nullopt, "", "classic", "orders"};
  facts.auto_delete = true;
  facts.durable = false;
  EXPECT_EQ(target_notes(facts, {}).size(), 2U);
}

// An operator policy is in what is in effect, and in no list of policies.
TEST(TargetNotes, WhatAnOperatorPolicySets) {
  const auto notes = [](const json& effective, const json& arguments = json::object()) {
    rabbit::QueueFacts facts{std::nullopt, "p", "classic", "orders"};
    facts.arguments = arguments.dump();
    facts.effective_policy = effective.dump();
    std::set<std::string> names;
    for (const QueueNote& note : target_notes(facts, {{"p", ".*", "queues", "{}", 0}}))
      names.insert(note.name);
    return names;
  };
  EXPECT_EQ(notes({{"expires", 60'000}}), Names{"expires"});
  EXPECT_EQ(notes({{"max-length", 10}}), Names{"overflow"});
  EXPECT_EQ(notes({{"message-ttl", 1000}}, {{"x-message-ttl", 3'600'000}}), Names{"ttl"});
  EXPECT_EQ(notes({{"message-ttl", 3'600'000}}, {{"x-message-ttl", 1000}}), Names{"ttl"});
}

}  // namespace
}  // namespace rung::cli
