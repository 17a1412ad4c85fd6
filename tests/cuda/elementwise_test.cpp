// Activations on a GPU where matrices share memory, and their rows start wherever; lists of AdamW's tensors: beyond
// what the conformance table has.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cuda/gpu_operands.h"
#include "device/cuda/device.h"
#include "device/cuda/graph.h"
#include "dispatch/launch.h"
#include "numerics/convert.h"
#include "ops/op.h"

namespace ridge::testing {
namespace {

namespace gpu = device::cuda;

ops::Problem problem_of(const std::string& text) {
  const auto parsed = record::parse_case(text);
  return (*ops::find_operator(parsed->op))->bind(*parsed).value();
}

// A call whose x and up, and whose dx and dup, are the halves of one matrix each, with `gap` elements behind every
// half. The first row starts `first` elements behind 64 bytes.
struct Halves {
  Halves(const std::string& words, std::int64_t gap, std::int64_t first)
      : op(*ops::find_operator(record::parse_case(words)->op)), problem(problem_of(words)) {
    const std::int64_t rows = problem.values[0], cols = problem.values[1];
    const ops::OperandSpec& x = problem.operands[*problem.position("x")];
    wide = problem_of(
        fmt::format("activation rows={} cols={} gated=0 dtype={}", rows, 2 * (cols + gap), to_string(x.dtype)));
    own = make_operands(problem, kPacked, 11);
    both = make_operands(wide, Layout{"wide", 0, first}, 12);
    half_width = cols + gap;
  }
  // Operands that lie in the wide matrices: the input's, and the output's.
  std::vector<TensorView> views(const std::vector<TensorView>& apart, const std::vector<TensorView>& together) const {
    std::vector<TensorView> all = apart;
    const auto put = [&](const char* name, std::size_t from, std::int64_t half) {
      const auto at = problem.position(name);
      if (!at) return;
      TensorView view = together[from];
      view.shape[1] = problem.values[1];
      view.data = static_cast<std::byte*>(view.data) + size_bytes(view.dtype, half * half_width);
      all[*at] = view;
    };
    put("x", 0, 0), put("up", 0, 1), put("dx", 1, 0), put("dup", 1, 1);
    return all;
  }
  std::vector<TensorView> host_views() const { return views(own.views(), both.views()); }
  // Rows that do not count hold NaN.
  void spoil_masked_rows() {
    const auto* const mask = static_cast<const std::uint8_t*>(own.all[*problem.position("mask")].view().data);
    for (Operand* operand : {&both.all[0], &own.all[0]}) {  // x and up; of the backward dy
      std::vector<double> values = operand->values();
      const auto width = static_cast<std::size_t>(operand->view().shape[1]);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (mask[i / width] == 0) values[i] = std::numeric_limits<double>::quiet_NaN();
      }
      operand->assign(values);
    }
  }
  // Whether what lies behind the halves of the output is as it was: no number.
  [[nodiscard]] bool gaps_are_left() const {
    const std::vector<double> values = both.all[1].values();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool gap = static_cast<std::int64_t>(i) % half_width >= problem.values[1];
      if (gap && !std::isnan(values[i])) return false;
    }
    return true;
  }

  const ops::Operator* op;
  ops::Problem problem, wide;
  Operands own, both;
  std::int64_t half_width = 0;
};

void check_halves(const std::string& words, std::int64_t gap, std::int64_t first, const gpu::Stream& stream) {
  Halves call(words, gap, first);
  if (call.problem.position("mask")) call.spoil_masked_rows();
  const auto own = GpuOperands::upload(the_device(), call.own, stream.handle());
  const auto both = GpuOperands::upload(the_device(), call.both, stream.handle());
  ASSERT_TRUE(own && both);
  const auto expected = call.op->reference(call.problem, {call.host_views(), call.own.scalars});
  ASSERT_TRUE(expected) << expected.error().text();
  for (const ops::Implementation& one : call.op->implementations) {
    if (one.backend != Backend::kCuda || !one.name.starts_with("cuda_activation")) continue;
    const Status status =
        one.run(call.problem, {call.views(own->views(), both->views()), call.own.scalars}, stream.view());
    ASSERT_TRUE(status) << words << ": " << status.error().text();
  }
  ASSERT_TRUE(own->download(call.own, stream.handle()));
  ASSERT_TRUE(both->download(call.both, stream.handle()));
  const std::vector<TensorView> found = call.host_views();
  std::size_t output = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!call.problem.operands[i].output) continue;
    EXPECT_EQ(compare(numerics::to_doubles(found[i]), (*expected)[output++], found[i].dtype), "")
        << words << ", " << call.problem.operands[i].name << ", gap " << gap << ", from " << first;
  }
  EXPECT_TRUE(call.gaps_are_left()) << words << ", gap " << gap << ", from " << first;
  for (const Operands* operands : {&call.own, &call.both}) {
    for (const Operand& operand : operands->all) EXPECT_EQ(operand.guard_damage(), "") << words;
  }
}

// Chunks of all matrices at the same elements, at different ones, and rows of which every other is aligned.
TEST(CudaActivation, TakesHalvesOfOneMatrixAtAnyAlignment) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  for (const char* op : {"activation", "activation_backward", "activation_quantize scaling=mx copies=both",
                         "activation_quantize_backward scaling=mx copies=both"}) {
    for (const char* size : {"rows=40 cols=1024", "rows=33 cols=1001", "rows=300 cols=67", "rows=500 cols=3",
                             "rows=3 cols=9001", "rows=2 cols=8"}) {
      for (const char* more : {"dtype=bf16", "dtype=f32", "dtype=f16 probs=1", "dtype=bf16 probs=1 mask=1"}) {
        for (const std::int64_t gap : {0, 1, 4, 8}) {
          for (const std::int64_t first : {0, 3}) {
            check_halves(fmt::format("{} {} {}", op, size, more), gap, first, *stream);
          }
        }
      }
    }
  }
}

// Steps of AdamW for tensors of several sizes and kinds, more of one kind than a launch takes.
struct Steps {
  explicit Steps(const gpu::Stream& stream) {
    const auto add = [&](const std::string& words, const Layout& layout) {
      const ops::Problem& problem = problems.emplace_back(problem_of("adamw " + words));
      host.push_back(make_operands(problem, layout, host.size()));
      device.push_back(GpuOperands::upload(the_device(), host.back(), stream.handle()).value());
    };
    for (int i = 0; i < 95; ++i) add(fmt::format("count={} dtype=f32", 1 + i * i * 37 % 5000), kPacked);
    for (const char* more : {"master=1", "state=bf16", "dtype=f16 master=1 factor=1 skip=1 maximize=1"}) {
      for (const int count : {0, 1, 7, 8, 1023, 1024, 1025, 300007}) {
        add(fmt::format("count={} {}", count, more), kPacked);
        add(fmt::format("count={} {}", count, more), Layout{"odd start", 0, 1});
      }
    }
  }
  [[nodiscard]] ops::Call call(std::size_t i) const {
    ops::Call call;
    call.values.append(problems[i].values.data(), problems[i].values.size());
    for (const TensorView& view : device[i].views()) call.operands.push_back(view);
    for (const record::Scalar& scalar : host[i].scalars) call.scalars.push_back(scalar);
    return call;
  }
  void download(const gpu::Stream& stream) {
    for (std::size_t i = 0; i < host.size(); ++i) ASSERT_TRUE(device[i].download(host[i], stream.handle()));
  }

  std::vector<ops::Problem> problems;
  std::vector<Operands> host;
  std::vector<GpuOperands> device;
};

void expect_equal(const Steps& found, const Steps& expected, const char* which) {
  for (std::size_t i = 0; i < found.host.size(); ++i) {
    for (std::size_t k = 0; k < found.host[i].all.size(); ++k) {
      const Operand &one = found.host[i].all[k], &other = expected.host[i].all[k];
      const std::string name = found.problems[i].problem_case.text() + ", " + found.problems[i].operands[k].name;
      const std::size_t bytes = size_bytes(one.view().dtype, one.view().element_count());
      EXPECT_EQ(bytes == 0 ? 0 : std::memcmp(one.view().data, other.view().data, bytes), 0) << which << ": " << name;
      EXPECT_EQ(one.guard_damage(), "") << which << ": " << name;
    }
  }
}

// Launched and recorded; that single calls are right is the conformance table's.
TEST(CudaAdamw, AListGivesTheBitsOfSingleCalls) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const ops::Operator& op = **ops::find_operator("adamw");
  Steps apart(*stream), together(*stream), replayed(*stream);
  for (std::size_t i = 0; i < apart.host.size(); ++i) {
    const Status status = dispatch::launch(op, apart.call(i), stream->view());
    ASSERT_TRUE(status) << status.error().text();
  }
  const auto in_one = [&](const Steps& steps, Stream on) {
    return dispatch::launch(
        op, steps.host.size(), [&](std::size_t i) -> Result<ops::Call> { return steps.call(i); }, on);
  };
  Status status = in_one(together, stream->view());
  ASSERT_TRUE(status) << status.error().text();
  const auto graph = gpu::Graph::capture(the_device(), [&](gpu::StreamHandle handle) {
    return in_one(replayed, Stream::cuda(handle, stream->view().device));
  });
  ASSERT_TRUE(graph) << graph.error().text();
  ASSERT_TRUE(graph->launch(stream->handle()));
  apart.download(*stream), together.download(*stream), replayed.download(*stream);
  expect_equal(together, apart, "a list");
  expect_equal(replayed, apart, "a list that a graph replays");
}

}  // namespace
}  // namespace ridge::testing
