#include "campaign/journal.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "campaign/lock.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

using record::EventKind;

Json note(const std::string& text) { return record::to_json(record::Note{text}); }

class JournalFixture : public testing::Test {
 protected:
  std::filesystem::path path() const { return directory_.path() / "journal.jsonl"; }
  void write_three() {
    Journal journal = Journal::open(path(), clock_).value();
    for (const char* text : {"one", "two", "three"}) ASSERT_TRUE(journal.append(EventKind::kPaused, note(text)));
  }
  TempDir directory_ = TempDir::create("ridge-journal").value();
  VirtualClock clock_{1'767'225'600, 0.5};
};
using JournalTest = JournalFixture;

TEST_F(JournalTest, KeepsWhatWasAppended) {
  write_three();
  Journal journal = Journal::open(path(), clock_).value();
  const std::vector<record::Event> events = journal.take_loaded();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[2].payload, note("three"));
  EXPECT_EQ(events[1].previous, events[0].hash);
  EXPECT_GT(journal.active(), events[2].active);  // goes on where the last process stopped
}

// Whatever a crash leaves behind is either a shorter valid journal or one with an unfinished last line.
TEST_F(JournalTest, LoadsWhenCutAtAnyByte) {
  write_three();
  const std::string text = *read_file(path());
  for (std::size_t size = 0; size <= text.size(); ++size) {
    ASSERT_TRUE(write_file_durably(path(), text.substr(0, size)));
    Result<Journal> journal = Journal::open(path(), clock_);
    ASSERT_TRUE(journal) << "cut at " << size << ": " << journal.error().text();
    const auto lines =
        static_cast<std::int64_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(size), '\n'));
    EXPECT_EQ(journal->size(), lines);
    ASSERT_TRUE(journal->append(EventKind::kPaused, note("again")));
    EXPECT_EQ(record::read_journal(path())->events.size(), static_cast<std::size_t>(lines) + 1);
  }
}

TEST_F(JournalTest, RefusesAChangeOfAnyByteWithLineAndOffset) {
  write_three();
  const std::string text = *read_file(path());
  std::size_t line = 1, offset = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++line;
      offset = i + 1;
      continue;
    }
    std::string changed = text;
    changed[i] = changed[i] == 'x' ? 'y' : 'x';
    const Result<record::JournalText> parsed = record::parse_journal(changed);
    ASSERT_FALSE(parsed) << "byte " << i << " became " << changed[i];
    const std::string place = "line " + std::to_string(line) + " (byte " + std::to_string(offset) + ")";
    EXPECT_NE(parsed.error().message.find(place), std::string::npos) << parsed.error().message;
  }
}

TEST_F(JournalTest, RefusesALineThatWasRemovedOrRepeated) {
  write_three();
  const std::string text = *read_file(path());
  const std::size_t first = text.find('\n') + 1, second = text.find('\n', first) + 1;
  EXPECT_FALSE(record::parse_journal(text.substr(0, first) + text.substr(second)));
  EXPECT_FALSE(record::parse_journal(text.substr(0, second) + text.substr(first)));
  EXPECT_FALSE(record::parse_journal(text.substr(first)));
}

// A disk that takes `room` more bytes and then no more.
class FullDisk final : public JournalSink {
 public:
  FullDisk(std::unique_ptr<JournalSink> file, std::size_t room) : file_(std::move(file)), room_(room) {}
  Status append(std::size_t offset, std::string_view line) override {
    if (line.size() > room_) return with_hint(make_error(ErrorCode::kIo, "no space left on device"), "free some space");
    room_ -= line.size();
    return file_->append(offset, line);
  }
  Status truncate(std::size_t size) override { return file_->truncate(size); }

 private:
  std::unique_ptr<JournalSink> file_;
  std::size_t room_;
};

TEST_F(JournalTest, AFullDiskIsAnErrorAndTheJournalStaysValid) {
  auto disk = std::make_unique<FullDisk>(open_journal_file(path()).value(), 400);
  Journal journal = Journal::open(path(), clock_, std::move(disk)).value();
  ASSERT_TRUE(journal.append(EventKind::kPaused, note("fits")));
  const Result<record::Event> refused = journal.append(EventKind::kPaused, note(std::string(500, 'x')));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kIo);
  EXPECT_EQ(journal.size(), 1);
  EXPECT_EQ(record::read_journal(path())->events.size(), 1u);
}

TEST_F(JournalTest, ALineThatItsReaderRefusesIsNotWritten) {
  write_three();
  const std::string before = *read_file(path());
  Journal journal = Journal::open(path(), clock_).value();
  const Result<record::Event> refused =
      journal.append(EventKind::kPaused, note(std::string(std::size_t{64} << 20, 'x')));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text().find("\"paused\" has 6710"), std::string::npos) << refused.error().text();
  EXPECT_EQ(*read_file(path()), before);
  ASSERT_TRUE(journal.append(EventKind::kPaused, note("goes on")));
  EXPECT_EQ(record::read_journal(path())->events.size(), 4u);
}

TEST_F(JournalTest, AReadOnlyPlaceIsAnErrorWithTheWayOut) {
  const Result<Journal> journal = Journal::open("/proc/ridge/journal.jsonl", clock_);
  ASSERT_FALSE(journal);
  EXPECT_EQ(journal.error().code, ErrorCode::kIo);
}

TEST(Lock, IsRefusedWhileHeldAndFreeAfterwards) {
  const TempDir directory = TempDir::create("ridge-lock").value();
  {
    const Result<CampaignLock> first = CampaignLock::acquire(directory.path());
    ASSERT_TRUE(first);
    EXPECT_EQ(lock_holder(directory.path()), current_process());
    const Result<CampaignLock> second = CampaignLock::acquire(directory.path());
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kConflict);
  }
  EXPECT_EQ(lock_holder(directory.path()).pid, 0);
  EXPECT_TRUE(CampaignLock::acquire(directory.path()));
}

TEST(Lock, OfADeadProcessAnotherBootOrAReusedNumberIsTakenOver) {
  const TempDir directory = TempDir::create("ridge-lock").value();
  const LockHolder self = current_process();
  const std::string stale[] = {"999999999 " + self.boot_id + " 1\n", "1 00000000-0000-0000-0000-000000000000 1\n",
                               std::to_string(self.pid) + " " + self.boot_id + " 1\n", "", "garbage\n"};
  for (const std::string& content : stale) {
    ASSERT_TRUE(write_file_durably(directory.path() / "lock", content));
    EXPECT_TRUE(CampaignLock::acquire(directory.path())) << content;
  }
}

}  // namespace
}  // namespace ridge::campaign
