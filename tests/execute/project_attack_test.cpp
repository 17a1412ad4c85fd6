// Candidates that reach around a project's benchmark: each of these was once measured as faster than it is.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "base/confinement.h"
#include "base/files.h"
#include "execute/folder_seal.h"
#include "execute/plausible.h"
#include "execute/project_executor.h"
#include "places.h"
#include "record/launches.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;
using record::Outcome;

class ProjectAttack : public testing::Test {
 protected:
  void SetUp() override { fs::copy(source_dir() / "examples/project_python", root(), fs::copy_options::recursive); }
  [[nodiscard]] fs::path root() const { return directory_.path() / "project"; }
  [[nodiscard]] fs::path work() const { return directory_.path() / "work"; }
  [[nodiscard]] record::Candidate kernel() const {
    return project::baseline_of(project::read_project(root()).value()).value();
  }
  // The kernel with this text before it, which runs when it is imported.
  [[nodiscard]] record::Candidate importing(const std::string& text) const {
    record::Candidate candidate = kernel();
    candidate.sources[0].text = text + "\n\n" + candidate.sources[0].text;
    return candidate;
  }
  // Without a command that the project has today.
  void leave_out(const std::string& key) {
    std::string text = *read_file(root() / "ridge-project.toml");
    const std::size_t at = text.find("\n" + key + " =");
    ASSERT_NE(at, std::string::npos);
    std::ofstream(root() / "ridge-project.toml") << text.erase(at, text.find('\n', at + 1) - at);
  }
  void builds_by_running_the_kernel() {
    std::string file = *read_file(root() / "ridge-project.toml");
    file.insert(file.find("test = "), "build = [\"python3\", \"-B\", \"build.py\"]\n");
    std::ofstream(root() / "ridge-project.toml") << file;
    std::ofstream(root() / "build.py") << "import kernel\nopen('made.txt', 'a').write('built')\n";
  }
  Result<record::WorkerResponse> ask(const record::Candidate& candidate, std::int64_t sessions = 2) {
    const project::Project project = project::read_project(root()).value();
    const auto executor = make_project_executor(project, {.workspace = work()});
    record::WorkerRequest request;
    request.task = record::WorkerTask::kEvaluate;
    request.incumbent = kernel();
    request.candidates = {candidate};
    request.sessions = sessions;
    request.quick_look = true;
    request.cases.push_back(*project::case_of("matmul", "small"));
    return executor->run(request);
  }
  record::Evaluation evaluation_of(const record::Candidate& candidate, std::int64_t sessions = 2) {
    const auto response = ask(candidate, sessions);
    EXPECT_TRUE(response) << response.error().text();
    return response && response->evaluation ? *response->evaluation : record::Evaluation{};
  }
  static double speedup(const record::Evaluation& e) {
    const auto best = [&](record::Arm arm) {
      const std::vector<double> all = record::launches(e.sessions, "label=small", arm);
      return *std::min_element(all.begin(), all.end());
    };
    return best(record::Arm::kIncumbent) / best(record::Arm::kCandidate);
  }
  TempDir directory_ = TempDir::create("ridge-attack").value();
};

TEST_F(ProjectAttack, RewritesItsBenchmark) {
  const auto e =
      evaluation_of(importing("import os\np = os.path.join(os.path.dirname(os.path.abspath(__file__)), "
                              "'quick_test_bench.py')\nt = open(p).read()\n"
                              "open(p, 'w').write(t.replace('median(times)', 'median(times) / 10'))"));
  EXPECT_EQ(e.outcome, Outcome::kCheat);
  EXPECT_NE(e.detail.find("quick_test_bench.py"), std::string::npos) << e.detail;
}

TEST_F(ProjectAttack, PutsAModuleBesideTheBenchmark) {
  const auto e =
      evaluation_of(importing("import os\nd = os.path.dirname(os.path.abspath(__file__))\n"
                              "open(os.path.join(d, 'statistics.py'), 'w').write("
                              "'def median(x): return min(x) / 10\\ndef pstdev(x): return 0.0\\n')"));
  EXPECT_EQ(e.outcome, Outcome::kPass) << e.detail;
  EXPECT_LT(speedup(e), 4) << "what one process adds is gone before the next";
  EXPECT_FALSE(fs::exists(work() / "b/statistics.py"));
}

TEST_F(ProjectAttack, SlowsTheOtherArm) {
  const auto e =
      evaluation_of(importing("import os\ntry:\n"
                              "    p = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../a/kernel.py')\n"
                              "    t = open(p).read()\n    open(p, 'w').write('import time\\n' + t.replace("
                              "'def matmul(a, b):\\n', 'def matmul(a, b):\\n    time.sleep(0.01)\\n'))\n"
                              "except OSError:\n    pass"));
  EXPECT_EQ(*read_file(work() / "a/kernel.py") == kernel().sources[0].text, e.outcome == Outcome::kPass);
  if (why_not_confined().empty()) {
    EXPECT_EQ(e.outcome, Outcome::kPass) << "it does not see the other arm: " << e.detail;
    EXPECT_LT(speedup(e), 4);
  } else {
    EXPECT_EQ(e.outcome, Outcome::kCheat);
    EXPECT_NE(e.detail.find("kernel.py of the other arm's copy"), std::string::npos) << e.detail;
  }
}

TEST_F(ProjectAttack, LeavesAProcessBehind) {
  const fs::path mark = directory_.path() / "mark";
  const auto e = evaluation_of(
      importing("import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
                "        for i in range(3, 50):\n            try:\n                os.close(i)\n"
                "            except OSError:\n                pass\n        time.sleep(1.5)\n        open('" +
                mark.string() + "', 'w').write('alive')\n    os._exit(0)"));
  std::this_thread::sleep_for(std::chrono::milliseconds(2200));
  EXPECT_FALSE(fs::exists(mark)) << "it outlived its command: " << e.detail;
}

// A kernel that computes nothing, and a check in its own process that it talks out of noticing.
record::Candidate computes_nothing(const record::Candidate& kernel) {
  record::Candidate candidate = kernel;
  candidate.sources[0].text +=
      "\n\nhonest = matmul\n\n\ndef matmul(a, b):\n    import sys\n    main = sys.modules['__main__']\n"
      "    if not hasattr(main, 'snr_db'):\n        return honest(a, b)\n"
      "    main.snr_db = lambda a, b, c: 120.0\n    return [[0.0] * len(b[0]) for _ in a]\n";
  return candidate;
}

TEST_F(ProjectAttack, ComputesNothingAndTalksTheCheckOutOfIt) {
  const auto e = evaluation_of(computes_nothing(kernel()));
  EXPECT_EQ(e.outcome, Outcome::kWrong);
  EXPECT_NE(e.detail.find("the reference process says: small: c[0][0] is 0.0"), std::string::npos) << e.detail;
}

// It leaves something in {out} that the reference process dies of, or a folder where its table should be.
TEST_F(ProjectAttack, BreaksWhatReadsItsFiles) {
  std::string reference = *read_file(root() / "reference.py");
  reference.insert(reference.find("\nimport ") + 1,
                   "import os\nimport sys\nif open(sys.argv[1]).read() == 'boom':\n    os.kill(os.getpid(), 11)\n");
  std::ofstream(root() / "reference.py") << reference;
  const auto at_exit = [&](const std::string& text) {
    return importing(
        "import atexit, os, sys\n\n\ndef bend():\n    if '--outputs' not in sys.argv:\n        return\n    " + text +
        "\n\n\natexit.register(bend)");
  };
  const auto boom = evaluation_of(at_exit("open(sys.argv[sys.argv.index('--outputs') + 1], 'w').write('boom')"));
  EXPECT_EQ(boom.outcome, Outcome::kCrash) << boom.detail;
  EXPECT_NE(boom.detail.find("the reference process"), std::string::npos) << boom.detail;
  const auto folder =
      evaluation_of(at_exit("p = sys.argv[sys.argv.index('--summary-csv') + 1]\n    os.remove(p)\n    os.mkdir(p)"));
  EXPECT_EQ(folder.outcome, Outcome::kWrong) << folder.detail;
}

TEST_F(ProjectAttack, ComputingNothingPassesWithoutAReference) {
  leave_out("reference");
  const auto e = evaluation_of(computes_nothing(kernel()));
  EXPECT_EQ(e.outcome, Outcome::kPass) << e.detail;
  EXPECT_GT(speedup(e), 4);
}

// The clock of the benchmark, stretched for one arm alone: honest work, a tenth of its time.
record::Candidate bends_the_clock(const record::Candidate& kernel, const std::string& factor) {
  record::Candidate candidate = kernel;
  candidate.sources[0].text +=
      "\n\nimport time\n\nhonest, clock, lost = matmul, time.perf_counter, 0.0\ntime.perf_counter = lambda: clock() - "
      "lost\n\n\n"
      "def matmul(a, b):\n    global lost\n    before = clock()\n    for _ in range(200):\n        c = honest(a, b)\n"
      "    lost += (clock() - before) * " +
      factor + "\n    return c\n";
  return candidate;
}

TEST_F(ProjectAttack, ClaimsMoreTimeThanItRan) {
  const auto e = evaluation_of(bends_the_clock(kernel(), "-100"));
  EXPECT_EQ(e.outcome, Outcome::kCheat);
  EXPECT_NE(e.detail.find("claims"), std::string::npos) << e.detail;
}

std::vector<TimedProcess> processes(double wall, double claimed, double jitter, int count = 6) {
  std::vector<TimedProcess> all;
  for (int i = 0; i < count; ++i) all.push_back({wall + jitter * i / (count - 1), claimed});
  return all;
}

TEST(Plausible, ASavingIsMissingFromTheWallTime) {
  const auto slow = processes(1.0, 0.1, 0.02), fast = processes(0.55, 0.01, 0.02);
  EXPECT_EQ(implausible_saving(5, slow, fast), "") << "450 ms claimed, 450 ms gone";
  const auto hides = processes(1.0, 0.01, 0.02);  // the benchmark's clock is bent: the same work, a tenth of its time
  EXPECT_NE(implausible_saving(5, slow, hides).find("claim to save 450"), std::string::npos)
      << implausible_saving(5, slow, hides);
  EXPECT_EQ(implausible_saving(5, hides, slow), "") << "a candidate that claims to be slower";
}

TEST(Plausible, NothingIsSaidWhereTheWallsCannotTell) {
  const auto slow = processes(1.0, 0.1, 0.02), hides = processes(1.0, 0.01, 0.02);
  EXPECT_EQ(implausible_saving(0, slow, hides), "") << "the project does not say how many launches there are";
  EXPECT_EQ(implausible_saving(5, processes(1.0, 0.1, 0.2), processes(1.0, 0.01, 0.2)), "") << "walls that differ more";
  EXPECT_EQ(implausible_saving(5, processes(1.0, 0.1, 0.02, 5), hides), "") << "too few of them";
}

// A build that runs the kernel. In the part of the project that candidates are built in, user.py is not there; in the
// whole one it is a test, which the candidate breaks.
TEST_F(ProjectAttack, ChangesATestOfTheWholeProjectWhileItIsBuilt) {
  std::string file = *read_file(root() / "ridge-project.toml");
  file.insert(file.find("kernel = "),
              "extract = [\"quick_test_bench.py\", \"test_kernel.py\", \"reference.py\", "
              "\"train.py\", \"build.py\"]\n");
  file.insert(file.find("test = "), "build = [\"python3\", \"-B\", \"build.py\"]\n");
  std::ofstream(root() / "ridge-project.toml") << file;
  std::ofstream(root() / "build.py") << "import os\nimport kernel\nif os.path.exists('made.txt'):\n"
                                        "    open('made.txt', 'a').write('built')\n";
  std::ofstream(root() / "made.txt") << "a product that is committed\n";
  std::ofstream(root() / "user.py") << "import kernel\n\nkernel.matmul([[1.0]], [[1.0]]).index([1.0])\n";
  std::string test = *read_file(root() / "test_kernel.py");
  test.insert(test.find("import "), "import os\nif os.path.exists('user.py'):\n    import user\n");
  std::ofstream(root() / "test_kernel.py") << test;
  const project::Project whole = project::read_project(root()).value();
  const auto executor = make_project_executor(project::extracted_part(whole), {.workspace = work(), .whole = whole});
  record::WorkerRequest request;
  request.task = record::WorkerTask::kEvaluate;
  request.incumbent = kernel();
  request.sessions = 1;
  request.quick_look = true;
  request.cases.push_back(*project::case_of("matmul", "small"));
  const auto outcome_of = [&](const record::Candidate& candidate) {
    request.candidates = {candidate};
    const auto response = executor->run(request);
    EXPECT_TRUE(response) << response.error().text();
    return response ? *response->evaluation : record::Evaluation{};
  };
  record::Candidate broken = importing(
      "import os, sys\nif sys.argv[0].endswith('build.py') and os.path.exists('user.py'):\n"
      "    open('user.py', 'w').write('')");
  broken.sources[0].text += "\n\nlists = matmul\n\n\ndef matmul(a, b):\n    return tuple(map(tuple, lists(a, b)))\n";
  const record::Evaluation cheat = outcome_of(broken);
  EXPECT_EQ(cheat.outcome, Outcome::kCheat) << cheat.detail;
  EXPECT_EQ(cheat.detail, "in the whole project: user.py of its own copy of the project was changed by its build");
  EXPECT_FALSE(cheat.build.counts.contains(kPassedWhole));
  const record::Evaluation honest = outcome_of(importing("# the same"));
  EXPECT_EQ(honest.outcome, Outcome::kPass) << honest.detail;
  EXPECT_TRUE(honest.build.counts.contains(kPassedWhole)) << "made.txt is what the project's build changes";
}

// A build that runs the kernel, and makes made.txt.
TEST_F(ProjectAttack, AddsAModuleWhileItIsBuilt) {
  builds_by_running_the_kernel();
  const std::string add = "import os, sys\nif sys.argv[0].endswith('build.py'):\n    ";
  const auto e =
      evaluation_of(importing(add + "open('statistics.py', 'w').write('def median(x): return min(x) / 10\\n"
                                    "def pstdev(x): return 0.0\\n')\n    open('made.txt', 'w').write('other')"));
  EXPECT_EQ(e.outcome, Outcome::kPass) << e.detail;
  EXPECT_LT(speedup(e), 4) << "its module is not there when it is measured";
  EXPECT_FALSE(fs::exists(work() / "b/statistics.py"));
  EXPECT_TRUE(fs::exists(work() / "b/made.txt")) << "the incumbent's build makes it, too";
  EXPECT_NE(e.build.log.find("adds no such file: statistics.py (where"), std::string::npos) << e.build.log;
  EXPECT_NE(e.detail.find("statistics.py"), std::string::npos) << e.detail;
  const auto needs = evaluation_of(importing(add + "open('part.py', 'w')\nelse:\n    import part"));
  EXPECT_EQ(needs.outcome, Outcome::kWrong) << needs.detail;
  EXPECT_NE(needs.detail.find("part.py (where that is meant"), std::string::npos) << needs.detail;
}

// The second configuration changes the test and adds a module; the third is honest, and so is what is evaluated next.
TEST_F(ProjectAttack, IsNotChargedWithWhatAScreenedConfigurationChanged) {
  builds_by_running_the_kernel();
  const project::Project project = project::read_project(root()).value();
  const auto executor = make_project_executor(project, {.workspace = work()});
  const std::string add = "import sys\nif sys.argv[0].endswith('build.py'):\n    open('statistics.py', 'w')\n";
  record::WorkerRequest request;
  request.task = record::WorkerTask::kScreen;
  request.incumbent = kernel();
  request.candidates = {importing(add), importing(add + "    open('test_kernel.py', 'a').write('# bent')"), kernel()};
  request.sessions = 1;
  request.quick_look = true;
  request.cases.push_back(*project::case_of("matmul", "small"));
  const auto screened = executor->run(request);
  ASSERT_TRUE(screened) << screened.error().text();
  EXPECT_EQ(screened->screen[0].outcome, Outcome::kPass) << screened->screen[0].detail;
  EXPECT_EQ(screened->screen[1].outcome, Outcome::kCheat) << screened->screen[1].detail;
  EXPECT_NE(screened->screen[1].detail.find("test_kernel.py"), std::string::npos) << screened->screen[1].detail;
  EXPECT_EQ(screened->screen[2].outcome, Outcome::kPass) << screened->screen[2].detail;
  request.task = record::WorkerTask::kEvaluate;
  request.candidates = {importing("# the same")};
  const auto evaluated = executor->run(request);
  ASSERT_TRUE(evaluated) << evaluated.error().text();
  EXPECT_EQ(evaluated->evaluation->outcome, Outcome::kPass) << evaluated->evaluation->detail;
}

TEST_F(ProjectAttack, AnHonestKernelPassesAllOfIt) {
  record::Candidate faster = kernel();
  std::string& text = faster.sources[0].text;
  const std::string slow = "c[i][j] = c[i][j] + a[i][k] * b[k][j]";
  text.replace(text.find(slow), slow.size(), "c[i][j] += a[i][k] * b[k][j]");
  const auto e = evaluation_of(faster, 4);
  EXPECT_EQ(e.outcome, Outcome::kPass) << e.detail;
  EXPECT_EQ(e.sessions.size(), 4u);
}

TEST_F(ProjectAttack, AProjectSaysWhatItsCommandsWrite) {
  std::ofstream(root() / "results.txt") << "none\n";
  std::string bench = *read_file(root() / "quick_test_bench.py");
  const std::string at = "    good, outputs = True, {}\n";
  bench.replace(bench.find(at), at.size(), at + "    open('results.txt', 'a').write('run')\n");
  std::ofstream(root() / "quick_test_bench.py") << bench;
  const auto refused = ask(kernel());
  ASSERT_FALSE(refused) << "its own commands, the kernel as it is: no cheat of a candidate";
  EXPECT_NE(refused.error().message.find("results.txt"), std::string::npos);
  EXPECT_NE(refused.error().text().find("commands.writes"), std::string::npos);
  std::string file = *read_file(root() / "ridge-project.toml");
  file.replace(file.find("timeout = 120"), 13, "timeout = 120\nwrites = [\"results.txt\"]");
  std::ofstream(root() / "ridge-project.toml") << file;
  EXPECT_EQ(evaluation_of(kernel()).outcome, Outcome::kPass);
}

TEST(FolderSeal, SeesWhatWasChangedRemovedAndAdded) {
  TempDir directory = TempDir::create("ridge-seal").value();
  const fs::path root = directory.path();
  fs::create_directories(root / "part");
  std::ofstream(root / "part/file") << "as it was";
  std::ofstream(root / "free") << "1";
  fs::create_symlink("part/file", root / "link");
  FolderSeal seal = FolderSeal::take(root, {"free"}).value();
  EXPECT_EQ(*seal.broken(), "");
  std::ofstream(root / "free") << "2";
  std::ofstream(root / "part/new") << "added";
  EXPECT_EQ(*seal.broken(), "");
  EXPECT_FALSE(fs::exists(root / "part/new"));
  const auto time = fs::last_write_time(root / "part/file");
  std::ofstream(root / "part/file") << "as it WAS";
  fs::last_write_time(root / "part/file", time);  // the same size and time of writing
  EXPECT_EQ(*seal.broken(), "part/file");
  std::ofstream(root / "part/file") << "as it was";
  EXPECT_EQ(*seal.broken(), "") << "written again with the same content";
  fs::remove(root / "link");
  fs::create_symlink("free", root / "link");
  EXPECT_EQ(*seal.broken(), "link");
  fs::remove(root / "link");
  EXPECT_EQ(*seal.broken(), "link");
}

}  // namespace
}  // namespace ridge::execute
