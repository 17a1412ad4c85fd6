// What lies in the folder of the units is changed at random, as a full disk, a broken node or a neighbour may leave it:
// each side answers, names the file, writes nowhere else, and no number of it gets into the time of a campaign.
#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "base/error.h"
#include "base/files.h"
#include "execute/scripted.h"
#include "execute/unit_queue.h"
#include "fuzz/structure.h"
#include "record/json.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::uint64_t kSeeds = 400;
constexpr const char* kVersion = "1.2.3";

// Cut short, bytes flipped or doubled, or its JSON with other values; the same seed gives the same text.
std::string changed(const std::string& text, std::uint64_t seed) {
  static const std::vector<std::string> kWords = {
      "\"nan\"",       "\"-inf\"", "1e999", "9223372036854775808", "null", "\"../../escaped\"", "\"/escaped\"",
      "\"a\\u0000b\"", "[",        "\xff"};
  if (seed % 3 == 0) return fuzz::change_json_lines(text, seed);
  std::mt19937_64 random(seed);
  if (seed % 3 == 1) {  // a value
    std::vector<std::size_t> colons;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == ':') colons.push_back(i + 1);
    }
    const std::size_t at = colons[random() % colons.size()];
    const std::size_t end = std::min(text.find_first_of(",}]", at), text.size());
    return text.substr(0, at) + kWords[random() % kWords.size()] + text.substr(end);
  }
  std::string bytes = text.substr(0, random() % 2 == 0 ? text.size() : random() % text.size());
  for (std::uint64_t flips = random() % 4; flips > 0 && !bytes.empty(); --flips)
    bytes[random() % bytes.size()] ^= static_cast<char>(1u << (random() % 8));
  return bytes;
}

// A scheduler that takes everything and has nothing.
class Silent final : public Cluster {
 public:
  [[nodiscard]] std::string name() const override { return "silent"; }
  Status submit(const ClusterBatch&) override { return ok_status(); }
  Result<std::vector<ClusterJob>> jobs(const std::string&) override { return std::vector<ClusterJob>(); }
  Status cancel(const std::vector<std::string>&) override { return ok_status(); }
  JobFate fate(const std::string&) override { return {}; }
};

class UnitFuzz : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(directory_.ok());
    request_.task = record::WorkerTask::kEvaluate;
    key_ = unit_key(request_, "scope");
    worker_.on(record::WorkerTask::kEvaluate, record::WorkerResponse{});
  }
  [[nodiscard]] fs::path root() const { return directory_->path() / "inside" / "root"; }
  // Nothing lies beside the folder.
  void expect_nothing_outside(std::uint64_t seed) const {
    for (const fs::path& folder : {directory_->path(), directory_->path() / "inside"}) {
      for (const auto& entry : fs::directory_iterator(folder)) {
        const std::string name = entry.path().filename().string();
        EXPECT_TRUE(name == "inside" || name == "root") << entry.path() << ", seed " << seed;
      }
    }
    EXPECT_FALSE(fs::exists("/escaped"));
  }
  QueueOptions options() {
    QueueOptions options;
    options.root = root();
    options.version = kVersion;
    options.one_device = true;
    options.wait_for_quiet = 30;
    options.on_note = [this](std::string_view text) { notes_ += std::string(text) + "\n"; };
    return options;
  }
  void anew() {
    std::error_code ignored;
    fs::remove_all(root(), ignored);
    notes_.clear();
  }
  // What a node is given, one file of it changed.
  void hand_over(const std::string& which, std::uint64_t seed) {
    anew();
    const UnitFolder folder(root());
    const Result<std::string> nonce = folder.open();
    ASSERT_TRUE(nonce.ok());
    const std::string order = record::to_line(record::UnitOrder{1, key_, kVersion, "a test", 0, request_});
    const std::string batch = record::to_line(record::UnitBatch{1, *nonce, {{key_, 1}}, shared_ ? 1 : 0, 0, 0});
    const auto put = [&](const fs::path& path, const std::string& name, const std::string& text) {
      ASSERT_TRUE(write_file_durably(path, name == which ? changed(text, seed) : text).ok());
    };
    ASSERT_TRUE(!shared_ || make_directories(folder.taken("b-1")).ok());
    put(folder.order(key_), "unit.json", order);
    put(folder.batch("b-1") / "batch.json", "batch.json", batch);
  }
  Status run_there() {
    const UnitHost host{
        kVersion, root() / "cache", {"n", "host", "processor", ""}, clock_, [&](const record::UnitOrder&) {
          return std::make_unique<Lent>(worker_);
        }};
    return run_job(root(), "b-1", 0, host);
  }
  class Lent final : public Executor {
   public:
    explicit Lent(Executor& to) : to_(to) {}
    Result<record::WorkerResponse> run(const record::WorkerRequest& request, const OnProgress& progress,
                                       const ShouldStop& stop) override {
      return to_.run(request, progress, stop);
    }

   private:
    Executor& to_;
  };
  // The queue, with the unit in it; null: it says that a file of the folder cannot be read.
  std::unique_ptr<UnitQueue> open_with_unit(const char* file, std::uint64_t seed) {
    auto queue = UnitQueue::open(std::make_unique<Silent>(), clock_, options());
    if (!queue) {
      EXPECT_THAT(queue.error().text(), HasSubstr(file)) << "seed " << seed;
      return nullptr;
    }
    const Result<std::string> key = (*queue)->add(request_, "scope");
    EXPECT_TRUE(key.ok() && *key == key_) << "seed " << seed;
    return std::move(*queue);
  }
  record::UnitResult result() const { return {1, 1, {"n", "host", "processor", ""}, 5, 2, 0, {}}; }

  // In memory where that exists: thousands of files are written durably.
  static Result<TempDir> fast_directory() {
    if (fs::is_directory("/dev/shm")) ::setenv("TMPDIR", "/dev/shm", 0);
    return TempDir::create("ridge-fuzz");
  }

  Result<TempDir> directory_ = fast_directory();
  VirtualClock clock_{1'767'225'600, 0.001};
  ScriptedExecutor worker_;
  record::WorkerRequest request_;
  std::string key_, notes_;
  bool shared_ = false;  // whether the jobs of what is handed over share its units
};

TEST_F(UnitFuzz, ANodeAnswersWhateverItIsGivenAndNamesTheFile) {
  for (const auto& [file, shared] : {std::pair("batch.json", false), {"unit.json", false}, {"batch.json", true}}) {
    shared_ = shared;
    int refused = 0;
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      hand_over(file, seed);
      const Status done = run_there();
      expect_nothing_outside(seed);
      if (done) continue;
      ++refused;
      const bool names = done.error().text().find(file) != std::string::npos ||
                         done.error().text().find(root().string()) != std::string::npos ||
                         done.error().text().find("b-1 has ") == 0;
      EXPECT_TRUE(names) << done.error().text() << ", seed " << seed;
    }
    EXPECT_GT(refused, static_cast<int>(kSeeds) / 3) << file;
  }
}

TEST_F(UnitFuzz, ABatchDoesNotNameAFolderOutside) {
  hand_over("", 0);
  const UnitFolder folder(root());
  auto batch = *record::parse_record<record::UnitBatch>(*read_file(folder.batch("b-1") / "batch.json"));
  for (const char* name : {"../../../escaped", "/escaped", "", "a/b", "."}) {
    batch.units.at(0).key = name;
    ASSERT_TRUE(write_file_durably(folder.batch("b-1") / "batch.json", record::to_line(batch)).ok());
    const Status done = run_there();
    ASSERT_FALSE(done) << name;
    EXPECT_THAT(done.error().text(), HasSubstr("batch.json: \"" + std::string(name) + "\" is no name of a unit"));
  }
  batch.units.at(0) = {std::string(64, 'a'), 1};  // a folder with the order of another one
  ASSERT_TRUE(write_file_durably(folder.batch("b-1") / "batch.json", record::to_line(batch)).ok());
  ASSERT_TRUE(write_file_durably(folder.order(batch.units.at(0).key), *read_file(folder.order(key_))).ok());
  EXPECT_THAT(run_there().error().text(), HasSubstr("unit.json is of another unit"));
}

TEST_F(UnitFuzz, AResultIsOneOrIsNamedAndTriedAgain) {
  int taken = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    anew();
    const std::unique_ptr<UnitQueue> queue = open_with_unit("", seed);
    ASSERT_TRUE(queue && queue->step().ok());
    const UnitFolder folder(root());
    ASSERT_TRUE(write_file_durably(folder.result(key_), changed(record::to_line(result()), seed)).ok());
    ASSERT_TRUE(write_file_durably(folder.done() / key_, "").ok());
    ASSERT_TRUE(queue->step().ok()) << "seed " << seed;
    const std::optional<UnitOutcome> outcome = queue->take(key_);
    if (outcome && outcome->result) {
      ++taken;
      for (const double seconds : {outcome->result->took, outcome->result->waited})
        EXPECT_TRUE(std::isfinite(seconds) && seconds >= 0) << "seed " << seed;
    } else {
      EXPECT_FALSE(outcome) << "it is tried again, seed " << seed;
      EXPECT_THAT(notes_, HasSubstr("result.json")) << "seed " << seed;
      EXPECT_EQ(queue->in_flight() + queue->waiting(), 1u) << "seed " << seed;
    }
    expect_nothing_outside(seed);
  }
  EXPECT_GT(taken, 10);
  EXPECT_LT(taken, static_cast<int>(kSeeds) / 2);
}

// Readable records with what no clock gives.
TEST_F(UnitFuzz, TimesThatAreNoneAreRefused) {
  const double nan = std::nan(""), far = std::numeric_limits<double>::infinity();
  std::vector<record::UnitResult> results(6, result());
  results[0].took = nan;
  results[1].waited = -1e308;
  results[2].took = far;
  results[3].clock_offset = -far;
  results[4].attempt = std::numeric_limits<std::int64_t>::max();
  results[5].attempt = 0;
  for (const record::UnitResult& one : results) EXPECT_NE(objection_to(one), "") << record::to_line(one);
  EXPECT_EQ(objection_to(result()), "");
  record::UnitSubmission job{1, "ridge-1-2", 0, 1};
  EXPECT_EQ(objection_to(job), "");
  job.batch = "../x";
  EXPECT_THAT(objection_to(job), HasSubstr("\"../x\" is no name of a batch"));
  EXPECT_NE(objection_to(record::UnitSubmission{1, "b", -1, 1}), "");
  EXPECT_NE(objection_to(record::UnitSubmission{1, "b", 0, std::numeric_limits<std::int64_t>::min()}), "");
  EXPECT_NE(objection_to(record::UnitSubmission{std::numeric_limits<std::int64_t>::max(), "b", 0, 1}), "");
}

TEST_F(UnitFuzz, AJobThatAnEarlierProcessLeftIsTakenOverOrHandedOverAgain) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    anew();
    const UnitFolder folder(root());
    ASSERT_TRUE(open_with_unit("", seed));  // writes the order
    const record::UnitSubmission job{2, "ridge-0-1", 0, 1'767'225'000};
    ASSERT_TRUE(write_file_durably(folder.job(key_), changed(record::to_line(job), seed)).ok());
    const std::unique_ptr<UnitQueue> queue = open_with_unit("", seed);
    ASSERT_TRUE(queue && queue->step().ok()) << "seed " << seed;
    EXPECT_EQ(queue->in_flight(), 1u) << "seed " << seed;
    const auto now = record::parse_record<record::UnitSubmission>(*read_file(folder.job(key_)), "job");
    ASSERT_TRUE(now) << "seed " << seed;
    EXPECT_EQ(objection_to(*now), "") << "seed " << seed;
    expect_nothing_outside(seed);
  }
}

// What a job of a shared batch noted about its units, and the batch itself, as an engine finds them that takes over.
TEST_F(UnitFuzz, NotesOfASharedBatchAreReadOrTheUnitIsHandedOverAgain) {
  request_.task = record::WorkerTask::kBuild;
  key_ = unit_key(request_, "scope");
  const std::string notes = record::to_line(record::UnitTaker{0});
  for (const char* file : {"batch.json", "taken/0"}) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      anew();
      const UnitFolder folder(root());
      ASSERT_TRUE(open_with_unit("", seed));  // writes the order
      const std::string nonce = *read_file(folder.nonce());
      const record::UnitBatch batch{1, nonce, {{key_, 1}, {std::string(64, 'a'), 1}}, 2, 0, 600};
      const auto put = [&](const char* name, const std::string& text) {
        const std::string content = std::string(name) == file ? changed(text, seed) : text;
        ASSERT_TRUE(write_file_durably(folder.batch("ridge-0-1") / name, content).ok());
      };
      put("batch.json", record::to_line(batch));
      put("taken/0", notes);
      const record::UnitSubmission job{1, "ridge-0-1", 0, 1'767'225'000};
      ASSERT_TRUE(write_file_durably(folder.job(key_), record::to_line(job)).ok());
      const std::unique_ptr<UnitQueue> queue = open_with_unit("", seed);
      ASSERT_TRUE(queue) << "seed " << seed;
      for (int i = 0; i < 40; ++i) {
        ASSERT_TRUE(queue->step().ok()) << file << ", seed " << seed;
        clock_.advance(1);
      }
      const auto now = record::parse_record<record::UnitSubmission>(*read_file(folder.job(key_)), "job");
      ASSERT_TRUE(now) << "seed " << seed;
      EXPECT_GE(now->attempt, 2) << file << ", seed " << seed;
      EXPECT_EQ(queue->in_flight() + queue->waiting(), 1u) << file << ", seed " << seed;
      expect_nothing_outside(seed);
    }
  }
}

TEST_F(UnitFuzz, TheDeviceOfACampaignIsReadOrNamed) {
  const std::string place = record::to_line(record::UnitPlace{"n", "host", "processor", "550.54"});
  int named = 0;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    anew();
    ASSERT_TRUE(write_file_durably(root() / "device.json", changed(place, seed)).ok());
    const std::unique_ptr<UnitQueue> queue = open_with_unit("device.json", seed);
    if (!queue)
      ++named;
    else
      EXPECT_TRUE(queue->device()) << "a campaign may not forget its device, seed " << seed;
  }
  EXPECT_GT(named, static_cast<int>(kSeeds) / 10);
}

}  // namespace
}  // namespace ridge::execute
