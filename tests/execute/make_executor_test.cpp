#include "execute/make_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <tuple>

#include "base/files.h"
#include "execute/slurm.h"
#include "execute/ssh.h"
#include "execute/unit.h"
#include "record/json.h"

namespace ridge::execute {
namespace {

using ::testing::HasSubstr;

TEST(MakeExecutor, TakesWhatItKnows) {
  for (const char* spec :
       {"local", "local:0", "local:0,1,GPU-ab12", "slurm", "slurm:gres=gpu:1,jobs=8",
        "slurm:partition=gpu,gres=gpu:h100:1,time=30,exclusive", "slurm:jobs=2,pack=1", "slurm:pack=1000,time=2:00",
        "slurm:constraint=a\\,b", "ssh:gpu1", "ssh:gpu1,me@gpu2,folder=/scratch/r,slots=4", "scripted:answers.jsonl"}) {
    const Status known = check_executor(spec);
    EXPECT_TRUE(known.ok()) << spec << ": " << known.error().text();
  }
}

TEST(MakeExecutor, NamesWhatItDoesNotKnowAndTheWayOut) {
  const auto says = [](const char* spec) {
    const Status known = check_executor(spec);
    return known ? std::string("it was taken") : known.error().text();
  };
  EXPECT_THAT(says("pbs:main"),
              HasSubstr("\"pbs:main\" is no place to run (possible: local, local:GPU[,GPU...], slurm"));
  EXPECT_THAT(says("slurm:partitoin=gpu"), HasSubstr("slurm has no option \"partitoin\""));
  EXPECT_THAT(says("slurm:partitoin=gpu"), HasSubstr("partition, account"));
  EXPECT_THAT(says("slurm:gpu"), HasSubstr("no option \"gpu\""));
  EXPECT_THAT(says("slurm:time=1,time=2"), HasSubstr("states time twice"));
  EXPECT_THAT(says("slurm:=x"), HasSubstr("empty option"));
  EXPECT_THAT(says("ssh"), HasSubstr("names no machine"));
  EXPECT_THAT(says("ssh:a,slots=0"), HasSubstr("slots=0: 1 to 256"));
  EXPECT_THAT(says("ssh:a,slots=many"), HasSubstr("slots=many"));
  EXPECT_THAT(says("ssh:a,slots=257"), HasSubstr("slots=257: 1 to 256"));
  EXPECT_THAT(says("slurm:jobs=0"), HasSubstr("jobs=0: 1 to 1000"));
  EXPECT_THAT(says("slurm:jobs=2x"), HasSubstr("jobs=2x"));
  EXPECT_THAT(says("slurm:pack=0"), HasSubstr("pack=0: a job takes 1 to 1000 units"));
  EXPECT_THAT(says("slurm:pack=3x"), HasSubstr("pack=3x"));
  EXPECT_THAT(says("slurm:pack=1001"), HasSubstr("pack=1 gives every unit a job of its own"));
  EXPECT_THAT(says("ssh:a,pack=2"), HasSubstr("ssh has no option \"pack\""));
  EXPECT_THAT(says("local:x"), HasSubstr("local:x: \"x\" is no GPU (numbers, or identities"));
  EXPECT_THAT(says("local:0,1,0"), HasSubstr("local:0,1,0: \"0\" is named twice"));
  EXPECT_THAT(says("local:0,"), HasSubstr("empty option"));
  EXPECT_THAT(says("local:0;1"), HasSubstr("\"0;1\" is no GPU"));
  EXPECT_THAT(says("local:$(x)"), HasSubstr("is no GPU"));
  EXPECT_THAT(says("local:0,slots=2"), HasSubstr("local has no option \"slots\""));
  EXPECT_THAT(says("scripted"), HasSubstr("names no file"));
  EXPECT_THAT(says(""), HasSubstr("is no place to run"));
}

TEST(MakeExecutor, SaysHowManyRequestsAPlaceTakesAtOnce) {
  SystemClock clock;
  const auto width = [&](const char* spec) { return (*make_executor(spec, clock, {}))->width(); };
  EXPECT_EQ(width("local"), 1u);
  EXPECT_EQ(width("local:2"), 1u);
  EXPECT_EQ(width("local:0,1,3"), 3u);
  EXPECT_TRUE(is_local("") && is_local("local") && is_local("local:0,1"));
  EXPECT_FALSE(is_local("ssh:local") || is_local("localhost") || is_local("slurm"));
  EXPECT_TRUE(is_default("") && is_default("local"));
  EXPECT_FALSE(is_default("local:1"));
}

TEST(MakeExecutor, AnswersFromAScript) {
  const Result<TempDir> directory = TempDir::create("ridge-test");
  const std::filesystem::path script = directory->path() / "answers.jsonl";
  ASSERT_TRUE(write_file_durably(script,
                                 "{\"task\":\"describe\",\"response\":{\"version\":1,\"cpu_seconds\":1}}\n"
                                 "{\"task\":\"describe\",\"response\":{\"version\":1,\"cpu_seconds\":2}}\n")
                  .ok());
  SystemClock clock;
  const auto executor = make_executor("scripted:" + script.string(), clock, {});
  ASSERT_TRUE(executor.ok()) << executor.error().text();
  for (const double expected : {1.0, 2.0, 2.0}) EXPECT_EQ((*executor)->run({})->cpu_seconds, expected);
  EXPECT_FALSE(make_executor("scripted:/absent", clock, {}).ok());
}

// A PATH with nothing, or with one program written in shell, on it.
class OnPath : public ::testing::Test {
 protected:
  OnPath() : before_(std::getenv("PATH")) { ::setenv("PATH", directory_->path().c_str(), 1); }
  ~OnPath() override { ::setenv("PATH", before_.c_str(), 1); }
  void program(const std::string& name, const std::string& script) {
    const std::filesystem::path path = directory_->path() / name;
    ASSERT_TRUE(write_file_durably(path, "#!/bin/sh\n" + script + "\n").ok());
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  Result<TempDir> directory_ = TempDir::create("ridge-test");
  std::string before_;
};

TEST_F(OnPath, NoSlurmIsSaid) {
  const auto slurm = make_slurm({});
  ASSERT_FALSE(slurm.ok());
  EXPECT_EQ(slurm.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(slurm.error().text(), HasSubstr("no sbatch on the path"));
  EXPECT_THAT(make_ssh({.hosts = {"a"}}, "x").error().text(), HasSubstr("no ssh on the path"));
}

TEST_F(OnPath, AClusterTakesAsManyAtOnceAsItHasPlacesFor) {
  for (const char* name : {"ssh", "sbatch", "squeue", "scancel", "scontrol"}) program(name, "exit 0");
  SystemClock clock;
  ExecutorSetting setting;
  setting.cache_directory = directory_->path();
  const auto width = [&](const char* spec) { return (*make_executor(spec, clock, setting))->width(); };
  EXPECT_EQ(width("ssh:a,b,slots=3"), 6u);
  EXPECT_EQ(width("slurm:jobs=8"), 8u);
  EXPECT_EQ(width("slurm"), 1u);
  EXPECT_EQ((*make_slurm({.jobs = 8}))->capacity(), 8u);
}

TEST_F(OnPath, WhatSbatchRefusesHasAWayOut) {
  for (const char* name : {"squeue", "scancel", "scontrol"}) program(name, "exit 0");
  const auto says = [&](const std::string& text) {
    program("sbatch", "echo 'sbatch: error: " + text + "' >&2; exit 1");
    ClusterBatch batch;
    batch.root = directory_->path();
    batch.name = "ridge-x-1";
    batch.keys = {"k"};
    batch.jobs = 1;
    return (*make_slurm({}))->submit(batch).error();
  };
  const Error partition = says("invalid partition specified: gpuu");
  EXPECT_EQ(partition.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(partition.text(), HasSubstr("gpuu"));
  EXPECT_THAT(partition.hint, HasSubstr("sinfo"));
  const Error account = says("Batch job submission failed: Invalid account or account/partition combination specified");
  EXPECT_THAT(account.hint, HasSubstr("slurm:account=NAME"));
  EXPECT_EQ(says("Unable to contact slurm controller (connect failure)").code, ErrorCode::kTimeout);
  EXPECT_EQ(says("Batch job submission failed: Socket timed out on send/recv operation").code, ErrorCode::kTimeout);
}

// Five builds at a place, until they are handed over: what sbatch was told, and the batch.
TEST_F(OnPath, UnitsOfAPlaceShareJobsAsItSays) {
  program("sbatch", "echo \"$*\" > " + (directory_->path() / "told").string());
  for (const char* name : {"squeue", "scancel", "scontrol"}) program(name, "exit 0");
  SystemClock clock;
  int calls = 0;
  const auto handed_over = [&](const std::string& place, record::WorkerTask task) {
    ExecutorSetting setting;
    setting.cache_directory = directory_->path() / std::to_string(++calls);
    setting.scope = [] { return std::string("scope"); };
    const auto executor = make_executor(place, clock, setting);
    std::vector<record::WorkerRequest> requests(5);
    for (record::WorkerRequest& one : requests) one.task = task;
    static_cast<void>((*executor)->run_all(requests, {}, [] { return true; }));
    const auto& batches = std::filesystem::directory_iterator(setting.cache_directory / "units/commands/batches");
    return *record::parse_record<record::UnitBatch>(*read_file(batches->path() / "batch.json"));
  };
  const auto told = [&] { return *read_file(directory_->path() / "told"); };
  const auto automatic = handed_over("slurm:jobs=3", record::WorkerTask::kBuild);
  EXPECT_EQ(std::tuple(automatic.units.size(), automatic.jobs, automatic.most, automatic.stay),
            (std::tuple(5u, 3, 0, 600.0)));
  EXPECT_THAT(told(), HasSubstr("--array=0-2 "));
  const auto packs = handed_over("slurm:jobs=3,pack=2,time=4", record::WorkerTask::kBuild);
  EXPECT_EQ(std::tuple(packs.units.size(), packs.jobs, packs.most, packs.stay), (std::tuple(5u, 3, 2, 120.0)));
  EXPECT_THAT(told(), HasSubstr("--array=0-2 "));
  const auto few = handed_over("slurm:jobs=2,pack=2", record::WorkerTask::kBuild);
  EXPECT_EQ(std::tuple(few.units.size(), few.jobs, few.most), (std::tuple(4u, 2, 2)));
  for (const auto& [place, task] : {std::pair("slurm:jobs=3,pack=1", record::WorkerTask::kBuild),
                                    {"slurm:jobs=3", record::WorkerTask::kEvaluate}}) {
    const auto alone = handed_over(place, task);
    EXPECT_EQ(std::tuple(alone.units.size(), alone.jobs), (std::tuple(3u, 0))) << place;
    EXPECT_THAT(told(), HasSubstr("--array=0-2 "));
  }
}

TEST(Slurm, ReadsSqueue) {
  const auto jobs = parse_squeue(
      "12_0|ridge-ab-1|RUNNING|n1|None\n12_7|ridge-ab-1|PENDING||Resources\n13_0|other|RUNNING|n2|None\n"
      "14|ridge-ab-2|RUNNING|n2|None\n15_0|ridge-ab-3|PENDING||PartitionTimeLimit\n16_0|ridge-ab-4|COMPLETING|n1|None\n"
      "garbage\n",
      "ridge-ab-");
  ASSERT_EQ(jobs.size(), 4u);
  EXPECT_EQ(jobs[0].id, "12_0");
  EXPECT_EQ(jobs[0].state, JobState::kRunning);
  EXPECT_EQ(jobs[0].node, "n1");
  EXPECT_EQ(jobs[1].index, 7u);
  EXPECT_EQ(jobs[1].reason, "Resources");
  EXPECT_FALSE(jobs[1].hopeless);
  EXPECT_TRUE(jobs[2].hopeless);
  EXPECT_EQ(jobs[3].state, JobState::kRunning);
}

TEST(Slurm, ReadsWhyAJobEnded) {
  const auto fate = [](const std::string& state, const std::string& code) {
    return parse_fate("JobId=9 JobName=ridge-ab-1 JobState=" + state + " Reason=None ExitCode=" + code +
                      " NodeList=n7 BatchHost=n7\n");
  };
  EXPECT_THAT(fate("NODE_FAIL", "0:0").text, HasSubstr("NODE_FAIL"));
  EXPECT_FALSE(fate("NODE_FAIL", "0:0").for_good);
  EXPECT_TRUE(fate("TIMEOUT", "0:15").for_good);
  EXPECT_THAT(fate("TIMEOUT", "0:15").hint, HasSubstr("slurm:time=MINUTES"));
  EXPECT_THAT(fate("FAILED", "127:0").hint, HasSubstr("ridge is not there on n7"));
  EXPECT_THAT(fate("FAILED", "3:0").hint, HasSubstr("not shared with n7"));
  EXPECT_THAT(fate("FAILED", "5:0").hint, HasSubstr("disk full"));
}

TEST(Ssh, RefusesNamesThatAreOptions) {
  EXPECT_FALSE(make_ssh({.hosts = {"-oProxyCommand=touch /tmp/x"}}, "x").ok());
  EXPECT_FALSE(make_ssh({.hosts = {"a b"}}, "x").ok());
}

}  // namespace
}  // namespace ridge::execute
