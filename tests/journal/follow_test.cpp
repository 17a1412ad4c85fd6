#include "journal/follow.h"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "base/files.h"
#include "record/json.h"

namespace ridge::journal {
namespace {

using record::EventKind;

// Journals of any length whose story is possible: created, then pauses.
class Follow : public testing::Test {
 protected:
  std::filesystem::path path() const { return directory_.path() / "journal.jsonl"; }

  std::string line(const std::string& text) {
    record::Event event;
    event.sequence = sequence_;
    event.time = "2026-01-01T00:00:00Z";
    event.kind = sequence_ == 0 ? EventKind::kCreated : EventKind::kPaused;
    event.payload = sequence_ == 0 ? record::to_json(record::Created{}) : record::to_json(record::Note{text});
    event.previous = previous_;
    event.hash = record::event_hash(event);
    previous_ = event.hash;
    ++sequence_;
    return record::to_line(event) + "\n";
  }
  std::string lines(std::initializer_list<const char*> texts) {
    std::string all;
    for (const char* text : texts) all += line(text);
    return all;
  }
  void begin() {
    sequence_ = 0;
    previous_ = std::string(64, '0');
  }
  void write(const std::string& text, bool append = true) const {
    std::ofstream(path(), append ? std::ios::app : std::ios::trunc) << text;
  }

  TempDir directory_ = TempDir::create("ridge-follow").value();
  std::int64_t sequence_ = 0;
  std::string previous_ = std::string(64, '0');
};

TEST_F(Follow, TellsEachEventOnce) {
  Follower follower(path());
  EXPECT_EQ(follower.look().error().code, ErrorCode::kNotFound);
  write(lines({"", "one"}));
  Result<Follower::Look> look = follower.look();
  ASSERT_TRUE(look) << look.error().text();
  EXPECT_EQ(look->events, 2);
  EXPECT_FALSE(look->anew);
  EXPECT_TRUE(follower.look()->events == 0);
  write(line("two"));
  std::vector<std::int64_t> told;
  look = follower.look([&](const record::Event& event, const State& after) {
    told.push_back(event.sequence);
    EXPECT_EQ(after.last_hash, event.hash);
  });
  EXPECT_EQ(look->events, 1);
  EXPECT_EQ(told, std::vector<std::int64_t>{2});
  EXPECT_EQ(*follower.state().paused, "two");
}

TEST_F(Follow, WaitsForTheEndOfALine) {
  Follower follower(path());
  const std::string first = line(""), second = line("one");
  write(first);
  EXPECT_EQ(follower.look()->events, 1);
  for (std::size_t i = 0; i < second.size(); ++i) {
    write(second.substr(i, 1));
    const Result<Follower::Look> look = follower.look();
    ASSERT_TRUE(look) << "byte " << i << ": " << look.error().text();
    EXPECT_FALSE(look->anew);
    EXPECT_EQ(look->events, i + 1 == second.size() ? 1 : 0);
    EXPECT_EQ(follower.torn_bytes(), (i + 1) % second.size());
    EXPECT_EQ(follower.size(), first.size() + i + 1);
  }
  EXPECT_EQ(follower.state().events, 2);
}

TEST_F(Follow, BeginsAnewWhenTheJournalWasCutOrReplaced) {
  Follower follower(path());
  const std::string first = line("");
  write(first + lines({"one", "two"}));
  EXPECT_EQ(follower.look()->events, 3);
  write(first, false);  // repaired
  Result<Follower::Look> look = follower.look();
  EXPECT_TRUE(look->anew);
  EXPECT_EQ(look->events, 1);
  EXPECT_EQ(follower.state().events, 1);
  begin();
  ASSERT_TRUE(write_file_durably(path(), lines({"", "another", "story"})));  // a file of its own
  look = follower.look();
  EXPECT_TRUE(look->anew);
  EXPECT_EQ(look->events, 3);
  EXPECT_EQ(*follower.state().paused, "story");
}

// The same file, no shorter than before, with other lines.
TEST_F(Follow, SeesThatTheLastLineIsAnother) {
  Follower follower(path());
  const std::string first = line("");
  write(first + line("one"));
  EXPECT_EQ(follower.look()->events, 2);
  begin();
  line("");
  write(first + lines({"two", "three"}), false);
  const Result<Follower::Look> look = follower.look();
  EXPECT_TRUE(look->anew);
  EXPECT_EQ(look->events, 3);
}

TEST_F(Follow, NamesTheLineThatDoesNotVerifyUntilItIsMended) {
  Follower follower(path());
  const std::string first = line("");
  write(first);
  EXPECT_EQ(follower.look()->events, 1);
  std::string forged = line("one");
  forged[forged.find("one")] = 'O';
  write(forged);
  for (int i = 0; i < 2; ++i) {
    const Result<Follower::Look> look = follower.look();
    ASSERT_FALSE(look);
    EXPECT_EQ(look.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(look.error().message.find("journal line 2 (byte " + std::to_string(first.size()) + ")"),
              std::string::npos)
        << look.error().message;
  }
  write(first, false);
  const Result<Follower::Look> look = follower.look();
  ASSERT_TRUE(look) << look.error().text();
  EXPECT_TRUE(look->anew);
  EXPECT_EQ(look->events, 1);
}

TEST_F(Follow, RefusesAStoryThatIsImpossible) {
  Follower follower(path());
  write(line(""));
  EXPECT_TRUE(follower.look());
  record::Event event;
  event.sequence = 1;
  event.time = "2026-01-01T00:00:00Z";
  event.kind = EventKind::kFinal;
  event.payload = record::to_json(record::Final{});
  event.previous = previous_;
  event.hash = record::event_hash(event);
  write(record::to_line(event) + "\n");
  const Result<Follower::Look> look = follower.look();
  ASSERT_FALSE(look);
  EXPECT_NE(look.error().message.find("no termination condition holds"), std::string::npos) << look.error().message;
}

TEST_F(Follow, ANamedPipeIsNoJournal) {
  ASSERT_EQ(::system(("mkfifo '" + path().string() + "'").c_str()), 0);
  EXPECT_FALSE(Follower(path()).look());
}

// Behind 10,000 events a new one costs less than 1 ms: the fastest of twenty, because the machine may be busy.
TEST_F(Follow, ANewEventCostsAsMuchInALongJournal) {
  std::string text = line("");
  for (int i = 1; i < 10'000; ++i) text += line("an event of a usual length, with a sentence that says what was done");
  write(text);
  Follower follower(path());
  ASSERT_EQ(follower.look()->events, 10'000);
  double fastest = 1;
  for (int i = 0; i < 20; ++i) {
    write(line("one more"));
    const auto start = std::chrono::steady_clock::now();
    const Result<Follower::Look> look = follower.look();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    ASSERT_EQ(look->events, 1);
    fastest = std::min(fastest, took.count());
  }
  EXPECT_LT(fastest, 1e-3);
  RecordProperty("microseconds", static_cast<int>(1e6 * fastest));
}

}  // namespace
}  // namespace ridge::journal
