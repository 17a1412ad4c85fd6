// Every operator x every CUDA implementation x every case: poisoned outputs, guard bytes, fp64 references, odd strides
// and unaligned bases.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include "cuda/gpu_operands.h"
#include "cuda/gpu_problems.h"
#include "ops/cuda/kernels.h"

namespace ridge::testing {
namespace {

namespace gpu = device::cuda;

struct Row {
  const ops::Operator* op = nullptr;
  const ops::Implementation* implementation = nullptr;
};
std::vector<Row> rows() {
  std::vector<Row> all;
  for (const ops::Operator* op : all_operators()) {
    for (const ops::Implementation& one : op->implementations) {
      if (one.backend == Backend::kCuda) all.push_back({op, &one});
    }
  }
  return all;
}

// Of operators of rows those with many rows come in every configuration of the kernel.
std::vector<ops::Problem> gpu_problems_in_configurations(const Row& row, const gpu::Stream& stream) {
  std::vector<ops::Problem> problems = gpu_problems(*row.op);
  // Operators whose kernels have forms that only their configurations reach.
  const auto begins = [&](const char* name) { return row.op->name.starts_with(name); };
  const bool in_all = begins("rmsnorm") || begins("cross_entropy") || begins("rope") || begins("grouped_gemm") ||
                      begins("layernorm") || begins("activation") || begins("adamw") || begins("softmax") ||
                      begins("embedding") || begins("symmetric") || begins("combine") || begins("expert_order");
  if (!in_all || !row.implementation->promising) return problems;
  const std::size_t all = problems.size();
  for (std::size_t i = check_problems(*row.op).size(); i < all; ++i) {
    for (const int one : row.implementation->promising(problems[i], ops::device_info(stream.view()))) {
      ops::Problem problem = problems[i];
      problem.configuration = one;
      problems.push_back(std::move(problem));
    }
  }
  return problems;
}

class CudaConformance : public ::testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(Table, CudaConformance, ::testing::ValuesIn(rows()),
                         [](const auto& row) { return row.param.op->name + "_" + row.param.implementation->name; });

TEST_P(CudaConformance, MatchesTheReferenceOnEveryCase) {
  const Row row = GetParam();
  const auto own_stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(own_stream);
  const std::vector<ops::Problem> problems = gpu_problems_in_configurations(row, *own_stream);
  std::atomic<std::size_t> next{0}, ran{0};
  std::mutex mutex;
  std::vector<std::string> failures;
  const auto work = [&] {  // one stream per thread, so that kernels compile side by side and streams are mixed
    const auto stream = gpu::Stream::create(the_device());
    for (std::size_t i = next++; stream && i < 2 * problems.size(); i = next++) {
      const ops::Problem& problem = problems[i / 2];
      const Layout& layout = i % 2 == 0 ? kPacked : kAwkward;
      if (i % 2 != 0 && problem.configuration >= 0) continue;  // the form for any address has no configurations
      bool did_run = false;
      const std::string wrong = check_on_gpu(*row.op, *row.implementation, problem, layout, i + 1, *stream, did_run);
      ran += did_run ? 1 : 0;
      if (wrong.empty()) continue;
      const std::scoped_lock lock(mutex);
      const std::string in = problem.configuration < 0
                                 ? "its own configuration"
                                 : row.implementation->configurations[static_cast<std::size_t>(problem.configuration)];
      failures.push_back(fmt::format("{} ({}, {}): {}", problem.problem_case.text(), layout.name, in, wrong));
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < std::clamp(std::thread::hardware_concurrency(), 2u, 16u); ++t) threads.emplace_back(work);
  threads.clear();
  EXPECT_EQ(failures.size(), 0u);
  for (std::size_t i = 0; i < std::min<std::size_t>(failures.size(), 12); ++i) ADD_FAILURE() << failures[i];
  EXPECT_GT(ran.load(), 0u) << "an implementation that runs no case";
  const ops::KernelStatistics kernels = ops::kernel_statistics();
  std::printf("%zu runs checked; so far %lld kernels compiled, %lld from the cache\n", ran.load(),
              static_cast<long long>(kernels.compiled), static_cast<long long>(kernels.from_cache));
}

// A tile and a bit of every kind of case, few enough that compute-sanitizer, a hundred times slower, ends within a
// minute.
TEST_P(CudaConformance, HoldsOnTinyCasesForSanitizers) {
  const Row row = GetParam();
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const std::vector<ops::Problem> problems = gpu_problems(*row.op);
  const std::size_t step = std::max<std::size_t>(1, problems.size() / 8);
  for (std::size_t i = 0; i < problems.size(); i += step) {
    const auto small = row.op->bind(row.op->vary(problems[i], ops::Variation::kReduced, i));
    ASSERT_TRUE(small);
    for (const Layout& layout : {kPacked, kAwkward}) {
      bool ran = false;
      EXPECT_EQ(check_on_gpu(*row.op, *row.implementation, *small, layout, i, *stream, ran), "")
          << small->problem_case.text() << " (" << layout.name << ")";
    }
  }
  for (std::size_t i = problems.size() - std::min<std::size_t>(problems.size(), 3); i < problems.size(); ++i) {
    for (const int share : {0, 1}) {  // sizes that the matrix unit and vector loads take, and blocks that go on
      bool ran = false;
      EXPECT_EQ(check_on_gpu(*row.op, *row.implementation, problems[i], kPacked, i, *stream, ran, share), "");
    }
  }
}

// Every seventh case on as few multiprocessors as there can be, on some, and beside others.
TEST_P(CudaConformance, HoldsInAShareOfTheMultiprocessors) {
  const Row row = GetParam();
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const std::vector<ops::Problem> problems = gpu_problems(*row.op);
  for (std::size_t i = 3; i < problems.size(); i += 7) {
    for (const int share : {1, 37, -16}) {
      bool ran = false;
      EXPECT_EQ(check_on_gpu(*row.op, *row.implementation, problems[i], kPacked, i, *stream, ran, share), "")
          << problems[i].problem_case.text() << " on " << share;
    }
  }
}

TEST_P(CudaConformance, GivesTheSameBitsInTenRuns) {
  const Row row = GetParam();
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const std::vector<ops::Problem> problems = gpu_problems(*row.op);
  for (std::size_t p = 0; p < problems.size(); p += 23) {
    ops::Problem problem = problems[p];
    if (ops::why_not(*row.implementation, problem, ops::device_info(stream->view()))) continue;
    std::vector<std::vector<double>> first;
    for (int run = 0; run < 10; ++run) {
      Operands host = make_operands(problem, kPacked, 77);
      const auto device = GpuOperands::upload(the_device(), host, stream->handle());
      ASSERT_TRUE(device);
      const Status status = row.implementation->run(problem, {device->views(), host.scalars}, stream->view());
      ASSERT_TRUE(status) << problem.problem_case.text() << ": " << status.error().text();
      ASSERT_TRUE(device->download(host, stream->handle()));
      for (std::size_t i = 0; i < host.all.size(); ++i) {
        if (run == 0) first.push_back(host.all[i].values());
        ASSERT_EQ(host.all[i].values(), first[i]) << problem.problem_case.text() << ", run " << run;
      }
    }
  }
}

TEST_P(CudaConformance, CarriesNanAndInfThrough) {
  const Row row = GetParam();
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<ops::Problem> problems = check_problems(*row.op);
  for (std::size_t p = 0; p < problems.size(); p += 7) {
    ops::Problem problem = problems[p];
    if (ops::why_not(*row.implementation, problem, ops::device_info(stream->view()))) continue;
    for (const double special : {nan, inf, -inf}) {
      Operands before = make_operands(problem, kPacked, 5), after = make_operands(problem, kPacked, 5);
      if (before.all[0].view().element_count() == 0) continue;
      for (Operands* operands : {&before, &after}) {
        std::vector<double> values = operands->all[0].values();
        values[values.size() / 2] = special;
        operands->all[0].assign(values);
      }
      const auto device = GpuOperands::upload(the_device(), after, stream->handle());
      ASSERT_TRUE(device);
      const auto expected = row.op->reference(problem, {before.views(), before.scalars});
      ASSERT_TRUE(expected);
      ASSERT_TRUE(row.implementation->run(problem, {device->views(), after.scalars}, stream->view()));
      ASSERT_TRUE(device->download(after, stream->handle()));
      std::size_t output = 0;
      for (const Operand& operand : after.all) {
        if (!operand.spec().output) continue;
        EXPECT_EQ(compare(operand.values(), (*expected)[output++], operand.spec().dtype), "")
            << problem.problem_case.text() << " with " << special;
      }
    }
  }
}

}  // namespace
}  // namespace ridge::testing
