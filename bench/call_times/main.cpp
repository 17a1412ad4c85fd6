// What calls take on a GPU by their own choice, as `ridge tune` measures it (sets of operands in turn, so that none
// stays in the second-level cache), of many cases in one process and in turns.
//
//   bench_call_times "quantize rows=8192 cols=8192 scaling=1x128 copies=both" ...
//
// Prints a line for each case: median microseconds of a call over blocks, compulsory bytes, the implementation.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "dispatch/tuning_run.h"
#include "stats/summary.h"

namespace {

using namespace ridge;

constexpr double kBlock = 3e-3;  // seconds
constexpr int kBlocks = 25;

struct Timed {
  ops::Problem problem;
  const ops::Operator* op;
  dispatch::Choice choice;
  std::unique_ptr<dispatch::Prober> prober;
  std::unique_ptr<dispatch::TuningRun> run;
  std::int64_t calls = 1;
  std::vector<double> seconds = {};
};

Result<Timed> prepared(const char* words, const Stream& stream) {
  RIDGE_TRY(asked, record::parse_case(words));
  RIDGE_TRY(op, ops::find_operator(asked.op));
  RIDGE_TRY(problem, op->bind(asked));
  dispatch::Choice choice;
  for (const ops::Implementation& one : op->implementations) {
    if (choice.implementation == nullptr && !ops::why_not(one, problem, ops::device_info(stream)))
      choice.implementation = &one;
  }
  if (choice.implementation == nullptr)
    return Error{ErrorCode::kUnsupported, fmt::format("{}: nothing can run it", words)};
  auto prober = std::make_unique<dispatch::Prober>(*op, stream, dispatch::cuda_runner(stream));
  return Timed{std::move(problem), op, choice, std::move(prober), nullptr};
}

}  // namespace

int main(int argc, char** argv) {
  const Stream stream = Stream::cuda(nullptr);
  std::vector<std::unique_ptr<Timed>> all;
  for (int i = 1; i < argc; ++i) {
    auto timed = prepared(argv[i], stream);
    if (!timed) {
      fmt::print(stderr, "{}\n", timed.error().text());
      return 1;
    }
    all.push_back(std::make_unique<Timed>(std::move(*timed)));
    Timed& one = *all.back();
    auto run = dispatch::make_tuning_run(one.problem, stream, *one.prober);
    if (!run) {
      fmt::print(stderr, "{}\n", run.error().text());
      return 1;
    }
    one.run = std::move(*run);
    for (int warm = 0; warm < 3; ++warm) {
      const auto once = one.run->seconds(one.choice, 1);
      if (!once) {
        fmt::print(stderr, "{}: its call failed\n", argv[i]);
        return 1;
      }
      one.calls = std::max<std::int64_t>(1, std::llround(kBlock / *once));
    }
  }
  for (int block = 0; block < kBlocks; ++block) {
    for (const auto& one : all) one->seconds.push_back(one->run->seconds(one->choice, one->calls).value_or(NAN));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    fmt::print("{:.2f} {:.0f} {} {}\n", 1e6 * stats::median(all[i]->seconds), all[i]->op->cost(all[i]->problem).bytes,
               all[i]->choice.implementation->name, argv[i + 1]);
  }
  return 0;
}
