// cpu_simd against every other library on this machine, in interleaved blocks.
//
//   bench_cpu_gemm [--threads N] [--dtype f32|bf16|f16] [--blocks B] [--block-ms T] [--vs name]... [--case "m=.. n=..
//   k=.."]...
//
// One shape after the other: B times, every library runs for T ms in turn (the order reversed every other time) and the
// median of its calls is one sample; between blocks of several threads a pause lets the other libraries' spinning
// threads go to sleep. Printed: the median of the samples in GFLOP/s, and the median of the paired ratios.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "dispatch/launch.h"
#include "numerics/convert.h"
#include "ops/op.h"
#include "ridge/ops/gemm.h"

namespace {

using namespace ridge;
using Clock = std::chrono::steady_clock;

struct Options {
  int threads = 1, blocks = 11;
  double block_ms = 30;
  std::string dtype = "f32";
  std::vector<std::string> versus, cases;
  bool dispatch_cost = false;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n == 0 ? 0.0 : n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

struct Memory {
  std::vector<std::vector<char>> bytes;
  std::vector<TensorView> views;
};

Memory make_memory(const ops::Problem& problem) {
  Memory memory;
  std::mt19937_64 generator(1);
  std::normal_distribution<float> normal;
  for (const ops::OperandSpec& spec : problem.operands) {
    auto& bytes = memory.bytes.emplace_back(size_bytes(spec.dtype, spec.element_count()) + 64);
    const auto start = (reinterpret_cast<std::uintptr_t>(bytes.data()) + 63) / 64 * 64;
    memory.views.push_back(
        TensorView::contiguous(reinterpret_cast<void*>(start), spec.dtype, {spec.shape[0], spec.shape[1]}));
    std::vector<float> values(static_cast<std::size_t>(spec.element_count()));
    for (float& value : values) value = normal(generator);
    numerics::from_float(spec.dtype, values.data(), memory.views.back().data, spec.element_count());
  }
  return memory;
}

struct Subject {
  const ops::Implementation* implementation = nullptr;
  std::vector<double> samples;  // seconds of one call, one per block
};

double block(const ops::Implementation& one, const ops::Problem& problem, const Memory& memory,
             const Options& options) {
  std::vector<double> calls;
  const Stream stream = Stream::cpu(options.threads);
  (void)one.run(problem, memory.views, stream);
  const auto start = Clock::now();
  do {
    const auto call = Clock::now();
    if (const Status status = one.run(problem, memory.views, stream); !status) {
      fmt::print(stderr, "{}: {}\n", one.name, status.error().text());
      std::exit(1);
    }
    calls.push_back(seconds_since(call));
  } while (seconds_since(start) < options.block_ms * 1e-3 || calls.size() < 3);
  if (options.threads > 1) std::this_thread::sleep_for(std::chrono::milliseconds(one.vendor ? 60 : 1));
  return median(calls);
}

struct Line {
  double best_ratio = 0;  // of the fastest vendor's median time to ours, paired
  std::vector<double> gflops;
  std::string best;
};

Line measure(const ops::Problem& problem, std::vector<Subject> subjects, const Options& options, double flop) {
  const Memory memory = make_memory(problem);
  for (int b = 0; b < options.blocks; ++b) {
    for (Subject& subject : subjects)
      subject.samples.push_back(block(*subject.implementation, problem, memory, options));
    std::reverse(subjects.begin(), subjects.end());
  }
  std::sort(subjects.begin(), subjects.end(),
            [](const Subject& x, const Subject& y) { return x.implementation->rank < y.implementation->rank; });
  Line line;
  double fastest = 0;
  for (const Subject& subject : subjects) {
    const double time = median(subject.samples);
    line.gflops.push_back(flop / time * 1e-9);
    if (!subject.implementation->vendor || (fastest != 0 && time >= fastest)) continue;
    fastest = time;
    line.best = subject.implementation->name;
    std::vector<double> ratios;
    for (std::size_t i = 0; i < subject.samples.size(); ++i) {
      ratios.push_back(subject.samples[i] / subjects[0].samples[i]);
    }
    line.best_ratio = median(ratios);
  }
  return line;
}

int compare(const Options& options) {
  const ops::Operator& op = **ops::find_operator("gemm");
  std::vector<double> logs;
  for (const std::string& text : options.cases) {
    auto parsed = record::parse_case("gemm " + text);
    if (parsed && parsed->get("dtype").empty()) parsed->set("dtype", options.dtype);
    const auto problem = parsed ? op.bind(*parsed) : Result<ops::Problem>(parsed.error());
    if (!problem) {
      fmt::print(stderr, "{}\n", problem.error().text());
      return 2;
    }
    std::vector<Subject> subjects;
    for (const ops::Implementation& one : op.implementations) {
      const bool asked = options.versus.empty() ||
                         std::find(options.versus.begin(), options.versus.end(), one.name) != options.versus.end();
      if (one.name == "reference" || (one.vendor && !asked)) continue;
      if (one.supports(*problem, ops::device_info(Stream::cpu()))) continue;
      subjects.push_back({&one, {}});
    }
    if (logs.empty() && &text == &options.cases.front()) {
      fmt::print("{:44}", "GFLOP/s, medians");
      for (const Subject& subject : subjects) fmt::print("{:>14}", subject.implementation->name);
      fmt::print("   ratio to the fastest other\n");
    }
    const Line line = measure(*problem, subjects, options, op.cost(*problem).flop);
    fmt::print("{:44}", text);
    for (const double gflops : line.gflops) fmt::print("{:14.1f}", gflops);
    if (line.best_ratio > 0) {
      fmt::print("   {:.3f} {}", line.best_ratio, line.best);
      logs.push_back(std::log(line.best_ratio));
    }
    fmt::print("\n");
    std::fflush(stdout);
  }
  double sum = 0;
  for (const double log : logs) sum += log;
  if (!logs.empty())
    fmt::print("geomean of {} ratios: {:.3f}\n", logs.size(), std::exp(sum / static_cast<double>(logs.size())));
  for (const ops::Implementation& one : op.implementations) {
    if (one.version) fmt::print("{}: {}\n", one.name, one.version());
  }
  return 0;
}

// What a warm call costs beyond the arithmetic: a product without terms, through the public entry point.
int dispatch_cost() {
  float c[4] = {};
  GemmArgs args;
  args.a = TensorView::contiguous(c, DType::kF32, {1, 0});
  args.b = TensorView::contiguous(c, DType::kF32, {0, 1});
  args.c = TensorView::contiguous(c, DType::kF32, {1, 1});
  const Stream stream = Stream::cpu();
  std::vector<double> samples;
  for (int block = 0; block < 101; ++block) {
    constexpr int kCalls = 1000;
    const auto start = Clock::now();
    for (int call = 0; call < kCalls; ++call) {
      if (!gemm(args, stream)) return 1;
    }
    samples.push_back(seconds_since(start) / kCalls);
  }
  fmt::print("warm call: median {:.0f} ns, slowest block {:.0f} ns\n", median(samples) * 1e9,
             *std::max_element(samples.begin() + 1, samples.end()) * 1e9);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto value = [&]() -> std::string { return i + 1 < argc ? argv[++i] : ""; };
    if (name == "--threads")
      options.threads = std::atoi(value().c_str());
    else if (name == "--dtype")
      options.dtype = value();
    else if (name == "--blocks")
      options.blocks = std::atoi(value().c_str());
    else if (name == "--block-ms")
      options.block_ms = std::atof(value().c_str());
    else if (name == "--vs")
      options.versus.push_back(value());
    else if (name == "--case")
      options.cases.push_back(value());
    else if (name == "--dispatch")
      options.dispatch_cost = true;
    else
      return fmt::print(stderr, "unknown argument {}\n", name), 2;
  }
  if (options.dispatch_cost) return dispatch_cost();
  if (options.cases.empty()) {
    for (const record::Case& one : (*ridge::ops::find_operator("gemm"))->cases(ops::CaseSet::kBench, Backend::kCpu)) {
      if (one.get("dtype", "f32") != "f32" || !one.get("layout").empty()) continue;
      options.cases.push_back(fmt::format("m={} n={} k={}", one.get("m"), one.get("n"), one.get("k")));
    }
  }
  return compare(options);
}
