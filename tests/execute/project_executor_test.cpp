// The shipped Python project, honest and bent in many ways.
#include "execute/project_executor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>

#include "base/files.h"
#include "execute/project_device.h"
#include "places.h"
#include "record/launches.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using record::Outcome;

class ProjectExecutorTest : public testing::Test {
 protected:
  void SetUp() override { fs::copy(source_dir() / "examples/project_python", root(), fs::copy_options::recursive); }
  [[nodiscard]] fs::path root() const { return directory_.path() / "project"; }

  void replace_in(const std::string& file, const std::string& from, const std::string& to) {
    std::string text = *read_file(root() / file);
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << file << " holds no " << from;
    std::ofstream(root() / file) << text.replace(at, from.size(), to);
  }
  [[nodiscard]] project::Project project() const { return project::read_project(root()).value(); }
  [[nodiscard]] record::Candidate kernel() const { return project::baseline_of(project()).value(); }

  // The answer to one request about `candidate` against the kernel as it is.
  Result<record::WorkerResponse> ask(record::WorkerTask task, const record::Candidate& candidate,
                                     std::int64_t sessions = 1) {
    const auto executor = make_project_executor(project(), {directory_.path() / "work", nullptr});
    record::WorkerRequest request;
    request.task = task;
    request.incumbent = kernel();
    request.candidates = {candidate};
    request.sessions = sessions;
    request.quick_look = true;
    for (const std::string& label : project().shapes) request.cases.push_back(*project::case_of("matmul", label));
    return executor->run(request);
  }
  [[nodiscard]] record::Candidate changed(const std::string& from, const std::string& to) const {
    record::Candidate candidate = kernel();
    std::string& text = candidate.sources[0].text;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return candidate;
  }
  // SLOW = 2 does the work twenty times, SLOW = 3 is wrong.
  void declare_tunable() {
    const std::string text = *read_file(root() / "kernel.py");
    const std::string block =
        "\"\"\"\n/* ridge-tunables\n[[tunable]]\nname = \"SLOW\"\nvalues = [1, 2, 3]\ndefault = 1\n"
        "title = \"how slow\"\n[[constraint]]\nexpression = \"SLOW < 4\"\nreason = \"enough\"\n*/\n\"\"\"\nSLOW = "
        "1\n\n";
    const std::string wrapper =
        "\n\nonce = matmul\n\n\ndef matmul(a, b):\n    for _ in range(20 if SLOW == 2 else 1):\n        c = once(a, "
        "b)\n"
        "    return [[0.0] * len(row) for row in c] if SLOW == 3 else c\n";
    std::ofstream(root() / "kernel.py") << block << text << wrapper;
  }
  std::string failing_check() {
    const auto checks = check_handoff(project(), directory_.path() / "handoff" / "a");
    return checks.back().works ? std::string("everything works") : checks.back().what + ": " + checks.back().detail;
  }

  TempDir directory_ = TempDir::create("ridge-project").value();
};

TEST_F(ProjectExecutorTest, EverythingOfAnHonestProjectWorks) {
  EXPECT_EQ(failing_check(), "everything works");
  EXPECT_EQ(check_handoff(project(), directory_.path() / "handoff" / "a").size(), 11u);
}

// Candidates are built in a part of the project; the test of the whole one has a file that the part lacks.
TEST_F(ProjectExecutorTest, ACandidateOfAPartMustPassInTheWholeProject) {
  replace_in("ridge-project.toml", "kernel = [\"kernel.py\"]",
             "extract = [\"quick_test_bench.py\", \"test_kernel.py\", \"reference.py\", \"train.py\"]\n"
             "kernel = [\"kernel.py\"]");
  std::ofstream(root() / "user.py") << "import kernel\n\nkernel.matmul([[1.0]], [[1.0]]).index([1.0])\n";
  replace_in("test_kernel.py", "import ", "import os\nif os.path.exists('user.py'):\n    import user\nimport ");
  ProjectOptions options{directory_.path() / "work", nullptr};
  options.whole = project();
  const auto executor = make_project_executor(project::extracted_part(project()), options);
  record::WorkerRequest request;
  request.task = record::WorkerTask::kEvaluate;
  request.incumbent = kernel();
  request.sessions = 1;
  request.quick_look = true;
  request.cases = {*project::case_of("matmul", "small")};
  for (const bool breaks : {false, true}) {
    record::Candidate candidate = kernel();
    candidate.sources[0].text +=
        breaks ? "\n\nlists = matmul\n\n\ndef matmul(a, b):\n    return tuple(map(tuple, lists(a, b)))\n"
               : "\n# the same\n";
    request.candidates = {candidate};
    const auto answer = executor->run(request);
    ASSERT_TRUE(answer) << answer.error().text();
    const record::Evaluation& evaluation = *answer->evaluation;
    EXPECT_EQ(evaluation.outcome, breaks ? Outcome::kWrong : Outcome::kPass) << evaluation.detail;
    EXPECT_EQ(evaluation.build.counts.contains(kPassedWhole), !breaks);
    EXPECT_EQ(evaluation.detail.starts_with("in the whole project: "), breaks) << evaluation.detail;
    EXPECT_GT(evaluation.seconds.at("check"), 0.0);
    EXPECT_EQ(evaluation.seconds.contains("measure"), !breaks) << "what later sessions are fitted by";
  }
  EXPECT_FALSE(fs::exists(directory_.path() / "work/b/user.py"));
  EXPECT_TRUE(fs::exists(directory_.path() / "work/whole/user.py"));
}

TEST_F(ProjectExecutorTest, HandoffFindsWhatDoesNotReallyWork) {
  const struct {
    const char *file, *from, *to, *says;
  } rows[] = {
      {"test_kernel.py", "failed + (not good)", "failed + 1", "focused test passes"},
      {"test_kernel.py", "print(f\"passed", "print(f\"done", "no summary"},
      {"quick_test_bench.py", "\"label\", \"B\"", "\"name\", \"B\"", "frozen"},
      {"quick_test_bench.py", "table.writerow(", "label != 'large' and table.writerow(", "left out \"large\""},
      {"quick_test_bench.py", "\"PASS\" if snr > 80 else \"FAIL\"", "\"ok\"", "not PASS"},
      {"quick_test_bench.py", "return 0 if good else 1", "return 1", "every row passes"},
      {"quick_test_bench.py", "parser.add_argument(\"--fresh\", action=\"store_true\")",
       "parser.set_defaults(fresh=False)", "fresh mode"},
      {"train.py", "\"weight_ms\"", "\"w\"", "training trace"},
      {"ridge-project.toml", "peak = 0.01 ", "peak = 0.0000001 ", "above benchmark.peak"},
      {"ridge-project.toml", "\"quick_test_bench.py\", \"--summary-csv\"", "\"missing.py\", \"--summary-csv\"",
       "wrote no table"},
      {"ridge-project.toml", "kernel = [\"kernel.py\"]", "kernel = [\"kernels.py\"]", "kernel files"},
  };
  for (const auto& row : rows) {
    fs::remove_all(root());
    fs::remove_all(directory_.path() / "handoff");
    SetUp();
    replace_in(row.file, row.from, row.to);
    EXPECT_NE(failing_check().find(row.says), std::string::npos) << row.says << " | " << failing_check();
  }
}

TEST_F(ProjectExecutorTest, MeasuresInAlternatingProcessesAndTouchesOnlyItsCopies) {
  const record::Candidate faster = changed("c[i][j] = c[i][j] + a[i][k] * b[k][j]", "c[i][j] += a[i][k] * b[k][j]");
  const auto response = ask(record::WorkerTask::kEvaluate, faster, 2);
  ASSERT_TRUE(response) << response.error().text();
  const record::Evaluation& e = *response->evaluation;
  EXPECT_EQ(e.outcome, Outcome::kPass) << e.detail;
  EXPECT_EQ(e.timing, kProjectTiming);
  EXPECT_EQ(e.candidate, faster.id());
  ASSERT_EQ(e.sessions.size(), 2u);
  ASSERT_EQ(e.sessions[0].shapes.size(), 3u);
  EXPECT_EQ(e.sessions[0].shapes[0].label, "label=small");
  EXPECT_EQ(e.sessions[0].shapes[0].quads[0].order, "ABBA");
  EXPECT_EQ(e.sessions[1].shapes[0].quads[0].order, "BAAB");
  EXPECT_EQ(e.sessions[1].shapes[2].quads[0].blocks.size(), 4u);
  ASSERT_EQ(e.checks.size(), 3u);
  EXPECT_EQ(e.checks[0].verified_calls, 4);
  EXPECT_LT(e.checks[0].max_error_ratio, 1);
  ASSERT_EQ(e.roofline.size(), 3u);
  EXPECT_GT(e.roofline[0].bound_time, 0);
  EXPECT_EQ(e.acceptance_exit_code, 0);
  EXPECT_EQ(kernel().sources[0].text, *read_file(source_dir() / "examples/project_python/kernel.py"));
}

// What commands.profile writes comes back as it is; what it must not do, and a time that it has, hold as for any
// command.
TEST_F(ProjectExecutorTest, TheProjectsOwnProfilerRunsInItsCopyAndInItsTime) {
  const Result<record::WorkerResponse> without = ask(record::WorkerTask::kProfile, kernel());
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().text().find("commands.profile"), std::string::npos) << without.error().text();

  replace_in("ridge-project.toml", "acceptance = [",
             "profile = [\"python3\", \"-B\", \"profile.py\", \"{csv}\", \"{shapes}\"]\nacceptance = [");
  const auto with = [&](const std::string& script, double limit = 60) {
    std::ofstream(root() / "profile.py") << "import sys, time\nout, shapes = sys.argv[1:]\n" << script;
    record::WorkerRequest request;
    request.task = record::WorkerTask::kProfile;
    request.candidates = {kernel()};
    request.cases = {*project::case_of("matmul", "small"), *project::case_of("matmul", "large")};
    request.time_limit = limit;
    return make_project_executor(project(), {directory_.path() / "work", nullptr})->run(request);
  };
  const auto good = with("open(out, 'w').write('7,msec,task-clock,' + shapes)\n");
  ASSERT_TRUE(good) << good.error().text();
  EXPECT_EQ(good->profiler_report, "7,msec,task-clock,small,large");
  const std::pair<const char*, const char*> bad[] = {
      {"sys.exit('no counters here')\n", "no counters here"},
      {"pass\n", "wrote no report"},
      {"open('kernel.py', 'a').write('\\n')\nopen(out, 'w').write('x')\n", "kernel.py"},
  };
  for (const auto& [script, says] : bad) {
    const auto refused = with(script);
    ASSERT_FALSE(refused) << script;
    EXPECT_NE(refused.error().text().find(says), std::string::npos) << refused.error().text();
  }
  // The build is not part of the time that a look has: here it takes longer, and the profiler is reached.
  replace_in("ridge-project.toml", "profile = [", "build = [\"sleep\", \"3\"]\nprofile = [");
  const auto late = with("time.sleep(60)\n", 2);
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().text().find("stopped after"), std::string::npos) << late.error().text();
  EXPECT_NE(late.error().text().find("profile.py"), std::string::npos) << late.error().text();
}

// The whole training lane on the shipped project: honest, a weight cache as it should be, and three that are not.
TEST_F(ProjectExecutorTest, EightTrainingStepsShowWhatIsRemembered) {
  const std::string head =
      "hits = {'weight': 0, 'tensor': 0}\nseen = {}\n\n\ndef product(a, columns):\n"
      "    return [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in a]\n\n\n"
      "def matmul(a, b):\n    version = getattr(b, 'version', None)\n";
  const auto weight_cache = [&](const std::string& key) {
    return head + "    if version is None:\n        return product(a, list(zip(*b)))\n    key = " + key +
           "\n    if key in seen:\n        hits['weight'] += 1\n    else:\n        seen.clear()\n"
           "        seen[key] = list(zip(*b))\n    return product(a, seen[key])\n";
  };
  const std::string of_tensors = head +
                                 "    if version is None:\n        return product(a, list(zip(*b)))\n"
                                 "    key = (id(a), id(b), version)\n    if key not in seen:\n"
                                 "        seen.clear()\n        seen[key] = product(a, list(zip(*b)))\n"
                                 "    return [list(row) for row in seen[key]]\n";
  const struct {
    const char* what;
    std::string text;
    bool hits_weight, hits_tensors, wrong;
  } rows[] = {{"honest", head + "    return product(a, list(zip(*b)))\n", false, false, false},
              {"weight", weight_cache("(id(b), version)"), true, false, false},
              {"without the version", weight_cache("id(b)"), true, true, true},
              {"tensors", of_tensors, false, true, false}};
  for (const auto& row : rows) {
    record::Candidate candidate = kernel();
    candidate.sources[0].text = row.text;
    const auto executor = make_project_executor(project(), {directory_.path() / "work", nullptr});
    record::WorkerRequest request;
    request.task = record::WorkerTask::kEvaluate;
    request.incumbent = kernel();
    request.candidates = {candidate};
    request.sessions = 1;
    request.cases.push_back(*project::case_of("matmul", "small"));
    const auto response = executor->run(request);
    ASSERT_TRUE(response) << row.what << ": " << response.error().text();
    ASSERT_EQ(response->evaluation->outcome, Outcome::kPass) << row.what << ": " << response->evaluation->detail;
    const auto &before = response->evaluation->incumbent_training, &now = response->evaluation->training;
    ASSERT_TRUE(before && now) << row.what;
    EXPECT_EQ(before->failed + before->weight_hits + before->tensor_hits, 0) << row.what;
    EXPECT_GT(before->weight, 0);
    EXPECT_LT(before->weight, before->step);
    EXPECT_EQ(now->least_weight_hits > 0, row.hits_weight) << row.what;
    EXPECT_EQ(now->tensor_hits > 0, row.hits_tensors) << row.what;
    EXPECT_EQ(now->failed > 0, row.wrong) << row.what;
  }
}

TEST_F(ProjectExecutorTest, AWrongKernelFailsItsTestAndIsNotTimed) {
  const auto response = ask(record::WorkerTask::kEvaluate, changed("a[i][k] * b[k][j]", "a[i][k]"));
  ASSERT_TRUE(response) << response.error().text();
  EXPECT_EQ(response->evaluation->outcome, Outcome::kWrong);
  EXPECT_TRUE(response->evaluation->sessions.empty());
}

TEST_F(ProjectExecutorTest, OneThatIsWrongOnlyOnceItWasTestedFailsInItsTable) {
  record::Candidate sly = changed("def matmul(a, b):\n",
                                  "import sys\n\n\ndef matmul(a, b):\n    if 'test' not in "
                                  "sys.argv[0].split('_')[0]:\n        return [[0.0] * len(b[0]) for _ in a]\n");
  const auto response = ask(record::WorkerTask::kEvaluate, sly);
  ASSERT_TRUE(response) << response.error().text();
  EXPECT_EQ(response->evaluation->outcome, Outcome::kWrong) << response->evaluation->detail;
  EXPECT_TRUE(response->evaluation->sessions.empty());
  EXPECT_NE(response->evaluation->detail.find("FAIL"), std::string::npos);
}

// Sessions are run on fresh tensors; the rows of the processes that are compared with them count as well.
TEST_F(ProjectExecutorTest, OneThatIsWrongOnTensorsThatComeAgainFailsInItsTable) {
  const record::Candidate sly = changed("def matmul(a, b):\n",
                                        "import sys\n\n\ndef matmul(a, b):\n    if '--summary-csv' in sys.argv and "
                                        "'--fresh' not in sys.argv:\n        return [[0.0] * len(b[0]) for _ in a]\n");
  const auto executor = make_project_executor(project(), {directory_.path() / "work", nullptr});
  record::WorkerRequest request;
  request.task = record::WorkerTask::kEvaluate;
  request.incumbent = kernel();
  request.candidates = {sly};
  request.sessions = 1;
  request.cases.push_back(*project::case_of("matmul", "small"));
  const auto response = executor->run(request);
  ASSERT_TRUE(response) << response.error().text();
  EXPECT_EQ(response->evaluation->outcome, Outcome::kWrong) << response->evaluation->detail;
  EXPECT_EQ(response->evaluation->detail, "small: Check is FAIL");
  request.incumbent = sly;
  request.candidates = {kernel()};
  const auto fault = executor->run(request);
  ASSERT_FALSE(fault) << "the incumbent's own rows are no fault of the candidate";
  EXPECT_NE(fault.error().message.find("the incumbent fails small"), std::string::npos) << fault.error().text();
}

// Build, test and benchmark of a candidate that a user's stop ended once counted as failed.
TEST_F(ProjectExecutorTest, AStopSaysNothingOfTheCandidate) {
  replace_in("ridge-project.toml", "test = [", "build = [\"python3\", \"-B\", \"kernel.py\"]\ntest = [");
  for (const char* command : {"kernel.py", "test_kernel.py", "quick_test_bench.py"}) {
    const record::Candidate slow =
        changed("def matmul(a, b):\n", "import sys, time\nif sys.argv[0].endswith('" + std::string(command) +
                                           "'):\n    time.sleep(60)\n\n\ndef matmul(a, b):\n");
    record::WorkerRequest request;
    request.task = record::WorkerTask::kEvaluate;
    request.incumbent = kernel();
    request.candidates = {slow};
    request.sessions = 1;
    request.cases.push_back(*project::case_of("matmul", "small"));
    const auto began = std::chrono::steady_clock::now();
    const auto response =
        make_project_executor(project(), {directory_.path() / "work", nullptr})->run(request, {}, [&] {
          return std::chrono::steady_clock::now() - began > 4s;
        });
    ASSERT_FALSE(response) << command << ": " << response->evaluation->detail;
    EXPECT_NE(response.error().message.find("a stop was asked for"), std::string::npos) << response.error().text();
  }
}

TEST_F(ProjectExecutorTest, ATrainingThatFailsWithTheIncumbentTooIsAFaultOfTheHarness) {
  const fs::path gone = directory_.path() / "gone";
  std::string script = *read_file(root() / "train.py");
  script.insert(script.find("import "),
                "import os\nif os.path.exists('" + gone.string() + "'):\n    raise SystemExit('the device is gone')\n");
  std::ofstream(root() / "train.py") << script;
  record::WorkerRequest request;
  request.task = record::WorkerTask::kEvaluate;
  request.incumbent = kernel();
  request.sessions = 1;
  request.cases.push_back(*project::case_of("matmul", "small"));
  for (const bool device : {true, false}) {
    const std::string fails = device ? "raise SystemExit('only this kernel')" : "open('" + gone.string() + "', 'w')";
    request.candidates = {changed("def matmul(a, b):\n", "import sys\nif sys.argv[0].endswith('train.py'):\n    " +
                                                             fails + "\n\n\ndef matmul(a, b):\n")};
    if (!device) request.candidates[0].sources[0].text += "\nif sys.argv[0].endswith('train.py'):\n    sys.exit(3)\n";
    const auto response = make_project_executor(project(), {directory_.path() / "work", nullptr})->run(request);
    ASSERT_EQ(response.ok(), device);
    if (device) {
      EXPECT_EQ(response->evaluation->outcome, Outcome::kWrong);
      EXPECT_NE(response->evaluation->detail.find("only this kernel"), std::string::npos);
    } else {
      EXPECT_NE(response.error().message.find("and with the incumbent"), std::string::npos) << response.error().text();
    }
  }
}

TEST_F(ProjectExecutorTest, AFileThatMayNotChangeIsRefused) {
  record::Candidate candidate = kernel();
  candidate.sources.push_back({"quick_test_bench.py", "print('fast')"});
  const auto response = ask(record::WorkerTask::kEvaluate, candidate);
  ASSERT_FALSE(response);
  EXPECT_NE(response.error().message.find("may change"), std::string::npos);
}

TEST_F(ProjectExecutorTest, DirectoriesWithGitAndLinksThatLeadOutsideAreNotCopied) {
  fs::create_directories(root() / ".git");
  std::ofstream(root() / ".git" / "config") << "secret";
  fs::create_symlink("/etc/passwd", root() / "outside");
  fs::create_symlink("kernel.py", root() / "inside.py");
  std::ofstream(root() / "caf\xe9 | \n name.txt") << "not UTF-8";
  EXPECT_EQ(failing_check(), "everything works");
  const fs::path copy = directory_.path() / "handoff" / "a";
  EXPECT_FALSE(fs::exists(copy / ".git"));
  EXPECT_FALSE(fs::exists(fs::symlink_status(copy / "outside")));
  EXPECT_TRUE(fs::is_symlink(copy / "inside.py"));
  EXPECT_TRUE(fs::exists(copy / "caf\xe9 | \n name.txt"));
}

TEST_F(ProjectExecutorTest, ASweepIsScreenedWithItsValuesInTheSource) {
  declare_tunable();
  const std::string before = kernel().sources[0].text;
  std::vector<record::Candidate> sweep;
  for (const std::int64_t slow : {1, 2, 3}) {
    sweep.push_back(kernel());
    sweep.back().defines["SLOW"] = slow;
  }
  sweep.push_back(kernel());
  sweep.back().defines["MISSING"] = 1;
  const auto executor = make_project_executor(project(), {directory_.path() / "work", nullptr});
  record::WorkerRequest request;
  request.task = record::WorkerTask::kScreen;
  request.incumbent = kernel();
  request.candidates = sweep;
  request.cases.push_back(*project::case_of("matmul", "small"));
  const auto response = executor->run(request);
  ASSERT_TRUE(response) << response.error().text();
  ASSERT_EQ(response->screen.size(), 4u);
  EXPECT_EQ(response->screen[0].outcome, Outcome::kPass) << response->screen[0].detail;
  EXPECT_EQ(response->screen[0].latencies.size(), 1u);
  EXPECT_EQ(response->screen[2].defines.at("SLOW"), 3);
  EXPECT_EQ(response->screen[2].outcome, Outcome::kWrong);
  EXPECT_GT(response->screen[0].score, 2 * response->screen[1].score) << "SLOW=2 does the work 20 times";
  EXPECT_EQ(response->screen[3].outcome, Outcome::kCompile);
  EXPECT_NE(response->screen[3].detail.find("MISSING is defined nowhere"), std::string::npos);
  EXPECT_EQ(kernel().sources[0].text, before) << "the project's own file";
}

// The device is gone from the second configuration on: nothing is known of that and of the third.
TEST_F(ProjectExecutorTest, ASweepInWhichTheIncumbentFailsTooIsNotMeasured) {
  declare_tunable();
  const fs::path down = root() / "down";
  replace_in("quick_test_bench.py", "    good, outputs = True, {}\n",
             "    import os\n    if os.path.exists('" + down.string() +
                 "'):\n        sys.exit(7)\n    good, outputs = True, {}\n");
  record::WorkerRequest request;
  request.task = record::WorkerTask::kScreen;
  request.incumbent = kernel();
  for (const std::int64_t slow : {1, 3, 2}) {
    request.candidates.push_back(kernel());
    request.candidates.back().defines["SLOW"] = slow;
  }
  request.cases.push_back(*project::case_of("matmul", "small"));
  for (const char* const from : {"2 of 3", "3 of 3"}) {  // with the second a streak of failures begins, or goes on
    fs::remove(down);
    const auto executor = make_project_executor(project(), {directory_.path() / "work", nullptr});
    const auto lose = [&](const record::Progress& progress) {
      if (progress.detail == from) std::ofstream(down) << "gone";
    };
    const auto response = executor->run(request, lose);
    ASSERT_FALSE(response) << from;
    EXPECT_NE(response.error().message.find("and so does the incumbent"), std::string::npos) << response.error().text();
  }
}

TEST_F(ProjectExecutorTest, AConfigurationIsEvaluatedAsItStandsInTheSource) {
  declare_tunable();
  record::Candidate slow = kernel();
  slow.defines["SLOW"] = 2;
  const auto response = ask(record::WorkerTask::kEvaluate, slow);
  ASSERT_TRUE(response) << response.error().text();
  ASSERT_EQ(response->evaluation->sessions.size(), 1u);
  const auto launches = [&](record::Arm arm) {
    return record::launches(response->evaluation->sessions, "label=small", arm).at(0);
  };
  EXPECT_GT(launches(record::Arm::kCandidate), 2 * launches(record::Arm::kIncumbent));
  const auto built = ask(record::WorkerTask::kBuild, slow), plain = ask(record::WorkerTask::kBuild, kernel());
  ASSERT_TRUE(built && plain);
  EXPECT_NE(built->builds[0].artifact, plain->builds[0].artifact);
}

// Asked through the project's own prefix, by what its backend is asked with.
TEST_F(ProjectExecutorTest, TheDeviceIsTheProjectsOwn) {
  std::ofstream(root() / "box.sh")
      << "case $1 in\n"
         "  nvidia-smi) [ -z \"$NO_NVIDIA\" ] && echo 'NVIDIA H200' ;;\n"
         "  rocminfo) printf '  Marketing Name:     AMD EPYC\\n  Device Type:   CPU\\n  Marketing Name:     "
         "AMD Instinct MI300X\\n  Device Type:   GPU\\n' ;;\n"
         "  cat) printf 'processor : 0\\nmodel name\\t: Far Away 9000\\n' ;;\n"
         "esac\n";
  replace_in("ridge-project.toml", "[commands] ", "[commands]\nprefix = [\"sh\", \"box.sh\"]\n#");
  const auto device_on = [&](const std::string& backend) {
    project::Project project = this->project();
    project.backend = backend;
    const Result<std::string> device = device_of(project);
    return device ? *device : device.error().text();
  };
  EXPECT_EQ(project().test.front(), "sh");
  EXPECT_EQ(device_on("cpu"), "Far Away 9000");
  EXPECT_EQ(device_on("cuda"), "NVIDIA H200");
  EXPECT_EQ(device_on("triton"), "NVIDIA H200");
  EXPECT_EQ(device_on("hip"), "AMD Instinct MI300X");
  ::setenv("NO_NVIDIA", "1", 1);
  EXPECT_EQ(device_on("triton"), "AMD Instinct MI300X");
  EXPECT_NE(device_on("cuda").find("say it in ridge-project.toml"), std::string::npos) << device_on("cuda");
  ::unsetenv("NO_NVIDIA");
  ::setenv("TRITON_INTERPRET", "1", 1);
  EXPECT_EQ(device_on("triton"), "Far Away 9000");
  ::unsetenv("TRITON_INTERPRET");
  replace_in("ridge-project.toml", "op = \"matmul\"", "op = \"matmul\"\ndevice = \"MI325X\"");
  EXPECT_EQ(device_on("hip"), "MI325X");
}

TEST_F(ProjectExecutorTest, HandoffFindsATunableThatCannotBeSet) {
  const struct {
    const char *from, *to, *says;
  } rows[] = {
      {"values = [1, 2, 3]", "values = [1, 2", "ridge-tunables, line"},
      {"values = [1, 2, 3]", "values = []", "must be a list of integers"},
      {"SLOW = 1", "QUICK = 1", "SLOW is defined nowhere"},
      {"SLOW = 1", "SLOW = 2", "default 1 is declared, kernel.py defines it as 2"},
      {"SLOW = 1", "SLOW = 1\nSLOW = 1", "SLOW is defined 2 times"},
      {"SLOW < 4", "FAST < 4", "speaks of FAST"},
      {"SLOW < 4", "SLOW > 4", "the defaults violate"},
  };
  for (const auto& row : rows) {
    fs::remove_all(root());
    fs::remove_all(directory_.path() / "handoff");
    SetUp();
    declare_tunable();
    replace_in("kernel.py", row.from, row.to);
    EXPECT_NE(failing_check().find(row.says), std::string::npos) << row.says << " | " << failing_check();
  }
  fs::remove_all(root());
  SetUp();
  declare_tunable();
  EXPECT_EQ(failing_check(), "everything works");
}

}  // namespace
}  // namespace ridge::execute
