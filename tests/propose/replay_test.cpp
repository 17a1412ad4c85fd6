#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "propose/proposer.h"
#include "propose/request.h"
#include "record/journal.h"
#include "record/json.h"

namespace ridge::propose {
namespace {

using ::testing::HasSubstr;

class Recorded {
 public:
  template <class Payload>
  void add(record::EventKind kind, const Payload& payload) {
    record::Event event;
    event.sequence = next_++;
    event.kind = kind;
    event.payload = record::to_json(payload);
    event.previous = previous_;
    event.hash = record::event_hash(event);
    previous_ = event.hash;
    text += record::to_line(event) + "\n";
  }
  std::string text;

 private:
  std::int64_t next_ = 0;
  std::string previous_ = std::string(64, '0');
};

record::Proposed proposed(std::int64_t round, std::int64_t lanes, std::string refused = {}) {
  record::Proposed event;
  event.round = round;
  event.refused = std::move(refused);
  event.proposal.hypothesis.title = "lanes";
  event.proposal.candidates = {toy_request(0.008, {{"LANES", lanes}}).incumbent};
  return event;
}

std::filesystem::path write_journal(const TempDir& directory) {
  Recorded journal;
  record::Created created;
  created.spec.op = "toy";
  journal.add(record::EventKind::kCreated, created);
  journal.add(record::EventKind::kProposed, proposed(2, 16));
  journal.add(record::EventKind::kProposed, proposed(3, 1, "it is the baseline"));
  journal.add(record::EventKind::kProposed, proposed(3, 8));
  const std::filesystem::path path = directory.path() / "journal.jsonl";
  EXPECT_TRUE(write_file_durably(path, journal.text).ok());
  return path;
}

TEST(Replay, ProposesWhatWasRecordedForTheRound) {
  auto directory = TempDir::create("ridge-replay");
  auto proposer = make_proposer("replay:" + write_journal(*directory).string());
  ASSERT_TRUE(proposer.ok()) << proposer.error().text();
  record::ProposalRequest request = toy_request();
  EXPECT_EQ((*proposer)->propose(request)->candidates[0].defines.at("LANES"), 16);
  EXPECT_EQ((*proposer)->propose(request)->candidates[0].parent, request.incumbent.id());
  request.round = 3;
  EXPECT_EQ((*proposer)->propose(request)->candidates[0].defines.at("LANES"), 8);
  request.round = 4;
  const auto end = (*proposer)->propose(request);
  EXPECT_TRUE(end->exhausted);
  EXPECT_THAT(end->reason, HasSubstr("proposals for 2 rounds, none for round 4"));
}

TEST(Replay, RefusesTheJournalOfAnotherOperator) {
  auto directory = TempDir::create("ridge-replay");
  auto proposer = make_proposer("replay:" + write_journal(*directory).string());
  record::ProposalRequest request = toy_request();
  request.spec.op = "gemm";
  EXPECT_THAT((*proposer)->propose(request).error().message, HasSubstr("is a campaign for toy, this one is for gemm"));
}

TEST(Replay, RefusesAMissingAndADamagedJournal) {
  EXPECT_FALSE(make_proposer("replay:/nonexistent/journal.jsonl").ok());
  auto directory = TempDir::create("ridge-replay");
  const std::filesystem::path path = write_journal(*directory);
  std::string text = *read_file(path);
  text[text.find("LANES") + 1] = 'X';
  ASSERT_TRUE(write_file_durably(path, text).ok());
  auto proposer = make_proposer("replay:" + path.string());
  ASSERT_FALSE(proposer.ok());
  EXPECT_EQ(proposer.error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace ridge::propose
