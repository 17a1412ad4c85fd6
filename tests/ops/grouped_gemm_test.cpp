// What is particular to grouped products: offsets that leave rows out, groups without rows, what other groups hold,
// sums added to C, offsets that are wrong, and gradients as calls of the operator itself.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ops/harness.h"
#include "ridge/ops/activation.h"
#include "ridge/ops/activation_backward.h"
#include "ridge/ops/grouped_gemm.h"

namespace ridge::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

using Floats = std::vector<float>;

Floats normal(std::int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> draw;
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = draw(generator);
  return values;
}

// rows of A [rows, k] in groups that begin at `offsets`; B [groups, k, n].
struct Experts {
  std::int64_t rows = 11, groups = 4, k = 5, n = 7;
  std::vector<std::int32_t> offsets = {1, 4, 4, 9, 9};
  Floats a = normal(rows * k, 1), b = normal(groups * k * n, 2), c = Floats(static_cast<std::size_t>(rows * n), -9);

  TensorView view_a() { return TensorView::contiguous(a.data(), DType::kF32, {rows, k}); }
  TensorView view_b() { return TensorView::contiguous(b.data(), DType::kF32, {groups, k, n}); }
  TensorView view_c() { return TensorView::contiguous(c.data(), DType::kF32, {rows, n}); }
  TensorView view_offsets() {
    return TensorView::contiguous(offsets.data(), DType::kI32, {static_cast<std::int64_t>(offsets.size())});
  }
  GroupedGemmArgs args() { return {view_a(), view_b(), view_offsets(), view_c()}; }
  float at(std::int64_t row, std::int64_t column) const { return c[static_cast<std::size_t>(row * n + column)]; }
  double expected(std::int64_t row, std::int64_t column, std::int64_t group) const {
    double sum = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      sum += static_cast<double>(a[static_cast<std::size_t>(row * k + i)]) *
             b[static_cast<std::size_t>((group * k + i) * n + column)];
    }
    return sum;
  }
};

// What binding a case says.
std::string bound(const char* words) {
  const auto problem =
      (*ops::find_operator("grouped_gemm"))->bind(*record::parse_case(std::string("grouped_gemm ") + words));
  return problem ? std::string("taken") : problem.error().text();
}

TEST(GroupedGemm, MultipliesEachRowByTheMatrixOfItsGroupAndClearsTheOthers) {
  Experts experts;
  const Status status = grouped_gemm(experts.args(), Stream::cpu(2));
  ASSERT_TRUE(status.ok()) << status.error().text();
  for (std::int64_t row = 0; row < experts.rows; ++row) {
    const std::int64_t group = row >= 1 && row < 4 ? 0 : row >= 4 && row < 9 ? 2 : -1;
    for (std::int64_t column = 0; column < experts.n; ++column) {
      const double right = group < 0 ? 0 : experts.expected(row, column, group);
      EXPECT_NEAR(experts.at(row, column), right, 1e-5) << row << ", " << column;
    }
  }
}

TEST(GroupedGemm, WhatOtherGroupsHoldChangesNothing) {
  Experts clean, dirty;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  dirty.a[0] = nan;  // a row of no group
  for (std::int64_t i = 0; i < dirty.k; ++i) dirty.a[static_cast<std::size_t>(4 * dirty.k + i)] = nan;  // of group 2
  for (std::int64_t i = 0; i < dirty.k * dirty.n; ++i) dirty.b[static_cast<std::size_t>(dirty.k * dirty.n + i)] = nan;
  ASSERT_TRUE(grouped_gemm(clean.args(), Stream::cpu(1)));
  ASSERT_TRUE(grouped_gemm(dirty.args(), Stream::cpu(1)));
  for (std::int64_t row = 0; row < clean.rows; ++row) {
    for (std::int64_t column = 0; column < clean.n; ++column) {
      if (row == 4) {
        EXPECT_TRUE(std::isnan(dirty.at(row, column)));
      } else {
        EXPECT_EQ(dirty.at(row, column), clean.at(row, column)) << row;
      }
    }
  }
}

TEST(GroupedGemm, SumsOverRowsAreAddedAndAGroupWithoutRowsKeepsItsMatrix) {
  Experts experts;
  Floats x = normal(experts.rows * experts.n, 3);
  Floats sums(static_cast<std::size_t>(experts.groups * experts.k * experts.n), 2.5F);
  GroupedGemmArgs args;
  args.a = experts.view_a();
  args.b = TensorView::contiguous(x.data(), DType::kF32, {experts.rows, experts.n});
  args.c = TensorView::contiguous(sums.data(), DType::kF32, {experts.groups, experts.k, experts.n});
  args.offsets = experts.view_offsets();
  args.trans_a = args.accumulate = true;
  const Status status = grouped_gemm(args, Stream::cpu(2));
  ASSERT_TRUE(status.ok()) << status.error().text();
  const auto matrix = static_cast<std::size_t>(experts.k * experts.n);
  EXPECT_THAT(std::vector(sums.begin() + matrix, sums.begin() + 2 * matrix), Each(2.5F));
  EXPECT_THAT(std::vector(sums.begin() + 3 * matrix, sums.end()), Each(2.5F));
  double right = 2.5;  // element (1, 2) of group 2, rows 4 to 8
  for (std::size_t row = 4; row < 9; ++row) right += static_cast<double>(experts.a[row * 5 + 1]) * x[row * 7 + 2];
  EXPECT_NEAR(sums[2 * matrix + 1 * 7 + 2], right, 1e-5);
  args.accumulate = false;
  ASSERT_TRUE(grouped_gemm(args, Stream::cpu(2)));
  EXPECT_THAT(std::vector(sums.begin() + 3 * matrix, sums.end()), Each(0.0F)) << "an empty group is a sum of nothing";
}

TEST(GroupedGemm, WrongOffsetsAreNamedAndNothingIsWritten) {
  Experts experts;
  const auto refused = [&](std::vector<std::int32_t> offsets) {
    experts.offsets = std::move(offsets);
    const Status status = grouped_gemm(experts.args(), Stream::cpu(1));
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(experts.c, Each(-9.0F));
    return status.ok() ? std::string() : status.error().text();
  };
  EXPECT_THAT(refused({0, 3, 2, 9, 9}), HasSubstr("offset 2 is 2, after 3 and of 11 rows"));
  EXPECT_THAT(refused({-1, 3, 4, 9, 9}), HasSubstr("offset 0 is -1"));
  EXPECT_THAT(refused({0, 3, 4, 9, 12}), HasSubstr("offset 4 is 12, after 9 and of 11 rows"));
  EXPECT_THAT(refused({0, 3, 9, 11}), HasSubstr("4 offsets for 4 groups"));
}

TEST(GroupedGemm, SaysWhatDoesNotGoTogether) {
  Experts experts;
  const auto error = [&](auto&& change) {
    GroupedGemmArgs args = experts.args();
    change(args);
    const Status status = grouped_gemm(args, Stream::cpu(1));
    return status.ok() ? std::string("taken") : status.error().text();
  };
  EXPECT_THAT(error([](auto& args) { args.accumulate = true; }), HasSubstr("accumulate without trans_a"));
  EXPECT_THAT(error([](auto& args) { args.trans_b = true; }), HasSubstr("check trans_a and trans_b"));
  EXPECT_THAT(error([](auto& args) { args.trans_a = args.trans_b = true; }), HasSubstr("B cannot be transposed"));
  EXPECT_THAT(error([](auto& args) { args.offsets.dtype = DType::kF32; }), HasSubstr("give i32 or i64"));
  EXPECT_THAT(error([&](auto& args) { args.c = args.a; }), HasSubstr("C"));
  EXPECT_THAT(bound("groups=0"), HasSubstr("0 groups"));
  EXPECT_THAT(bound("layout=tn k=5"), HasSubstr("give m and n"));
  EXPECT_THAT(bound("layout=nn m=5"), HasSubstr("give k and n"));
  EXPECT_THAT(bound("layout=nn accumulate=1"), HasSubstr("without layout=tn"));
}

TEST(GroupedGemm, FindsRowsByIndexWithTheBitsOfACopy) {
  Experts copied;
  const std::int64_t tokens = 6;
  Floats sources = normal(tokens * copied.k, 7);
  std::vector<std::int32_t> index = {5, 0, 3, 3, -1, 2, 1, 5, 0, 4, 4};
  for (std::int64_t row = 0; row < copied.rows; ++row) {
    for (std::int64_t i = 0; i < copied.k; ++i) {
      const std::int32_t source = index[static_cast<std::size_t>(row)];
      copied.a[static_cast<std::size_t>(row * copied.k + i)] =
          source < 0 ? 0 : sources[static_cast<std::size_t>(source * copied.k + i)];
    }
  }
  Experts found = copied;
  GroupedGemmArgs args = found.args();
  args.a = TensorView::contiguous(sources.data(), DType::kF32, {tokens, found.k});
  args.index_a = TensorView::contiguous(index.data(), DType::kI32, {found.rows});
  ASSERT_TRUE(grouped_gemm(copied.args(), Stream::cpu(2)));
  const Status status = grouped_gemm(args, Stream::cpu(2));
  ASSERT_TRUE(status.ok()) << status.error().text();
  EXPECT_EQ(found.c, copied.c);

  Floats grad = normal(found.rows * found.n, 3), sums(static_cast<std::size_t>(found.groups * found.n * found.k)),
         right = sums;
  GroupedGemmArgs along;  // the gradient of B, stored transposed
  along.a = TensorView::contiguous(grad.data(), DType::kF32, {found.rows, found.n});
  along.b = copied.view_a();
  along.offsets = found.view_offsets();
  along.c = TensorView::contiguous(right.data(), DType::kF32, {found.groups, found.n, found.k});
  along.trans_a = true;
  ASSERT_TRUE(grouped_gemm(along, Stream::cpu(2)));
  along.b = args.a, along.index_b = args.index_a;
  along.c.data = sums.data();
  ASSERT_TRUE(grouped_gemm(along, Stream::cpu(2)));
  EXPECT_EQ(sums, right);
}

TEST(GroupedGemm, AnIndexThatIsWrongIsNamedAndNothingIsWritten) {
  Experts experts;
  std::vector<std::int32_t> index(11, 0);
  const auto error = [&](auto&& change) {
    GroupedGemmArgs args = experts.args();
    args.index_a = TensorView::contiguous(index.data(), DType::kI32, {11});
    change(args);
    const Status status = grouped_gemm(args, Stream::cpu(1));
    EXPECT_THAT(experts.c, Each(-9.0F));
    return status.ok() ? std::string("taken") : status.error().text();
  };
  index[4] = 11;
  EXPECT_THAT(error([](auto&) {}), HasSubstr("index 4 is 11, of 11 rows of A"));
  index[4] = 0;
  EXPECT_THAT(error([](auto& args) { args.index_a.dtype = DType::kI64; }), HasSubstr("i64"));
  EXPECT_THAT(error([](auto& args) { args.index_a.shape[0] = 10; }), HasSubstr("C"));
  EXPECT_THAT(error([](auto& args) { args.index_b = args.index_a; }), HasSubstr("the other's"));
  EXPECT_THAT(error([](auto& args) { std::swap(args.index_a, args.index_b); }), HasSubstr("index_b without trans_a"));
  EXPECT_THAT(error([](auto& args) { args.index_a.data = args.c.data; }), HasSubstr("overlaps index"));
  index[0] = 99;  // of no group: not looked at
  Experts taken;
  GroupedGemmArgs args = taken.args();
  args.index_a = TensorView::contiguous(index.data(), DType::kI32, {11});
  EXPECT_TRUE(grouped_gemm(args, Stream::cpu(1)));
  EXPECT_THAT(bound("layout=nt gather=b"), HasSubstr("gather=b without layout=tn"));
  EXPECT_THAT(bound("sources=5"), HasSubstr("sources=5 without gather"));
}

// Gate and up of inputs, and the gradients of their SwiGLU from those of the layer behind.
struct GatedExperts {
  static constexpr std::int64_t kRows = 11, kGroups = 4, kIn = 5, kInner = 9;
  std::vector<std::int32_t> offsets = {1, 4, 4, 9, 9};
  Floats x = normal(kRows * kIn, 1), b = normal(kGroups * 2 * kInner * kIn, 2), c = filled(kRows * 2 * kInner),
         y = filled(kRows * kInner), probs = normal(kRows, 3);
  Floats dy = normal(kRows * kIn, 4), down = normal(kGroups * kIn * kInner, 5), gradient = filled(kRows * 2 * kInner),
         again = filled(kRows * kInner), dprobs = filled(kRows);

  static Floats filled(std::int64_t count) { return Floats(static_cast<std::size_t>(count), -9); }
  static TensorView matrix(Floats& of, std::int64_t rows, std::int64_t columns) {
    return TensorView::contiguous(of.data(), DType::kF32, {rows, columns});
  }
  TensorView vector(Floats& of) const { return TensorView::contiguous(of.data(), DType::kF32, {kRows}); }
  GroupedGemmArgs forward() {
    GroupedGemmArgs args;
    args.a = matrix(x, kRows, kIn);
    args.b = TensorView::contiguous(b.data(), DType::kF32, {kGroups, 2 * kInner, kIn});
    args.offsets = TensorView::contiguous(offsets.data(), DType::kI32, {kGroups + 1});
    args.c = matrix(c, kRows, 2 * kInner), args.y = matrix(y, kRows, kInner);
    args.trans_b = true;
    args.probs = vector(probs);
    return args;
  }
  GroupedGemmArgs backward() {
    GroupedGemmArgs args = forward();
    args.a = matrix(dy, kRows, kIn);
    args.b = TensorView::contiguous(down.data(), DType::kF32, {kGroups, kIn, kInner});
    args.gate_up = args.c;
    args.c = matrix(gradient, kRows, 2 * kInner), args.y = matrix(again, kRows, kInner);
    args.trans_b = false;
    args.dprobs = vector(dprobs);
    return args;
  }
};

TEST(GroupedGemm, SwigluHasTheBitsOfActivationAndGradientsThoseOfItsBackward) {
  GatedExperts e;
  constexpr std::int64_t kInner = GatedExperts::kInner;
  Floats plain = GatedExperts::filled(e.kRows * 2 * kInner), right = e.y, d = e.y, to_both = plain, to_probs = e.dprobs;
  GroupedGemmArgs sums = e.forward();
  sums.c = GatedExperts::matrix(plain, e.kRows, 2 * kInner), sums.y = sums.probs = {};
  ASSERT_TRUE(grouped_gemm(sums, Stream::cpu(2)));
  const auto half = [](Floats& of, std::int64_t which) {
    TensorView view = GatedExperts::matrix(of, GatedExperts::kRows, 2 * kInner);
    view.shape[1] = kInner;
    view.data = of.data() + which * kInner;
    return view;
  };
  ActivationArgs swiglu;
  swiglu.x = half(plain, 0), swiglu.up = half(plain, 1), swiglu.y = GatedExperts::matrix(right, e.kRows, kInner);
  swiglu.probs = e.vector(e.probs);
  ASSERT_TRUE(activation(swiglu, Stream::cpu(2)));
  const Status status = grouped_gemm(e.forward(), Stream::cpu(2));
  ASSERT_TRUE(status.ok()) << status.error().text();
  EXPECT_EQ(e.c, plain);
  EXPECT_EQ(e.y, right);

  GroupedGemmArgs to_d = e.backward();
  to_d.c = GatedExperts::matrix(d, e.kRows, kInner), to_d.y = to_d.gate_up = to_d.probs = to_d.dprobs = {};
  ASSERT_TRUE(grouped_gemm(to_d, Stream::cpu(2)));
  ActivationBackwardArgs back;
  back.dy = GatedExperts::matrix(d, e.kRows, kInner), back.forward = swiglu;
  back.dx = half(to_both, 0), back.dup = half(to_both, 1), back.dprobs = e.vector(to_probs);
  ASSERT_TRUE(activation_backward(back, Stream::cpu(2)));
  const Status done = grouped_gemm(e.backward(), Stream::cpu(2));
  ASSERT_TRUE(done.ok()) << done.error().text();
  EXPECT_EQ(e.again, right);
  EXPECT_EQ(e.gradient, to_both) << "sums of f32 are not rounded in between";
  EXPECT_EQ(e.dprobs, to_probs);
}

TEST(GroupedGemm, SaysWhatDoesNotGoTogetherWithSwiglu) {
  const auto error = [](bool backward, auto&& change) {
    GatedExperts e;
    GroupedGemmArgs args = backward ? e.backward() : e.forward();
    change(args);
    const Status status = grouped_gemm(args, Stream::cpu(1));
    return status.ok() ? std::string("taken") : status.error().text();
  };
  EXPECT_THAT(error(false, [](auto& args) { args.y = {}; }), HasSubstr("probs without y"));
  EXPECT_THAT(error(true, [](auto& args) { args.y = {}; }), HasSubstr("gate_up without y"));
  EXPECT_THAT(error(true, [](auto& args) { args.dprobs = {}; }), HasSubstr("give both or none"));
  EXPECT_THAT(error(false, [](auto& args) { args.dprobs = args.probs; }), HasSubstr("give both or none"));
  EXPECT_THAT(error(false, [](auto& args) { args.y.shape[1] = 8; }), HasSubstr("y"));
  EXPECT_THAT(error(false, [](auto& args) { args.probs.shape[0] = 10; }), HasSubstr("probs"));
  EXPECT_THAT(error(true, [](auto& args) { args.gate_up = args.c; }), HasSubstr("overlaps gate_up"));
  EXPECT_THAT(error(true, [](auto& args) { args.y = args.gate_up, args.y.shape[1] = 9; }), HasSubstr("overlaps"));
  EXPECT_THAT(error(false, [](auto& args) { args.b.shape[1] = args.c.shape[1] = 17; }), HasSubstr("as many of up"));
  EXPECT_THAT(error(false,
                    [](auto& args) {
                      args.trans_a = true, args.trans_b = false;
                      args.b = args.a, args.c = TensorView::contiguous(args.c.data, DType::kF32, {4, 5, 5});
                    }),
              HasSubstr("y with trans_a"));
  EXPECT_THAT(bound("layout=tn epilogue=swiglu"), HasSubstr("epilogue with layout=tn"));
  EXPECT_THAT(bound("n=7 epilogue=swiglu"), HasSubstr("n=7"));
  EXPECT_THAT(bound("out=f32 epilogue=swiglu"), HasSubstr("leave out out"));
  EXPECT_THAT(bound("probs=1"), HasSubstr("probs=1 without epilogue"));
}

// The check of a call looks at y for the C that is there, and at all that gradients write.
TEST(GroupedGemm, SpotChecksSeeAWrongSwiglu) {
  const ops::Operator& op = **ops::find_operator("grouped_gemm");
  for (const char* words : {"n=16 epilogue=swiglu probs=1", "n=8 epilogue=swiglu_backward probs=1"}) {
    const auto problem = op.bind(*record::parse_case(fmt::format("grouped_gemm rows=40 groups=3 k=6 {}", words)));
    ASSERT_TRUE(problem) << problem.error().text();
    Operands all = make_operands(*problem, kPacked, 5);
    const ops::Implementation& own = **ops::find_implementation(op, "cpu_groups");
    ASSERT_TRUE(own.run(*problem, {all.views(), {}}, Stream::cpu(1)));
    const auto wrong = [&] {
      const auto spot = op.spot_check(*problem, {all.views(), {}}, 1);
      return !spot || spot->residual > spot->allowed;
    };
    ASSERT_FALSE(wrong()) << words;
    for (std::size_t i = 0; i < problem->operands.size(); ++i) {
      if (!problem->operands[i].output) continue;
      const std::vector<double> right = all.all[i].values();
      std::vector<double> moved = right;
      const auto most = std::max_element(moved.begin(), moved.end());
      *most *= 1.1;
      all.all[i].assign(moved);
      EXPECT_TRUE(wrong()) << words << ": " << problem->operands[i].name;
      all.all[i].assign(right);
    }
  }
}

// The gradient of sum(G * C) in one element of A and of B, by differences of the reference, which is linear in each.
TEST(GroupedGemm, GradientsAreThoseOfTheReference) {
  const ops::Operator& op = **ops::find_operator("grouped_gemm");
  for (const char* words : {"k=5 layout=nn", "k=5 layout=nt", "m=5 layout=tn", "k=5 layout=nn gather=a sources=4",
                            "k=5 layout=nt gather=a sources=20", "m=5 layout=tn gather=a", "m=5 layout=tn gather=b"}) {
    const auto problem =
        op.bind(*record::parse_case(fmt::format("grouped_gemm rows=13 groups=3 n=6 dtype=f32 {}", words)));
    ASSERT_TRUE(problem) << problem.error().text();
    Operands forward = make_operands(*problem, kPacked, 5);
    Operand grad_c(problem->operands.back(), kPacked);
    grad_c.fill_random(6);
    const auto loss = [&] {
      const auto c = op.reference(*problem, {forward.views(), {}});
      double sum = 0;
      for (std::size_t i = 0; i < (*c)[0].value.size(); ++i) sum += (*c)[0].value[i] * grad_c.values()[i];
      return sum;
    };
    for (std::size_t input = 0; input < 2; ++input) {
      Operand gradient(problem->operands[input], kPacked);
      std::vector<TensorView> inputs(problem->operands.size() - 1);
      inputs[input] = gradient.view();
      const TensorView grads[] = {grad_c.view()};
      const auto calls = ops::backward_calls(op, *problem, {forward.views(), {}}, grads, inputs);
      if (std::string(words).find(input == 0 ? "gather=a" : "gather=b") != std::string::npos) {
        ASSERT_FALSE(calls);
        EXPECT_THAT(calls.error().text(), HasSubstr("combine_rows"));
        continue;
      }
      ASSERT_TRUE(calls) << calls.error().text();
      ASSERT_EQ(calls->size(), 1u);
      const ops::EntryCall& call = (*calls)[0];
      const ops::Problem made =
          *call.op->bind(ops::case_of(*call.op, std::vector(call.call.values.begin(), call.call.values.end())));
      const ops::Implementation& own = **ops::find_implementation(*call.op, "cpu_groups");
      ASSERT_TRUE(
          own.run(made, {std::vector(call.call.operands.begin(), call.call.operands.end()), {}}, Stream::cpu(1)));
      const std::vector<double> values = forward.all[input].values();
      for (std::size_t place : {std::size_t{0}, values.size() / 2, values.size() - 1}) {
        std::vector<double> moved = values;
        const double before = loss();
        moved[place] += 1;
        forward.all[input].assign(moved);
        const double slope = loss() - before;
        forward.all[input].assign(values);
        EXPECT_NEAR(gradient.values()[place], slope, 1e-4) << words << ", input " << input << ", element " << place;
      }
    }
  }
}

}  // namespace
}  // namespace ridge::testing
