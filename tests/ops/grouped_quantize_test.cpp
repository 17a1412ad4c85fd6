// What is particular to grouped_quantize: it is quantize of the rows of groups with zeros between them, bit for bit;
// groups without rows, what rows of no group and other groups hold, offsets that are wrong, and what the check after
// every launch catches.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "numerics/convert.h"
#include "ops/harness.h"
#include "ridge/ops/grouped_quantize.h"

namespace ridge::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Doubles = std::vector<double>;

const ops::Operator& op() { return **ops::find_operator("grouped_quantize"); }
ops::Problem bound(const std::string& text) {
  const record::Case one = *record::parse_case(text);
  auto problem = (*ops::find_operator(one.op))->bind(one);
  EXPECT_TRUE(problem.ok()) << text << ": " << (problem.ok() ? "" : problem.error().text());
  return *problem;
}
std::string refused(const std::string& text) {
  const auto problem = op().bind(*record::parse_case(text));
  return problem.ok() ? "taken" : problem.error().text();
}
Operand& named(Operands& operands, const std::string& name) {
  for (Operand& operand : operands.all) {
    if (operand.spec().name == name) return operand;
  }
  ADD_FAILURE() << "no operand " << name;
  return operands.all[0];
}
// The implementation for processors, without a check.
Status run(const ops::Problem& problem, const Operands& operands, int threads = 1, const char* name = "cpu_panels") {
  const ops::Operator& any = **ops::find_operator(problem.problem_case.op);
  return (*ops::find_implementation(any, name))->run(problem, operands.views(), Stream::cpu(threads));
}

// Rows of x with zeros between groups, so many in all. `align` 1: without.
Doubles padded_rows(const Doubles& x, const Doubles& offsets, std::int64_t cols, std::int64_t align,
                    std::int64_t capacity) {
  Doubles y;
  for (std::size_t g = 0; g + 1 < offsets.size(); ++g) {
    const auto row = [&](double at) { return x.begin() + static_cast<std::int64_t>(at) * cols; };
    y.insert(y.end(), row(offsets[g]), row(offsets[g + 1]));
    while (std::ssize(y) % (align * cols) != 0) y.push_back(0);
  }
  y.resize(static_cast<std::size_t>(capacity * cols), 0.0);
  return y;
}

// Codes of y by quantize.
Operands codes_of(const Doubles& y, std::int64_t rows, std::int64_t cols, const std::string& coded,
                  Operands* given = nullptr) {
  const ops::Problem problem = bound(fmt::format("quantize rows={} cols={} {}", rows, cols, coded));
  Operands operands = make_operands(problem, kPacked, 5);
  named(operands, "x").assign(y);
  for (const char* name : {"amax", "random"}) {
    if (given != nullptr && problem.position(name)) named(operands, name).assign(named(*given, name).values());
  }
  EXPECT_TRUE(run(problem, operands).ok());
  return operands;
}

TEST(GroupedQuantize, IsQuantizeOfTheRowsOfGroupsWithZerosBetweenThem) {
  const Doubles offsets[] = {{0, 0, 130, 131, 131, 260, 300},   {7, 7, 7, 7, 7, 7, 7},
                             {0, 300, 300, 300, 300, 300, 300}, {3, 19, 35, 51, 67, 83, 99},
                             {0, 0, 0, 0, 0, 0, 300},           {1, 2, 3, 4, 5, 6, 7},
                             {0, 1, 128, 129, 256, 257, 258},   {299, 299, 299, 299, 299, 299, 300}};
  for (const std::string form :
       {"scaling=1x128 copies=both", "scaling=1x128 align=16 dtype=f32", "scaling=mx copies=both align=32 offsets=i64",
        "scaling=128x128 copies=both format=e5m2 dtype=f16", "scaling=row align=64",
        "scaling=tensor align=16 copies=both", "scaling=tensor amax=given copies=both align=32",
        "scaling=1x128 copies=column rounding=stochastic"}) {
    const ops::Problem problem = bound("grouped_quantize rows=300 cols=140 groups=6 " + form);
    const std::int64_t align = std::stoll(std::string(problem.problem_case.get("align")));
    const std::int64_t capacity = grouped_quantize_capacity(300, 6, align);
    std::string rest = form;
    for (const char* own : {" align=16", " align=32", " align=64", " offsets=i64"}) {
      if (const auto at = rest.find(own); at != std::string::npos) rest.erase(at, std::string(own).size());
    }
    for (const Doubles& begin : offsets) {
      Operands operands = make_operands(problem, kAwkward, 17);
      named(operands, "offsets").assign(begin);
      if (problem.position("random")) named(operands, "random").assign({7, 1000});
      ASSERT_TRUE(run(problem, operands, 3).ok());
      Operands codes = codes_of(padded_rows(named(operands, "x").values(), begin, 140, align, capacity), capacity, 140,
                                rest, &operands);
      for (const Operand& each : codes.all) {
        if (!each.spec().output) continue;
        EXPECT_EQ(named(operands, each.spec().name).values(), each.values())
            << form << " " << each.spec().name << " " << ::testing::PrintToString(begin);
      }
    }
  }
}

// Columns first .. first + count of a row-major matrix.
Doubles columns_of(const Doubles& matrix, std::int64_t cols, std::int64_t first, std::int64_t count) {
  Doubles taken;
  for (auto row = matrix.begin(); row != matrix.end(); row += cols) {
    taken.insert(taken.end(), row + first, row + first + count);
  }
  return taken;
}

TEST(GroupedQuantize, ARowOfTheTransposeHasAScaleForEachGroup) {
  constexpr std::int64_t kRows = 300, kCols = 70, kGroups = 6;
  const std::int64_t capacity = grouped_quantize_capacity(kRows, kGroups, 128);
  for (const std::string form : {"copies=both", "copies=column dtype=f32 format=e5m2", "copies=column scale=floor"}) {
    const ops::Problem problem = bound("grouped_quantize rows=300 cols=70 groups=6 scaling=row " + form);
    for (const Doubles& begin :
         {Doubles{0, 0, 130, 131, 131, 260, 300}, Doubles{7, 7, 7, 7, 7, 7, 7}, Doubles{3, 19, 35, 51, 67, 83, 99}}) {
      Operands operands = make_operands(problem, kAwkward, 17);
      named(operands, "offsets").assign(begin);
      ASSERT_TRUE(run(problem, operands, 3).ok());
      const Doubles x = named(operands, "x").values(), q_t = named(operands, "q_t").values(),
                    scale_t = named(operands, "scale_t").values(), padded = named(operands, "padded").values();
      ASSERT_EQ(std::ssize(scale_t), kGroups * kCols);
      for (std::int64_t g = 0; g < kGroups; ++g) {
        const auto at = static_cast<std::size_t>(g);
        const auto first = static_cast<std::int64_t>(padded[at]),
                   count = static_cast<std::int64_t>(padded[at + 1]) - first;
        const Doubles y = padded_rows(x, {begin[at], begin[at + 1]}, kCols, 128, count);
        Operands codes = codes_of(y, count, kCols, "scaling=row " + form);
        const auto scales = scale_t.begin() + g * kCols;
        EXPECT_EQ(Doubles(scales, scales + kCols), named(codes, "scale_t").values()) << form << " group " << g;
        EXPECT_EQ(columns_of(q_t, capacity, first, count), named(codes, "q_t").values()) << form << " group " << g;
      }
      const auto behind = static_cast<std::int64_t>(padded.back());
      EXPECT_THAT(columns_of(q_t, capacity, behind, capacity - behind), Each(0));
    }
  }
}

// The residual of outputs that a change left, in units of what is allowed. They are then as they were.
double residual(const ops::Problem& problem, Operands& right, const std::function<void(Operands&)>& change) {
  const Operands before = right;
  change(right);
  const auto found = op().spot_check(problem, {right.views(), {}}, 5);
  right = before;
  EXPECT_TRUE(found.ok());
  return found->residual / found->allowed;
}
void change_one(Operand& operand, std::size_t at, double value) {
  Doubles values = operand.values();
  values[at] = value;
  operand.assign(values);
}

// Outputs of two calls that both have.
void expect_same(Operands& found, Operands& expected, const std::string& what) {
  for (const Operand& each : expected.all) {
    if (!each.spec().output) continue;
    EXPECT_EQ(named(found, each.spec().name).values(), each.values()) << what << " " << each.spec().name;
  }
}

TEST(GroupedQuantize, OfOwnRowsIsQuantizeOfThemWithZerosInRowsOfNoGroup) {
  const Doubles offsets = {3, 19, 19, 200, 201, 260, 290};
  for (const std::string form : {"scaling=1x128", "scaling=mx scale=ceil dtype=f32", "scaling=1x128 format=e5m2"}) {
    const ops::Problem problem = bound("grouped_quantize rows=300 cols=140 groups=6 copies=both own_rows=1 " + form),
                       padded = bound("grouped_quantize rows=300 cols=140 groups=6 copies=column " + form);
    Operands own = make_operands(problem, kAwkward, 17), turned = make_operands(padded, kAwkward, 17);
    Doubles x = named(own, "x").values();
    named(own, "offsets").assign(offsets), named(turned, "offsets").assign(offsets);
    named(turned, "x").assign(x);
    ASSERT_TRUE(run(problem, own, 3).ok());
    ASSERT_TRUE(run(padded, turned).ok());
    expect_same(own, turned, form);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i < 3 * 140 || i >= 290 * 140) x[i] = 0;
    }
    std::string coded = form;
    Operands codes = codes_of(x, 300, 140, "copies=row " + coded);
    EXPECT_EQ(named(own, "q").values(), named(codes, "q").values()) << form;
    EXPECT_EQ(named(own, "scale").values(), named(codes, "scale").values()) << form;
  }
}

TEST(GroupedQuantize, RowsThatAreFoundByIndexAreCodedAsCopiesOfThem) {
  const Doubles offsets = {3, 19, 19, 60, 61, 90};
  for (const std::string form : {"copies=both own_rows=1", "scaling=row copies=both dtype=f32", "scaling=128x128"}) {
    const ops::Problem problem = bound("grouped_quantize rows=100 cols=70 groups=5 gather=1 sources=40 " + form),
                       plain = bound("grouped_quantize rows=100 cols=70 groups=5 " + form);
    Operands found = make_operands(problem, kAwkward, 17), copied = make_operands(plain, kAwkward, 3);
    named(found, "offsets").assign(offsets), named(copied, "offsets").assign(offsets);
    Doubles index = named(found, "index").values();
    index[5] = -1, index[6] = 39, index[1] = 1000;  // the last of no group
    named(found, "index").assign(index);
    const Doubles x = named(found, "x").values();
    Doubles rows(100 * 70, 0.0);
    for (std::size_t row = 0; row < 100; ++row) {
      if (index[row] < 0 || index[row] >= 40) continue;
      std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(index[row]) * 70, 70,
                  rows.begin() + static_cast<std::ptrdiff_t>(row) * 70);
    }
    named(copied, "x").assign(rows);
    ASSERT_TRUE(run(problem, found, 3).ok());
    ASSERT_TRUE(run(plain, copied).ok());
    expect_same(found, copied, form);
    EXPECT_LE(residual(problem, found, [](Operands&) {}), 1) << form;
    EXPECT_GT(residual(problem, found,
                       [&](Operands& o) {
                         index[4] = index[4] == 3 ? 4 : 3;
                         named(o, "index").assign(index);
                       }),
              1)
        << "codes of another row: " << form;
    index[20] = 40;
    named(found, "index").assign(index);
    EXPECT_THAT(run(problem, found).error().text(), HasSubstr("index 20 is 40, of 40 rows of x"));
  }
}

// What activation or its backward stores of gate and up side by side.
Doubles made_by_activation(Operands& of, bool backward, const std::string& more, Doubles* dprobs = nullptr) {
  const std::int64_t rows = 300, half = 70;
  const ops::Problem problem =
      bound(fmt::format("activation{} rows={} cols={} {}", backward ? "_backward" : "", rows, half, more));
  Operands operands = make_operands(problem, kPacked, 5);
  const Doubles x = named(of, "x").values();
  named(operands, "x").assign(columns_of(x, 2 * half, 0, half));
  named(operands, "up").assign(columns_of(x, 2 * half, half, half));
  for (const char* name : {"dy", "probs"}) {
    if (problem.position(name)) named(operands, name).assign(named(of, name).values());
  }
  EXPECT_TRUE(run(problem, operands, 1, "cpu_rows").ok());
  if (!backward) return named(operands, "y").values();
  if (dprobs != nullptr) *dprobs = named(operands, "dprobs").values();
  const Doubles dx = named(operands, "dx").values(), dup = named(operands, "dup").values();
  Doubles both;
  for (std::int64_t row = 0; row < rows; ++row) {
    both.insert(both.end(), dx.begin() + row * half, dx.begin() + (row + 1) * half);
    both.insert(both.end(), dup.begin() + row * half, dup.begin() + (row + 1) * half);
  }
  return both;
}

TEST(GroupedQuantize, OfSwigluIsThatOfWhatActivationStores) {
  const Doubles offsets = {3, 19, 19, 200, 201, 260, 290};
  for (const std::string dtype : {"dtype=bf16", "dtype=f16", "dtype=f32"}) {
    for (const bool backward : {false, true}) {
      for (const std::string probs : {"probs=0", "probs=1"}) {
        for (const std::string form : {"copies=both own_rows=1", "copies=both scaling=row", "copies=row align=16"}) {
          const std::int64_t cols = backward ? 140 : 70;
          const auto problem_of = [&](const std::string& of) {
            return bound(fmt::format("grouped_quantize rows=300 cols={} groups=6 {} {} {}", cols, form, dtype, of));
          };
          const ops::Problem problem = problem_of((backward ? "of=swiglu_backward " : "of=swiglu ") + probs),
                             plain = problem_of("");
          Operands made = make_operands(problem, kAwkward, 17), codes = make_operands(plain, kPacked, 5);
          named(made, "offsets").assign(offsets), named(codes, "offsets").assign(offsets);
          named(codes, "x").assign(made_by_activation(made, backward, dtype + " " + probs));
          ASSERT_TRUE(run(problem, made, 2).ok());
          ASSERT_TRUE(run(plain, codes).ok());
          expect_same(made, codes, problem.problem_case.text());
        }
      }
    }
  }
}

TEST(GroupedQuantize, TheGradientOfFactorsIsThatOfActivationWhereRowsAreOfAGroup) {
  for (const std::string dtype : {"dtype=bf16", "dtype=f16", "dtype=f32"}) {
    const std::string more = dtype + " probs=1";
    const ops::Problem problem =
        bound("grouped_quantize rows=300 cols=140 groups=6 copies=both own_rows=1 of=swiglu_backward dprobs=1 " + more);
    Operands made = make_operands(problem, kAwkward, 17);
    named(made, "offsets").assign({3, 19, 19, 200, 201, 260, 290});
    Doubles expected;
    made_by_activation(made, true, more, &expected);
    std::fill_n(expected.begin(), 3, 0.0), std::fill_n(expected.begin() + 290, 10, 0.0);
    for (const int threads : {1, 3}) {
      ASSERT_TRUE(run(problem, made, threads).ok());
      EXPECT_EQ(named(made, "dprobs").values(), expected) << dtype;
    }
    EXPECT_LE(residual(problem, made, [](Operands&) {}), 1) << dtype;
    for (const std::size_t row : {0, 3, 250, 299}) {
      EXPECT_GT(residual(problem, made, [&](Operands& o) { change_one(named(o, "dprobs"), row, 7.5); }), 1) << row;
    }
  }
}

TEST(GroupedQuantize, TheCheckAfterEveryLaunchCatchesCodesOfWhatWasNotRoundedFirst) {
  const ops::Problem problem = bound("grouped_quantize rows=200 cols=256 groups=2 copies=both own_rows=1 of=swiglu"),
                     wide = bound(
                         "grouped_quantize rows=200 cols=256 groups=2 copies=both own_rows=1 of=swiglu dtype=f32");
  Operands right = make_operands(problem, kPacked, 8), unrounded = make_operands(wide, kPacked, 8);
  named(right, "offsets").assign({5, 100, 190}), named(unrounded, "offsets").assign({5, 100, 190});
  named(unrounded, "x").assign(named(right, "x").values());
  ASSERT_TRUE(run(problem, right).ok());
  ASSERT_TRUE(run(wide, unrounded).ok());
  EXPECT_LE(residual(problem, right, [](Operands&) {}), 1);
  const auto with = [&](const char* name) {
    return residual(problem, right, [&](Operands& o) { named(o, name).assign(named(unrounded, name).values()); });
  };
  EXPECT_GT(with("q"), 1);
  EXPECT_GT(with("q_t"), 1);
  EXPECT_GT(residual(problem, right, [](Operands& o) { change_one(named(o, "q"), 4 * 256, 0x1p-9); }), 1)
      << "a row of no group";
  EXPECT_GT(residual(problem, right, [](Operands& o) { change_one(named(o, "scale"), 195, 0.5); }), 1)
      << "its scale is 1";
}

// silu(-95) is below the normal numbers of fp32, where its error is larger than itself: no zero is expected for that.
TEST(GroupedQuantize, TheCheckAfterEveryLaunchTakesWhatAlmostVanishes) {
  for (const std::string of : {"of=swiglu", "of=swiglu_backward"}) {
    const ops::Problem problem =
        bound("grouped_quantize rows=130 cols=64 groups=2 copies=both own_rows=1 scaling=mx " + of);
    Operands operands = make_operands(problem, kPacked, 8);
    const bool backward = of == "of=swiglu_backward";
    const std::size_t half = backward ? 32 : 64;
    Doubles x(130 * 2 * half, 1.0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i % (2 * half) < half) x[i] = -95;
    }
    named(operands, "x").assign(x);
    if (backward) named(operands, "dy").assign(Doubles(130 * half, 1.0));
    named(operands, "offsets").assign({0, 70, 130});
    ASSERT_TRUE(run(problem, operands).ok());
    EXPECT_LE(residual(problem, operands, [](Operands&) {}), 1) << of;
  }
}

// Rows 1 .. 3 and 3 .. 4 of x [5, 2] in two groups of three, the second empty; quantised by hand.
struct Tokens {
  std::vector<float> x = {1e30F, 1e30F, 448, -224, 1, 2, 3.5F, -7, 1e30F, 1e30F};
  std::vector<std::int32_t> offsets = {1, 3, 3, 4}, padded = {-9, -9, -9, -9};
  std::vector<unsigned char> q = std::vector<unsigned char>(48 * 2, 0x55);
  std::vector<float> scale = std::vector<float>(48, -9);

  GroupedQuantizeArgs args() {
    GroupedQuantizeArgs args;
    args.x = TensorView::contiguous(x.data(), DType::kF32, {5, 2});
    args.offsets = TensorView::contiguous(offsets.data(), DType::kI32, {std::ssize(offsets)});
    args.padded = TensorView::contiguous(padded.data(), DType::kI32, {std::ssize(padded)});
    args.q = TensorView::contiguous(q.data(), DType::kE4m3fn, {48, 2});
    args.scale = TensorView::contiguous(scale.data(), DType::kF32, {1, 48});
    args.align = 16;
    return args;
  }
  double code(std::size_t row, std::size_t col) const { return numerics::decode(DType::kE4m3fn, q[2 * row + col]); }
};

std::string error_of(const GroupedQuantizeArgs& args) {
  const Status status = grouped_quantize(args, Stream::cpu());
  return status ? std::string() : status.error().text();
}

TEST(GroupedQuantize, PutsEachGroupAtAMultipleAndZerosEverywhereElse) {
  Tokens tokens;
  ASSERT_EQ(grouped_quantize_capacity(5, 3, 16), 48);
  ASSERT_EQ(error_of(tokens.args()), "");
  EXPECT_THAT(tokens.padded, ElementsAre(0, 16, 16, 32));
  for (std::size_t row = 0; row < 48; ++row) {
    if (row == 0 || row == 1 || row == 16) continue;
    EXPECT_EQ(tokens.q[2 * row], 0) << row;
    EXPECT_EQ(tokens.q[2 * row + 1], 0) << row;
    EXPECT_EQ(tokens.scale[row], 1) << row;
  }
  EXPECT_EQ(tokens.scale[0], 1);
  EXPECT_EQ(tokens.code(0, 0), 448);
  EXPECT_EQ(tokens.code(0, 1), -224);
  EXPECT_EQ(tokens.scale[1], 2.0F / 448);
  EXPECT_EQ(tokens.code(1, 1), 448);
  EXPECT_EQ(tokens.code(16, 0), 224);
  EXPECT_EQ(tokens.code(16, 1), -448);
}

TEST(GroupedQuantize, WhatOtherGroupsAndRowsOfNoGroupHoldChangesNothing) {
  for (const std::string form : {"scaling=1x128", "scaling=mx align=32", "scaling=128x128", "scaling=row"}) {
    const ops::Problem problem = bound("grouped_quantize rows=60 cols=40 groups=3 dtype=f32 copies=both " + form);
    Operands clean = make_operands(problem, kPacked, 3), dirty = make_operands(problem, kPacked, 3);
    Doubles x = named(dirty, "x").values();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t row = i / 40;
      if (row < 2 || row >= 50) x[i] = std::numeric_limits<double>::quiet_NaN();
      if (row >= 20 && row < 37) x[i] *= 1000;
    }
    named(dirty, "x").assign(x);
    for (Operands* operands : {&clean, &dirty}) {
      named(*operands, "offsets").assign({2, 20, 37, 50});
      ASSERT_TRUE(run(problem, *operands).ok());
    }
    const Doubles padded = named(clean, "padded").values();
    EXPECT_EQ(padded, named(dirty, "padded").values());
    const Doubles of_clean = named(clean, "q_t").values(), of_dirty = named(dirty, "q_t").values();
    const std::size_t capacity = of_clean.size() / 40;
    for (std::size_t i = 0; i < of_clean.size(); ++i) {
      const auto row = static_cast<double>(i % capacity);
      if (row >= padded[1] && row < padded[2]) continue;
      ASSERT_EQ(of_clean[i], of_dirty[i]) << form << " row " << row;
    }
    const Doubles scales = named(clean, "scale_t").values();
    Doubles changed = named(dirty, "scale_t").values();
    std::size_t differ = 0;
    for (std::size_t i = 0; i < scales.size(); ++i) differ += scales[i] != changed[i] ? 1 : 0;
    EXPECT_EQ(differ, form == "scaling=128x128" ? 1u : 40u) << form << ": the scales of one group";
  }
}

TEST(GroupedQuantize, AGivenMagnitudeIsThatOfTheRowsOfGroups) {
  const ops::Problem problem = bound("grouped_quantize rows=20 cols=8 groups=2 align=16 scaling=tensor amax=given");
  Operands operands = make_operands(problem, kPacked, 3);
  Doubles x(160, 0.5);
  x[0] = std::numeric_limits<double>::infinity(), x[9] = -3, x[159] = 100;
  named(operands, "x").assign(x);
  named(operands, "offsets").assign({1, 1, 19});
  ASSERT_TRUE(run(problem, operands).ok());
  EXPECT_THAT(named(operands, "found").values(), ElementsAre(3));
}

TEST(GroupedQuantize, TheCheckAfterEveryLaunchCatchesRowsThatLieElsewhere) {
  const ops::Problem problem = bound("grouped_quantize rows=300 cols=40 groups=3 copies=both");
  const std::int64_t capacity = grouped_quantize_capacity(300, 3, 128);
  const Doubles offsets = {5, 100, 230, 290};
  Operands right = make_operands(problem, kPacked, 8);
  named(right, "offsets").assign(offsets);
  ASSERT_TRUE(run(problem, right).ok());
  EXPECT_THAT(named(right, "padded").values(), ElementsAre(0, 128, 384, 512));
  EXPECT_LE(residual(problem, right, [](Operands&) {}), 1);
  const auto with = [&](const std::function<void(Operands&)>& change) { return residual(problem, right, change); };
  EXPECT_GT(with([](Operands& o) { change_one(named(o, "q"), 95 * 40, 0x1p-9); }), 1) << "the first row of padding";
  EXPECT_GT(with([](Operands& o) { change_one(named(o, "q"), 600 * 40, 0x1p-9); }), 1) << "behind the last group";
  EXPECT_GT(with([=](Operands& o) { change_one(named(o, "q_t"), static_cast<std::size_t>(capacity + 383), 0x1p-9); }),
            1);
  EXPECT_GT(with([](Operands& o) { change_one(named(o, "scale"), 96, 0); }), 1) << "the scale of zeros is 1";
  EXPECT_GT(with([](Operands& o) { change_one(named(o, "padded"), 1, 127); }), 1);
  EXPECT_GT(with([](Operands& o) { change_one(named(o, "padded"), 3, 640); }), 1);
  const auto with_rows_of = [&](const Doubles& begin, std::int64_t align) {
    Operands codes = codes_of(padded_rows(named(right, "x").values(), begin, 40, align, capacity), capacity, 40,
                              "scaling=1x128 copies=both");
    return with([&](Operands& o) {
      for (const char* name : {"q", "scale", "q_t", "scale_t"}) named(o, name).assign(named(codes, name).values());
    });
  };
  EXPECT_LE(with_rows_of(offsets, 128), 1);
  EXPECT_GT(with_rows_of({5, 101, 230, 290}, 128), 1) << "a row in the group before its own";
  EXPECT_GT(with_rows_of({5, 100, 230, 291}, 128), 1) << "a row of no group";
  EXPECT_GT(with_rows_of({4, 100, 230, 290}, 128), 1);
  EXPECT_GT(with_rows_of(offsets, 64), 1) << "a block that two groups share";
  EXPECT_GT(with_rows_of(offsets, 1), 1) << "no padding";
}

// Codes are right for their scales, but those of the transpose are of blocks that begin where the group does in x.
TEST(GroupedQuantize, TheCheckAfterEveryLaunchCatchesABlockOfTwoGroups) {
  const ops::Problem problem = bound("grouped_quantize rows=256 cols=4 groups=2 copies=column");
  Operands right = make_operands(problem, kPacked, 8);
  Doubles x(256 * 4, 1.0);
  for (std::size_t i = 0; i < 130 * 4; ++i) x[i] = 0.25;  // the first group
  named(right, "x").assign(x);
  named(right, "offsets").assign({0, 130, 256});
  ASSERT_TRUE(run(problem, right).ok());
  EXPECT_LE(residual(problem, right, [](Operands&) {}), 1);
  EXPECT_EQ(named(right, "scale_t").values()[4], static_cast<float>(0.25) / 448.0F) << "the second block of group 0";
  // Of a block over the end of the first group the largest is 1: scale and codes of its two rows follow.
  EXPECT_GT(residual(problem, right,
                     [](Operands& o) {
                       change_one(named(o, "scale_t"), 4, 1.0F / 448.0F);
                       change_one(named(o, "q_t"), 128, 112), change_one(named(o, "q_t"), 129, 112);
                     }),
            1);
}

TEST(GroupedQuantize, TheCheckAfterEveryLaunchCatchesAScaleOfTwoGroups) {
  const ops::Problem problem = bound("grouped_quantize rows=256 cols=4 groups=2 copies=column scaling=row");
  Operands right = make_operands(problem, kPacked, 8);
  Doubles x(256 * 4, 1.0);
  for (std::size_t i = 0; i < 130 * 4; ++i) x[i] = 0.25;  // the first group
  named(right, "x").assign(x);
  named(right, "offsets").assign({0, 130, 256});
  ASSERT_TRUE(run(problem, right).ok());
  EXPECT_LE(residual(problem, right, [](Operands&) {}), 1);
  const Doubles scales = named(right, "scale_t").values();
  EXPECT_THAT(scales, ElementsAre(0.25F / 448, 0.25F / 448, 0.25F / 448, 0.25F / 448, 1.0F / 448, 1.0F / 448,
                                  1.0F / 448, 1.0F / 448));
  // Of all rows the largest is 1: scale and codes of the first group follow.
  const std::int64_t capacity = grouped_quantize_capacity(256, 2, 128);
  EXPECT_GT(residual(problem, right,
                     [&](Operands& o) {
                       Doubles codes = named(o, "q_t").values();
                       for (std::int64_t i = 0; i < 130; ++i) codes[static_cast<std::size_t>(capacity + i)] = 112;
                       named(o, "q_t").assign(codes);
                       change_one(named(o, "scale_t"), 1, 1.0F / 448);
                     }),
            1);
  EXPECT_GT(residual(problem, right, [](Operands& o) { change_one(named(o, "scale_t"), 0, 1.0F / 448); }), 1);
}

TEST(GroupedQuantize, WrongOffsetsAreNamedAndNothingIsWritten) {
  Tokens tokens;
  const auto refused_with = [&](std::vector<std::int32_t> offsets) {
    tokens.offsets = std::move(offsets);
    const std::string text = error_of(tokens.args());
    EXPECT_THAT(tokens.q, Each(0x55));
    EXPECT_THAT(tokens.scale, Each(-9));
    EXPECT_THAT(tokens.padded, Each(-9));
    return text;
  };
  EXPECT_THAT(refused_with({0, 3, 2, 4}), HasSubstr("grouped_quantize: offset 2 is 2, after 3 and of 5 rows"));
  EXPECT_THAT(refused_with({-1, 3, 4, 4}), HasSubstr("offset 0 is -1"));
  EXPECT_THAT(refused_with({0, 3, 4, 6}), HasSubstr("offset 3 is 6, after 4 and of 5 rows"));
}

TEST(GroupedQuantize, SaysWhatIsWrongWithItsArguments) {
  Tokens tokens;
  std::vector<unsigned char> q_t(96);
  std::vector<float> scale_t(96);
  const auto error = [&](auto&& change) {
    GroupedQuantizeArgs args = tokens.args();
    change(args);
    return error_of(args);
  };
  EXPECT_THAT(error([](auto& a) { a.align = 24; }), HasSubstr("align is 24"));
  EXPECT_THAT(error([](auto& a) { a.align = 0, a.q = TensorView(); }), HasSubstr("align is 0"));
  EXPECT_THAT(error([](auto& a) { a.align = 32; }), HasSubstr("q is e4m3fn [48, 2]; it must be e4m3fn [96, 2]"));
  EXPECT_THAT(error([](auto& a) { a.offsets.dtype = DType::kF32; }), HasSubstr("give i32 or i64"));
  EXPECT_THAT(error([](auto& a) { a.padded.shape[0] = 3; }), HasSubstr("padded is i32 [3]; it must be i32 [4]"));
  EXPECT_THAT(error([](auto& a) { a.padded = a.offsets; }), HasSubstr("padded overlaps offsets"));
  EXPECT_THAT(error([](auto& a) { a.offsets.shape[0] = a.padded.shape[0] = 1; }), HasSubstr("0 groups"));
  EXPECT_THAT(error([](auto& a) { a.scale.data = a.x.data; }), HasSubstr("scale overlaps x"));
  EXPECT_THAT(error([](auto& a) { a.padded.data = a.q.data; }), HasSubstr("q overlaps padded"));
  EXPECT_THAT(error([](auto& a) { a.q = TensorView(); }), HasSubstr("neither q nor q_t is given"));
  EXPECT_THAT(error([](auto& a) { a.granularity = Granularity::kBlock; }),
              HasSubstr("align is 16, and 128 rows share a scale of q with 128x128 scales"));
  EXPECT_THAT(error([&](auto& a) {
                a.q_t = TensorView::contiguous(q_t.data(), DType::kE4m3fn, {2, 48});
              }),
              HasSubstr("128 rows share a scale of q_t with 1x128 scales"));
  const std::string both = "grouped_quantize copies=both ";
  EXPECT_THAT(refused(both + "scaling=row align=64"),
              HasSubstr("align is 64, and products read q_t with row scales 128 columns at a time"));
  EXPECT_EQ(refused(both + "scaling=row"), "taken");
  EXPECT_THAT(refused(both + "scaling=mx align=16"), HasSubstr("give a multiple of 32"));
  EXPECT_EQ(refused(both + "scaling=mx align=32"), "taken");
  EXPECT_THAT(refused("grouped_quantize groups=0"), HasSubstr("0 groups"));
  EXPECT_THAT(refused("grouped_quantize rows=2147483647 cols=1"), HasSubstr("offsets are i32"));
  EXPECT_EQ(refused("grouped_quantize rows=2147483647 cols=1 offsets=i64"), "taken");
  EXPECT_THAT(refused("grouped_quantize align=0"), HasSubstr("align is 0"));
  EXPECT_THAT(refused("grouped_quantize own_rows=1"), HasSubstr("own_rows without both copies"));
  EXPECT_THAT(refused(both + "own_rows=1 scaling=row"), HasSubstr("own_rows with row scales"));
  EXPECT_THAT(refused(both + "own_rows=1 scaling=mx align=32"), HasSubstr("own_rows with align 32"));
  EXPECT_THAT(refused("grouped_quantize probs=1"), HasSubstr("probs of rows that are coded as they are"));
  EXPECT_THAT(refused("grouped_quantize of=swiglu_backward cols=3"), HasSubstr("cols is 3 of two halves"));
  EXPECT_THAT(refused("grouped_quantize sources=3"), HasSubstr("sources=3 without gather"));
  EXPECT_THAT(refused("grouped_quantize of=swiglu gather=1"), HasSubstr("gather=1, and of is not rows"));
  EXPECT_THAT(error([](auto& a) { a.index = a.x; }), HasSubstr("index has rank 2"));
  EXPECT_THAT(error([](auto& a) { a.index = a.offsets, a.index.dtype = DType::kI64; }), HasSubstr("index is i64"));
  EXPECT_THAT(error([](auto& a) { a.index = a.offsets, a.of = GroupedQuantizeOf::kSwiglu; }),
              HasSubstr("index, and of is not kRows"));
  const std::string backward = "grouped_quantize of=swiglu_backward dprobs=1 ";
  EXPECT_THAT(refused(backward), HasSubstr("dprobs is wanted and there are no probs"));
  EXPECT_EQ(refused(backward + "probs=1"), "taken");
  EXPECT_THAT(refused("grouped_quantize of=swiglu probs=1 dprobs=1"), HasSubstr("of is not swiglu_backward"));
  EXPECT_THAT(error([](auto& a) { a.dprobs = a.scale; }), HasSubstr("of is not swiglu_backward"));
  EXPECT_THAT(error([](auto& a) { a.own_rows = true; }), HasSubstr("own_rows without both copies"));
  EXPECT_THAT(error([](auto& a) { a.probs = a.scale; }), HasSubstr("probs of rows that are coded as they are"));
  EXPECT_THAT(error([](auto& a) { a.dy = a.x; }), HasSubstr("dy, and of is not kSwigluBackward"));
  EXPECT_THAT(error([](auto& a) { a.of = GroupedQuantizeOf::kSwigluBackward, a.dy = a.x; }), HasSubstr("dy"));
}

}  // namespace
}  // namespace ridge::testing
