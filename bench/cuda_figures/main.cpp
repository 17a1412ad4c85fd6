// The figures of the measuring chain on this machine's GPU: what the instrument costs, how it repeats, and what it
// decides about kernels whose truth is known.
//
//   bench_cuda_figures SOURCES CACHE OUT [instrument] [copy] [repeat] [aa] [padded] [accept] [peer]
//
// SOURCES is tests/cheats/cuda. Writes OUT/measuring.csv (figures), measuring-sessions.csv (every session's log ratio)
// and measuring-environment.json. Exit status 77 where there is no GPU.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "base/files.h"
#include "base/hash.h"
#include "device/cuda/buffer.h"
#include "device/cuda/nvml.h"
#include "device/cuda/stream.h"
#include "evaluate/cuda/build_apart.h"
#include "evaluate/cuda/check.h"
#include "evaluate/cuda/gpu.h"
#include "evaluate/cuda/program.h"
#include "evaluate/cuda/timer.h"
#include "evaluate/host_fork.h"
#include "evaluate/session.h"
#include "record/archive.h"
#include "stats/decide.h"
#include "stats/summary.h"

namespace {

using namespace ridge;
using evaluate::Failure;
using evaluate::Subject;
namespace gpu = evaluate::cuda;

[[noreturn]] void stop(const std::string& why) {
  fmt::print(stderr, "{}\n", why);
  std::fflush(nullptr);
  std::_Exit(1);
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <class T>
T must(Result<T> result, const std::string& what) {
  if (!result) stop(what + ": " + result.error().text());
  return std::move(*result);
}

class Figures {
 public:
  Figures(std::filesystem::path sources, std::filesystem::path cache, std::filesystem::path out)
      : sources_(std::move(sources)), out_(std::move(out)) {
    options_.cache_directory = std::move(cache);
    op_ = must(ops::find_operator("gemm"), "gemm");
    gpu_ = must(gpu::ask_gpu(0), "the GPU");
    images_ = must(gpu::check_images(*op_, gpu_.arch, options_), "check kernels");
  }

  void write() const {
    std::string text = "figure,value,unit,detail\n";
    for (const std::string& line : lines_) text += line;
    save("measuring.csv", text);
    std::string sessions = "pair,decision,session,role,log_ratio\n";
    for (const std::string& line : sessions_) sessions += line;
    save("measuring-sessions.csv", sessions);
    record::Environment environment;
    environment.facts = {{"gpu", gpu_.name},
                         {"gpu.arch", gpu_.arch},
                         {"gpu.driver", device::cuda::nvml_driver_version()},
                         {"gpu.l2_bytes", std::to_string(gpu_.l2_bytes)},
                         {"compiler", compiler_},
                         {"commit", std::getenv("RIDGE_COMMIT") != nullptr ? std::getenv("RIDGE_COMMIT") : "unknown"}};
    save("measuring-environment.json", record::to_line(environment) + "\n");
  }

  // What an empty kernel takes, and how fine the clocks are.
  void instrument() {
    struct Answer {
      gpu::Instrument instrument;
      double smallest = 0, largest = 0;
    };
    const Answer seen = in_a_process<Answer>(
        [this](const device::cuda::Device& device, gpu::CheckModule& module, const device::cuda::Stream& stream) {
          Answer answer;
          auto timer = must(gpu::Timer::create(device, module, stream), "timer");
          answer.instrument = timer->instrument();
          std::vector<double> spans;
          for (int i = 0; i < 200; ++i) {
            auto timed = timer->time(
                [&module](device::cuda::StreamHandle handle) {
                  return module.run({"ridge_nothing", 1, 1, 32, {}}, handle);
                },
                5.0);
            if (const auto* timing = std::get_if<gpu::Timing>(&timed)) spans.push_back(timing->span);
          }
          answer.smallest = stats::quantile(spans, 0.1);
          answer.largest = stats::quantile(spans, 0.9);
          return answer;
        });
    add("empty_kernel", 1e6 * seen.instrument.empty, "us",
        fmt::format("events behind the gate; p10 {:.2f} p90 {:.2f} over 200", 1e6 * seen.smallest, 1e6 * seen.largest));
    add("empty_stamps", 1e6 * seen.instrument.empty_stamp, "us", "between stamps on all multiprocessors");
    add("empty_host", 1e6 * seen.instrument.empty_host, "us", "from opening the gate to seeing the end");
    add("timer_step", 1e9 * seen.instrument.timer_step, "ns", "of the device-wide timer");
  }

  void copy() {
    struct Answer {
      double kernel = 0, driver = 0;
    };
    constexpr std::size_t kBytes = std::size_t{2} << 30;
    const Answer seen = in_a_process<Answer>(
        [](const device::cuda::Device& device, gpu::CheckModule& module, const device::cuda::Stream& stream) {
          auto from = must(device::cuda::Buffer::allocate(device, kBytes), "memory");
          auto to = must(device::cuda::Buffer::allocate(device, kBytes), "memory");
          auto timer = must(gpu::Timer::create(device, module, stream), "timer");
          std::vector<double> kernel, driver;
          for (int i = 0; i < 25; ++i) {
            auto one = timer->time(
                [&](device::cuda::StreamHandle handle) {
                  return module.run({"ridge_copy",
                                     static_cast<std::uint32_t>(device.info().multiprocessors * 16),
                                     1,
                                     512,
                                     {ops::CheckLaunch::pointer(to.data()), ops::CheckLaunch::pointer(from.data()),
                                      ops::CheckLaunch::number(static_cast<std::int64_t>(kBytes))}},
                                    handle);
                },
                5.0);
            auto two = timer->time(
                [&](device::cuda::StreamHandle handle) {
                  return device::cuda::copy_on_device(to.data(), from.data(), kBytes, handle);
                },
                5.0);
            if (const auto* timing = std::get_if<gpu::Timing>(&one)) kernel.push_back(timing->span);
            if (const auto* timing = std::get_if<gpu::Timing>(&two)) driver.push_back(timing->span);
          }
          return Answer{stats::median(kernel), stats::median(driver)};
        });
    add("copy_kernel", 2e-12 * kBytes / seen.kernel, "TB/s", "2 GiB, read and written, our copy kernel, median of 25");
    add("copy_driver", 2e-12 * kBytes / seen.driver, "TB/s", "2 GiB, read and written, cuMemcpyDtoD, median of 25");
  }

  // The same kernel in ten fresh processes.
  void repeat() {
    for (const char* text : {"gemm m=512 n=512 k=512", "gemm m=1024 n=1024 k=1024"}) {
      const std::vector<ops::Problem> problems = {problem(text)};
      const Subject subject = tiled();
      std::vector<double> medians;
      std::map<std::string, double> facts;
      for (int process = 0; process < 10; ++process) {
        gpu::CudaMeasurementBackend measurement = new_measurement();
        auto opened = measurement.open(subject, *op_, problems);
        if (!opened) stop(opened.error().detail);
        std::vector<double> samples;
        for (int i = 0; i < 41; ++i) {
          const double latency = launch(**opened, 0);
          if (i > 0) samples.push_back(latency);
        }
        finish(**opened);
        medians.push_back(stats::median(samples));
        facts = (*opened)->facts();
      }
      std::sort(medians.begin(), medians.end());
      add("repeat_spread", 100 * (medians.back() / medians.front() - 1), "%",
          fmt::format("largest over smallest median of 10 fresh processes, {} ({:.1f} us)", text,
                      1e6 * stats::median(medians)));
      add("l2_hit_cycles", facts["l2_hit_cycles"], "-", "median of a load from L2");
      add("l2_miss_cycles", facts["l2_miss_cycles"], "-", "median of a load after the sweep");
      add("l2_hit_fraction", facts["l2_hit_fraction"], "-", "of loads probed before timed calls");
    }
  }

  // A hundred decisions about a kernel against itself.
  void aa() {
    constexpr double kEffect = 0.01;
    constexpr int kDecisions = 100;
    const Subject subject = padded(padding_for(200e-6));
    const double sigma = calibrate("aa", subject, kQuads, kLaunches, 16);
    add("sigma_session", 100 * sigma, "%", fmt::format("A/A, {} quads of blocks of {}, 200 us", kQuads, kLaunches));
    const double full = calibrate("aa-full", subject, 8, 5, 10);
    add("sigma_session_full", 100 * full, "%", "A/A, 8 quads of blocks of 5, 200 us");
    const Tally tally = decide("aa", subject, subject, kEffect, kDecisions);
    add("aa_accepts", tally.accepts, fmt::format("of {}", kDecisions),
        fmt::format("d = 1 %; {} sessions, {:.1f} s", tally.sessions, tally.seconds));
  }

  void padded_pairs() {
    constexpr double kEffect = 0.005;
    constexpr int kDecisions = 20;
    const double base = 200e-6;
    for (const double gain : {0.05, 0.02, 0.01, -0.01, -0.05}) {
      const Subject candidate = padded(padding_for(base)), incumbent = padded(padding_for(base * (1 + gain)));
      const std::string name = fmt::format("{:+.0f} %", 100 * gain);
      const Tally tally = decide(name, incumbent, candidate, kEffect, kDecisions);
      add("padded " + name, tally.accepts, fmt::format("of {}", kDecisions),
          fmt::format("accepted at d = 0.5 %; median effect {:+.3f} %; {} sessions, {:.1f} s",
                      100 * std::expm1(tally.median), tally.sessions, tally.seconds));
    }
  }

  // What one accept costs: check, screening and confirmation over five shapes of a 200 us kernel.
  void accept() {
    std::vector<ops::Problem> problems;
    for (const char* text : {"gemm m=200 n=232 k=264", "gemm m=192 n=256 k=256", "gemm m=256 n=192 k=240",
                             "gemm m=160 n=288 k=272", "gemm m=240 n=208 k=264"}) {
      problems.push_back(problem(text));
    }
    const Subject candidate = padded(padding_for(200e-6)), incumbent = padded(padding_for(206e-6));
    const double start = now();
    gpu::CudaMeasurementBackend measurement = new_measurement();
    const auto rows = gpu::check_on_gpu(
        {.measurement = measurement, .subject = candidate, .op = *op_, .problems = problems, .seed = secret_seed()});
    for (const record::CheckRow& row : rows) {
      if (row.outcome != record::Outcome::kPass) stop(row.label + ": " + row.detail);
    }
    const double checked = now();
    const Tally tally = decide("accept", incumbent, candidate, 0.01, 1, &problems, 8, 5);
    add("accept_seconds", now() - start, "s",
        fmt::format("{} accepted; check {:.1f} s, {} sessions of 5 shapes with 8 quads of 5", tally.accepts,
                    checked - start, tally.sessions));
  }

  // A vendor's product by our clocks; scripts/gpu holds it against PyTorch's events.
  void peer() {
    const auto implementation = ops::find_implementation(*op_, "cuda_cublaslt");
    if (!implementation) return add("peer", 0, "-", implementation.error().message);
    Subject subject;
    subject.name = "cuda_cublaslt";
    subject.implementation = *implementation;
    const std::vector<ops::Problem> problems = {problem("gemm m=8192 n=8192 k=8192 dtype=bf16 layout=nt")};
    gpu::CudaMeasurementBackend measurement = new_measurement();
    auto opened = measurement.open(subject, *op_, problems);
    if (!opened) stop(opened.error().detail);
    std::vector<double> samples;
    for (int i = 0; i < 31; ++i) {
      const double latency = launch(**opened, 0);
      if (i > 0) samples.push_back(latency);
    }
    const double median = stats::median(samples);
    add("cublaslt_8192", 1e6 * median, "us",
        fmt::format("bf16 NT 8192^3, {:.1f} TFLOP/s, median of 30", 2e-12 * 8192.0 * 8192 * 8192 / median));
  }

 private:
  static constexpr std::int64_t kQuads = 2, kLaunches = 3;
  struct Tally {
    int accepts = 0, sessions = 0;
    double seconds = 0, median = 0;
  };

  void save(const char* name, const std::string& text) const {
    if (const Status saved = write_file_durably(out_ / name, text); !saved) stop(saved.error().text());
  }

  void add(const std::string& figure, double value, const std::string& unit, const std::string& detail) {
    lines_.push_back(fmt::format("{},{:.6g},{},\"{}\"\n", figure, value, unit, detail));
    fmt::print("{:22} {:10.4g} {:6} {}\n", figure, value, unit, detail);
    std::fflush(stdout);
  }

  ops::Problem problem(const std::string& text) const {
    return must(op_->bind(must(record::parse_case(text), text)), text);
  }

  template <class Answer, class Work>
  Answer in_a_process(const Work& work) {
    auto process = must(evaluate::ForkedProcess::start([&](int socket) {
                          const auto* const device = must(device::cuda::Device::open(0), "device");
                          if (!device->make_current()) return;
                          auto stream = must(device::cuda::Stream::create(*device), "stream");
                          auto module = must(gpu::CheckModule::load(*device, images_->harness), "kernels");
                          const Answer answer = work(*device, *module, stream);
                          evaluate::send_message(socket, &answer, sizeof answer);
                        }),
                        "fork");
    Answer answer;
    if (process.receive(&answer, sizeof answer, 120) != evaluate::ForkedProcess::Received::kMessage) stop("no answer");
    return answer;
  }

  gpu::CudaMeasurementBackend new_measurement() const {
    return gpu::CudaMeasurementBackend({record::Protocol{}, {}, gpu_, images_});
  }

  Subject candidate(const std::filesystem::path& file, std::map<std::string, std::int64_t> defines) {
    auto made = std::make_unique<record::Candidate>();
    made->op = "gemm";
    made->backend = "cuda";
    made->name = file.stem().string();
    for (const auto& [name, value] : defines) made->name += fmt::format(" {}={}", name, value);
    made->sources = {{"kernel.cu", must(read_file(sources_ / file), file.string())},
                     {"product.cuh", must(read_file(sources_ / "product.cuh"), "product.cuh")}};
    made->defines = defines;
    auto builds = must(gpu::build_apart({{made.get(), {}}}, gpu_.arch, options_), "build");
    const toolchain::DeviceBuild& built = builds[0];
    if (!built.ok()) stop(built.error);
    compiler_ = built.evidence.compiler;
    Subject subject;
    subject.name = made->name;
    subject.program = std::make_shared<gpu::Program>(
        gpu::Program{built.cubin, must(record::launch_plan(*made), "plan"), std::move(defines)});
    candidates_.push_back(std::move(made));
    subject.candidate = candidates_.back().get();
    return subject;
  }
  Subject tiled() { return candidate("honest/register_tile.cu", {}); }
  Subject padded(std::int64_t trips) { return candidate("pairs/padded.cu", {{"PADDING", trips}}); }

  static double launch(evaluate::Launcher& launcher, std::size_t index) {
    auto launched = launcher.launch(index, evaluate::Depth::kQuick);
    if (launched) return launched->latency;
    stop(fmt::format("{}: {}", record::name_of(launched.error().outcome), launched.error().detail));
  }
  static void finish(evaluate::Launcher& launcher) {
    if (const evaluate::Verdict verdict = launcher.finish(); !verdict) stop(verdict.error().detail);
  }

  // Trips for a latency: time is a straight line in them, and its two coefficients are measured once.
  std::int64_t padding_for(double latency) {
    if (slope_ == 0) {
      constexpr std::int64_t kFew = 40'000, kMany = 160'000;
      const double few = median_of(padded(kFew)), many = median_of(padded(kMany));
      slope_ = (many - few) / static_cast<double>(kMany - kFew);
      offset_ = few - slope_ * static_cast<double>(kFew);
      add("padding_trip", 1e9 * slope_, "ns", fmt::format("per trip; {:.2f} us without any", 1e6 * offset_));
    }
    return std::llround((latency - offset_) / slope_);
  }

  double median_of(const Subject& subject) {
    const std::vector<ops::Problem> problems = {problem("gemm m=200 n=232 k=264")};
    gpu::CudaMeasurementBackend measurement = new_measurement();
    auto opened = measurement.open(subject, *op_, problems);
    if (!opened) stop(opened.error().detail);
    std::vector<double> samples;
    for (int i = 0; i < 101; ++i) {
      const double latency = launch(**opened, 0);
      if (i > 0) samples.push_back(latency);
    }
    return stats::median(samples);
  }

  std::optional<double> session(gpu::CudaMeasurementBackend& measurement, const std::string& pair, int decision,
                                const std::string& role, const Subject& incumbent, const Subject& candidate,
                                const std::vector<ops::Problem>& problems, std::int64_t quads, std::int64_t launches) {
    evaluate::SessionOptions options;
    options.role = role;
    options.quads = quads;
    options.launches = launches;
    const evaluate::SessionResult result = evaluate::run_session(measurement, measurement.harness().protocol, incumbent,
                                                                 candidate, *op_, problems, options);
    if (result.failure) stop(fmt::format("{}: {}", result.failure->label, result.failure->failure.detail));
    ++count_;
    if (result.session.voided) {
      add("void_session", 1, "-", result.session.void_reason);
      return std::nullopt;
    }
    const double ratio = must(evaluate::statistic(result.session), "statistic").suite;
    sessions_.push_back(fmt::format("{},{},{},{},{:.8f}\n", pair, decision, count_, role, ratio));
    return ratio;
  }

  double calibrate(const std::string& pair, const Subject& subject, std::int64_t quads, std::int64_t launches,
                   int count) {
    const std::vector<ops::Problem> problems = {problem("gemm m=200 n=232 k=264")};
    gpu::CudaMeasurementBackend measurement = new_measurement();
    std::vector<double> ratios;
    for (int i = 0; i < count; ++i) {
      if (const auto ratio = session(measurement, pair, -1, "calibrate", subject, subject, problems, quads, launches)) {
        ratios.push_back(*ratio);
      }
    }
    return stats::spread(ratios);
  }

  // Whole decisions: screening, then confirmation until the sequential test stops.
  Tally decide(const std::string& pair, const Subject& incumbent, const Subject& candidate, double effect,
               int decisions, const std::vector<ops::Problem>* shapes = nullptr, std::int64_t quads = kQuads,
               std::int64_t launches = kLaunches) {
    const std::vector<ops::Problem> one = {problem("gemm m=200 n=232 k=264")};
    const std::vector<ops::Problem>& problems = shapes != nullptr ? *shapes : one;
    gpu::CudaMeasurementBackend measurement = new_measurement();
    Tally tally;
    std::vector<double> seen;
    const double start = now();
    const int before = count_;
    stats::SequentialRule rule;
    rule.min_effect = effect;
    for (int decision = 0; decision < decisions; ++decision) {
      // A cheap look, and a closer one before anything is given up.
      auto screened = session(measurement, pair, decision, "screen", incumbent, candidate, problems, 1, 2);
      if (!screened || stats::screened_out(*screened, effect)) {
        screened = session(measurement, pair, decision, "screen", incumbent, candidate, problems, quads, launches);
      }
      if (!screened || stats::screened_out(*screened, effect)) continue;
      stats::SequentialTest test(rule);
      for (int voided = 0; test.result().verdict == stats::Verdict::kUndecided && voided < 8;) {
        const auto ratio =
            session(measurement, pair, decision, "confirm", incumbent, candidate, problems, quads, launches);
        if (!ratio) {
          ++voided;
          continue;
        }
        seen.push_back(*ratio);
        test.add(*ratio);
      }
      tally.accepts += test.result().verdict == stats::Verdict::kAccept ? 1 : 0;
    }
    tally.sessions = count_ - before;
    tally.seconds = now() - start;
    tally.median = seen.empty() ? 0 : stats::median(seen);
    return tally;
  }

  std::filesystem::path sources_, out_;
  toolchain::BuildOptions options_;
  const ops::Operator* op_ = nullptr;
  device::cuda::GpuInfo gpu_;
  std::shared_ptr<const gpu::CheckImages> images_;
  std::string compiler_;
  std::vector<std::unique_ptr<record::Candidate>> candidates_;
  std::vector<std::string> lines_, sessions_;
  double slope_ = 0, offset_ = 0;
  int count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 3) {
    fmt::print(stderr, "usage: bench_cuda_figures SOURCES CACHE OUT [PART]...\n");
    return 64;
  }
  if (const auto info = gpu::ask_gpu(0); !info) {
    fmt::print(stderr, "skipped: {}\n", info.error().text());
    return 77;
  }
  Figures figures(words[0], words[1], words[2]);
  const auto wanted = [&](const char* part) {
    return words.size() == 3 || std::find(words.begin() + 3, words.end(), part) != words.end();
  };
  if (wanted("instrument")) figures.instrument();
  if (wanted("copy")) figures.copy();
  if (wanted("repeat")) figures.repeat();
  if (wanted("aa")) figures.aa();
  if (wanted("padded")) figures.padded_pairs();
  if (wanted("accept")) figures.accept();
  if (wanted("peer")) figures.peer();
  figures.write();
  return 0;
}
