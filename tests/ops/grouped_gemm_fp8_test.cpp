// What is particular to grouped products of 8-bit floats: they are gemm_fp8 of each group, bit for bit; offsets that
// leave rows out or are wrong; what other groups hold; sums added to C; and mistakes that the checks must see.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "ops/harness.h"
#include "ops/row_groups.h"
#include "ridge/ops/gemm_fp8.h"
#include "ridge/ops/grouped_gemm_fp8.h"

namespace ridge::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

enum : std::size_t { kA, kB, kScaleA, kScaleB, kOffsets, kC };
using Values = std::vector<double>;

const ops::Operator& op() { return **ops::find_operator("grouped_gemm_fp8"); }

ops::Problem bound(const std::string& words) {
  const auto problem = op().bind(*record::parse_case("grouped_gemm_fp8 " + words));
  EXPECT_TRUE(problem.ok()) << words;
  return *problem;
}

Status run(const ops::Problem& problem, const Operands& operands, int threads = 2) {
  return (*ops::find_implementation(op(), "cpu_groups"))->run(problem, operands.views(), Stream::cpu(threads));
}

// Operands with these offsets.
Operands with_offsets(const ops::Problem& problem, const Values& offsets, const Layout& layout = kPacked) {
  Operands operands = make_operands(problem, layout, 7);
  operands.all[kOffsets].assign(offsets);
  return operands;
}

TEST(GroupedGemmFp8, IsGemmFp8OfEachGroup) {
  const Values of_rows = {3, 40, 40, 41, 107}, of_sums = {128, 256, 256, 640, 768};
  for (const char* words :
       {"rows=110 groups=4 k=200 n=140 out=f32", "rows=110 groups=4 k=128 n=24 dtype=e5m2_e4m3fn",
        "rows=110 groups=4 k=200 n=140 out=f32 scaling=row", "rows=110 groups=4 k=72 n=24 scaling=tensor dtype=e5m2",
        "rows=900 groups=4 m=40 n=30 along=sums out=f32", "rows=768 groups=4 m=40 n=31 along=sums scaling=row",
        "rows=768 groups=4 m=8 n=9 along=sums scaling=tensor",
        "rows=768 groups=4 m=24 n=56 along=sums out=f16 dtype=e4m3fn_e5m2 offsets=i64"}) {
    const ops::Problem problem = bound(words);
    const bool sums = problem.problem_case.get("along", "rows") == "sums";
    const std::string scaling = problem.problem_case.get("scaling", "block");
    const Values& at = sums ? of_sums : of_rows;
    for (const Layout& layout : {kPacked, kAwkward}) {
      Operands operands = with_offsets(problem, at, layout);
      ASSERT_TRUE(run(problem, operands)) << words;
      const std::vector<TensorView> v = operands.views();
      for (std::size_t g = 0; g + 1 < at.size(); ++g) {
        const auto first = static_cast<std::int64_t>(at[g]), last = static_cast<std::int64_t>(at[g + 1]);
        GemmFp8Args args;
        args.trans_b = true;
        const auto matrix = static_cast<std::int64_t>(g);
        args.a = sums ? ops::columns_of(v[kA], first, last) : ops::rows_of(v[kA], first, last);
        args.b = sums ? ops::columns_of(v[kB], first, last) : ops::matrix_of(v[kB], matrix);
        if (scaling == "tensor") {
          args.scaling = Fp8Scaling::kTensor;
          args.scale_a = ops::rows_of(v[kScaleA], matrix, matrix + 1);
          args.scale_b = ops::rows_of(v[kScaleB], matrix, matrix + 1);
        } else if (scaling == "row") {
          args.scaling = Fp8Scaling::kRow;
          args.scale_a = sums ? ops::matrix_of(v[kScaleA], matrix) : ops::rows_of(v[kScaleA], first, last);
          args.scale_b = ops::matrix_of(v[kScaleB], matrix);
        } else {
          args.scaling = sums ? Fp8Scaling::kVector : Fp8Scaling::kBlock;
          args.scale_a =
              sums ? ops::rows_of(v[kScaleA], first / 128, last / 128) : ops::columns_of(v[kScaleA], first, last);
          args.scale_b = sums ? ops::rows_of(v[kScaleB], first / 128, last / 128) : ops::matrix_of(v[kScaleB], matrix);
        }
        const TensorView c = sums ? ops::matrix_of(v[kC], matrix) : ops::rows_of(v[kC], first, last);
        ops::OperandSpec spec{"c", c.dtype, {c.shape[0], c.shape[1]}, true};
        Operand alone(spec, kPacked), found(spec, kPacked);
        args.c = alone.view();
        const Status status = gemm_fp8(args, Stream::cpu(1));
        ASSERT_TRUE(status.ok()) << status.error().text();
        const Values all = operands.all[kC].values();
        const auto size = static_cast<std::ptrdiff_t>(c.element_count());
        const std::ptrdiff_t begin = sums ? matrix * size : first * c.shape[1];
        EXPECT_EQ(Values(all.begin() + begin, all.begin() + begin + size), alone.values()) << words << ", group " << g;
      }
    }
  }
}

// As the codes of the transposes of a stack lie that were made in one call: a row of every matrix, then the next.
TEST(GroupedGemmFp8, RowsOfAStackMayLieBetweenThoseOfOtherMatrices) {
  const ops::Problem problem = bound("rows=110 groups=4 k=128 n=24 out=f32");
  Operands dense = with_offsets(problem, {3, 40, 40, 41, 107}), other = with_offsets(problem, {3, 40, 40, 41, 107});
  std::vector<TensorView> views = other.views();
  TensorView& b = views[kB];
  auto* const codes = static_cast<unsigned char*>(b.data);
  std::vector<unsigned char> between(4 * 24 * 128);
  for (int matrix = 0; matrix < 4; ++matrix) {
    for (int row = 0; row < 24; ++row) {
      std::copy_n(codes + (matrix * 24 + row) * 128, 128, &between[(row * 4 + matrix) * 128]);
    }
  }
  b.data = between.data();
  b.stride = {128, 4 * 128, 1};
  ASSERT_TRUE(run(problem, dense));
  ASSERT_TRUE((*ops::find_implementation(op(), "cpu_groups"))->run(problem, views, Stream::cpu(2)));
  EXPECT_EQ(dense.all[kC].values(), other.all[kC].values());
}

TEST(GroupedGemmFp8, RowsOfNoGroupAreZeroAndNeitherTheyNorOtherGroupsCount) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const ops::Problem problem = bound("rows=20 groups=4 k=32 n=16 out=f32");
  const Values at = {2, 7, 7, 12, 17};
  Operands clean = with_offsets(problem, at), dirty = with_offsets(problem, at);
  Values a = dirty.all[kA].values(), scale = dirty.all[kScaleA].values(), b = dirty.all[kB].values();
  std::fill_n(a.begin(), 32, nan);                 // row 0
  std::fill_n(a.begin() + 9 * 32, 32, nan);        // row 9, of group 2
  scale[19] = nan;                                 // of row 19
  std::fill_n(b.begin() + 16 * 32, 16 * 32, nan);  // the matrix of group 1, which has no rows
  dirty.all[kA].assign(a), dirty.all[kScaleA].assign(scale), dirty.all[kB].assign(b);
  ASSERT_TRUE(run(problem, clean));
  ASSERT_TRUE(run(problem, dirty));
  const Values right = clean.all[kC].values(), found = dirty.all[kC].values();
  for (std::size_t row = 0; row < 20; ++row) {
    for (std::size_t e = row * 16; e < (row + 1) * 16; ++e) {
      if (row == 9) {
        EXPECT_TRUE(std::isnan(found[e]));
      } else {
        EXPECT_EQ(found[e], row < 2 || row >= 17 ? 0 : right[e]) << row;
      }
    }
  }
}

TEST(GroupedGemmFp8, SumsAreAddedAndAGroupWithoutRowsKeepsItsMatrix) {
  for (const char* more : {"out=f32 accumulate=1", "out=bf16 accumulate=1", "out=f32"}) {
    const ops::Problem problem = bound(fmt::format("rows=512 groups=3 m=8 n=16 along=sums {}", more));
    Operands before = with_offsets(problem, {0, 128, 128, 384}), after = with_offsets(problem, {0, 128, 128, 384});
    ASSERT_TRUE(run(problem, after));
    EXPECT_EQ(judge(op(), problem, before, after, 7), "") << more;
    const Values old = before.all[kC].values(), found = after.all[kC].values();
    const Values empty(found.begin() + 128, found.begin() + 256);
    if (problem.operands[kC].read_write) {
      EXPECT_EQ(empty, Values(old.begin() + 128, old.begin() + 256));
    } else {
      EXPECT_THAT(empty, Each(0.0));
    }
  }
}

TEST(GroupedGemmFp8, WrongOffsetsAreNamedAndNothingIsWritten) {
  const auto refused = [](const char* words, const Values& offsets) {
    const ops::Problem problem = bound(words);
    Operands operands = with_offsets(problem, offsets);
    const std::vector<unsigned char> before = operands.all[kC].bytes();
    const Status status = run(problem, operands);
    EXPECT_EQ(operands.all[kC].bytes(), before);
    return status.ok() ? std::string("taken") : status.error().text();
  };
  const char* const rows = "rows=11 groups=2 k=8 n=8";
  EXPECT_THAT(refused(rows, {0, 9, 2}), HasSubstr("offset 2 is 2, after 9 and of 11 rows"));
  EXPECT_THAT(refused(rows, {-1, 9, 9}), HasSubstr("offset 0 is -1"));
  EXPECT_THAT(refused(rows, {0, 9, 12}), HasSubstr("offset 2 is 12, after 9 and of 11 rows"));
  EXPECT_EQ(refused("rows=11 groups=1 k=8 n=0", {0, 11}), "taken");
  const char* const sums = "rows=300 groups=2 m=8 n=8 along=sums";
  EXPECT_THAT(refused(sums, {0, 100, 256}), HasSubstr("offset 1 is 100, and 128 rows are a step of the sums"));
  EXPECT_THAT(refused(sums, {0, 128, 300}), HasSubstr("offset 2 is 300, and 128 rows are a step of the sums"));
}

TEST(GroupedGemmFp8, SaysWhatDoesNotGoTogether) {
  const ops::Problem problem = bound("rows=20 groups=2 k=200 n=16");
  const Operands operands = with_offsets(problem, {0, 5, 20});
  const auto error = [&](auto&& change) {
    const std::vector<TensorView> v = operands.views();
    GroupedGemmFp8Args args{v[kA], v[kB], v[kScaleA], v[kScaleB], v[kOffsets], v[kC]};
    change(args);
    const Status status = grouped_gemm_fp8(args, Stream::cpu(1));
    return status.ok() ? std::string("taken") : status.error().text();
  };
  EXPECT_EQ(error([](auto&) {}), "taken");
  EXPECT_THAT(error([](auto& args) { args.accumulate = true; }), HasSubstr("accumulate along rows"));
  EXPECT_THAT(error([](auto& args) { args.along_sums = true; }), HasSubstr("rank"));
  EXPECT_THAT(error([](auto& args) { args.scale_a = args.scale_b; }), HasSubstr("scale_a"));
  EXPECT_THAT(error([](auto& args) { args.scale_a.shape[0] = 1; }), HasSubstr("scale_a"));
  EXPECT_THAT(error([](auto& args) { args.scale_b.shape[2] = 1; }), HasSubstr("scale_b"));
  EXPECT_THAT(error([](auto& args) { args.b.shape[2] = 199; }), HasSubstr("check along_sums and scaling"));
  EXPECT_THAT(error([](auto& args) { args.b.stride[0] = args.b.stride[1]; }), HasSubstr("contiguous and apart"));
  EXPECT_THAT(error([](auto& args) { args.scaling = GroupedFp8Scaling::kRow; }),
              HasSubstr("scale_a has rank 2; it must have rank 1"));
  EXPECT_THAT(error([](auto& args) { args.offsets.dtype = DType::kF32; }), HasSubstr("give i32 or i64"));
  EXPECT_THAT(error([](auto& args) { args.a.dtype = DType::kBf16; }), HasSubstr("e4m3fn or e5m2"));
  EXPECT_THAT(error([](auto& args) { args.c.dtype = DType::kE5m2; }), HasSubstr("C cannot be"));
  EXPECT_THAT(error([](auto& args) { args.c.data = args.a.data; }), HasSubstr("C"));
  const auto refused = [](const char* words) {
    const auto made = op().bind(*record::parse_case(std::string("grouped_gemm_fp8 ") + words));
    return made ? std::string("taken") : made.error().text();
  };
  EXPECT_THAT(refused("groups=0"), HasSubstr("0 groups"));
  EXPECT_THAT(refused("along=sums k=5"), HasSubstr("give m and n"));
  EXPECT_THAT(refused("m=5"), HasSubstr("give k and n"));
  EXPECT_THAT(refused("accumulate=1"), HasSubstr("without along=sums"));
  EXPECT_THAT(refused("sources=5"), HasSubstr("sources=5 without gather"));
  EXPECT_THAT(refused("gather=1 along=sums"), HasSubstr("rows by index along sums"));
}

// Numbers of rows of A for a call on 20 rows of two groups, the first 5 and the last of none.
TensorView index_view(const std::vector<std::int32_t>& index) {
  return TensorView::contiguous(const_cast<std::int32_t*>(index.data()), DType::kI32,
                                {static_cast<std::int64_t>(index.size())});
}
std::vector<std::int32_t> some_index() {
  return {900, -7, 3, 900, 900, 6, 6, 0, -1, 2, 1, 6, 4, -3, 5, 0, 1, 2, 3, 900};
}

TEST(GroupedGemmFp8, RowsByIndexHaveTheBitsOfCopies) {
  for (const char* scaling : {"block", "row", "tensor"}) {
    const std::string words = std::string("rows=20 groups=2 k=200 n=16 out=f32 scaling=") + scaling;
    const ops::Problem copied = bound(words.c_str()),
                       sources = bound(("groups=2 k=200 n=16 rows=7 scaling=" + std::string(scaling)).c_str());
    const Operands right = with_offsets(copied, {5, 12, 19}), of = with_offsets(sources, {0, 3, 7});
    const std::vector<TensorView> r = right.views(), s = of.views();
    std::vector<std::int32_t> index = some_index();
    for (std::size_t row = 0; row < index.size(); ++row) {
      const bool has = index[row] >= 0 && index[row] < 7;
      const auto at = static_cast<std::int64_t>(row);
      auto* const to = static_cast<unsigned char*>(r[kA].data) + at * r[kA].stride[0];
      for (std::int64_t p = 0; p < 200; ++p) {
        to[p] = has ? static_cast<const unsigned char*>(s[kA].data)[index[row] * s[kA].stride[0] + p] : std::uint8_t{0};
      }
      const bool vector = r[kScaleA].rank == 1;
      for (std::int64_t step = 0; r[kScaleA].element_count() != 2 && step < (vector ? 1 : r[kScaleA].shape[0]);
           ++step) {
        const std::int64_t mine = vector ? at : step * r[kScaleA].stride[0] + at;
        const std::int64_t other = vector ? index[row] : step * s[kScaleA].stride[0] + index[row];
        static_cast<float*>(r[kScaleA].data)[mine] = has ? static_cast<const float*>(s[kScaleA].data)[other] : 0.0F;
      }
    }
    GroupedGemmFp8Args args{r[kA], r[kB], r[kScaleA], r[kScaleB], r[kOffsets], r[kC]};
    args.scaling = scaling[0] == 'b'   ? GroupedFp8Scaling::kBlock
                   : scaling[0] == 'r' ? GroupedFp8Scaling::kRow
                                       : GroupedFp8Scaling::kTensor;
    ASSERT_TRUE(grouped_gemm_fp8(args, Stream::cpu(2)).ok());
    const Values expected = right.all[kC].values();
    std::fill_n(static_cast<float*>(r[kC].data), 20 * 16, 7.0F);
    args.a = s[kA], args.index_a = index_view(index);
    if (args.scaling != GroupedFp8Scaling::kTensor) args.scale_a = s[kScaleA];
    ASSERT_TRUE(grouped_gemm_fp8(args, Stream::cpu(2)).ok());
    EXPECT_EQ(right.all[kC].values(), expected) << scaling;
    // A row of a group that there is not: nothing is written.
    index[7] = 7;
    const Status wrong = grouped_gemm_fp8(args, Stream::cpu(2));
    ASSERT_FALSE(wrong.ok());
    EXPECT_THAT(wrong.error().text(), HasSubstr("index 7 is 7, of 7 rows of A"));
    EXPECT_EQ(right.all[kC].values(), expected);
    const std::vector<std::int32_t> short_one(19, 0);
    args.index_a = index_view(short_one);
    EXPECT_THAT(grouped_gemm_fp8(args, Stream::cpu(2)).error().text(), HasSubstr("C"));
    args.index_a = index_view(index), args.index_a.dtype = DType::kF32;
    EXPECT_THAT(grouped_gemm_fp8(args, Stream::cpu(2)).error().text(), HasSubstr("index_a"));
  }
}

// A mistake that a kernel could make, as what it reads instead of an operand.
struct Mistake {
  const char* name;
  std::size_t operand;
  std::function<void(Values&)> makes;
};

void expect_seen(const char* words, const Values& offsets, const std::vector<Mistake>& mistakes) {
  const ops::Problem problem = bound(words);
  const Operands right = with_offsets(problem, offsets);
  for (const Mistake& mistake : mistakes) {
    Operands after = with_offsets(problem, offsets);
    const Values given = after.all[mistake.operand].values();
    Values read = given;
    mistake.makes(read);
    after.all[mistake.operand].assign(read);
    ASSERT_TRUE(run(problem, after)) << mistake.name;
    if (mistake.operand != kC) after.all[mistake.operand].assign(given);
    EXPECT_NE(judge(op(), problem, right, after, 7), "") << words << ": " << mistake.name;
    const auto spot = op().spot_check(problem, {after.views_with_old(right), {}}, 11);
    ASSERT_TRUE(spot.ok());
    EXPECT_FALSE(spot->finite && spot->residual <= spot->allowed) << words << ": " << mistake.name;
  }
}

TEST(GroupedGemmFp8, TheChecksSeeMistakesAlongRows) {
  const auto shift = [](std::size_t by) { return [by](Values& v) { std::ranges::rotate(v, v.begin() + by); }; };
  expect_seen("rows=300 groups=3 k=272 n=200 out=f32", {5, 130, 131, 290},
              {{"scales of the rows from the multiple of four before", kScaleA,
                [](Values& v) { std::ranges::rotate(v, v.end() - 1); }},
               {"the scales of the next step", kScaleA, shift(300)},
               {"a group that begins a row late", kOffsets, [](Values& v) { ++v[1]; }},
               {"a row less of the last group", kOffsets, [](Values& v) { --v[3]; }},
               {"the matrix of the group before", kB, shift(2 * 200 * 272)},
               {"the scales of the group before", kScaleB, shift(2 * 2 * 3)},
               {"one scale of B for all columns", kScaleB,
                [](Values& v) {
                  for (std::size_t g = 0; g < 3; ++g) std::copy_n(v.begin() + g * 6, 3, v.begin() + g * 6 + 3);
                }},
               {"no rest of the sum", kA, [](Values& v) {
                  for (std::size_t e = 0; e < v.size(); ++e) v[e] = e % 272 < 256 ? v[e] : 0;
                }}});
}

TEST(GroupedGemmFp8, TheChecksSeeMistakesAlongSums) {
  for (const char* more : {"out=f32", "out=f32 accumulate=1", "out=bf16"}) {
    expect_seen(
        fmt::format("rows=768 groups=3 m=40 n=72 along=sums {}", more).c_str(), {0, 256, 256, 640},
        {{"a group that begins late", kOffsets, [](Values& v) { v[1] = 384, v[2] = 384; }},
         {"a step less of the last group", kOffsets, [](Values& v) { v[3] = 512; }},
         {"the scales of A of the next step", kScaleA, [](Values& v) { std::ranges::rotate(v, v.begin() + 40); }},
         {"the scales of B of the next column", kScaleB, [](Values& v) { std::ranges::rotate(v, v.begin() + 1); }},
         {"a row less", kA, [](Values& v) {
            for (std::size_t m = 0; m < 40; ++m) v[m * 768 + 255] = 0;
          }}});
  }
}

TEST(GroupedGemmFp8, TheChecksSeeScalesOfOtherRowsAndGroups) {
  const auto shift = [](std::size_t by) { return [by](Values& v) { std::ranges::rotate(v, v.begin() + by); }; };
  const Values of_rows = {5, 130, 131, 290}, of_sums = {0, 256, 256, 640};
  expect_seen("rows=300 groups=3 k=272 n=200 out=f32 scaling=row", of_rows,
              {{"the scale of the next row", kScaleA, shift(1)},
               {"the scale of the next column", kScaleB, shift(1)},
               {"the scales of the next group", kScaleB, shift(200)}});
  expect_seen("rows=300 groups=3 k=272 n=200 out=f32 scaling=tensor", of_rows,
              {{"of A, the scale of the next group", kScaleA, shift(1)},
               {"of B, the scale of the next group", kScaleB, shift(1)},
               {"A without a scale", kScaleA, [](Values& v) { std::ranges::fill(v, 1.0); }}});
  expect_seen("rows=768 groups=3 m=40 n=72 along=sums out=f32 scaling=row", of_sums,
              {{"of A, the scales of the next group", kScaleA, shift(40)},
               {"of B, the scale of the next column", kScaleB, shift(1)}});
  expect_seen("rows=768 groups=3 m=40 n=72 along=sums out=f32 scaling=tensor", of_sums,
              {{"of A, the scale of the next group", kScaleA, shift(1)},
               {"of B, the scale of the next group", kScaleB, shift(1)}});
}

}  // namespace
}  // namespace ridge::testing
