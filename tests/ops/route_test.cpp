// What is particular to route and its backward: the choice against a plain one, ties, NaN and infinities, rows that the
// contract leaves open, rows shared out to threads, and checks that no wrong choice and no wrong weight can pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "dispatch/launch.h"
#include "ops/arguments.h"
#include "ops/described_kernel.h"
#include "ops/harness.h"
#include "ops/route/right_choice.h"
#include "record/case.h"
#include "ridge/ops/route.h"
#include "ridge/ops/route_backward.h"

namespace ridge::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

const ops::Operator& the_operator(const char* name = "route") { return **ops::find_operator(name); }
ops::Problem bound(const std::string& words) {
  const record::Case one = *record::parse_case(words);
  return *the_operator(one.op.c_str()).bind(one);
}

// A call in f32 with memory of its own.
struct Batch {
  std::int64_t tokens, count, top;
  RouteSettings settings;
  std::vector<float> logits, bias, weights, dweights, dlogits;
  std::vector<std::int32_t> experts;

  Batch(std::int64_t rows, std::int64_t columns, std::int64_t most, const RouteSettings& given = {})
      : tokens(rows), count(columns), top(most), settings(given) {
    std::mt19937 generator(5);
    std::normal_distribution<float> normal(0, 1);
    for (std::int64_t i = 0; i < rows * columns; ++i) logits.push_back(normal(generator));
    for (std::int64_t i = 0; i < columns; ++i) bias.push_back(0.1F * normal(generator));
    for (std::int64_t i = 0; i < rows * most; ++i) dweights.push_back(normal(generator));
    weights.assign(static_cast<std::size_t>(rows * most), kNan);
    experts.assign(static_cast<std::size_t>(rows * most), -7);
    dlogits.assign(logits.size(), kNan);
  }
  static Batch of_row(std::vector<float> row, std::int64_t most, const RouteSettings& given = {}) {
    Batch batch(1, std::ssize(row), most, given);
    batch.logits = std::move(row);
    batch.bias.clear();
    return batch;
  }
  RouteArgs args() {
    RouteArgs call;
    call.logits = TensorView::contiguous(logits.data(), DType::kF32, {tokens, count});
    if (!bias.empty()) call.bias = TensorView::contiguous(bias.data(), DType::kF32, {count});
    call.weights = TensorView::contiguous(weights.data(), DType::kF32, {tokens, top});
    call.experts = TensorView::contiguous(experts.data(), DType::kI32, {tokens, top});
    call.settings = settings;
    return call;
  }
  RouteBackwardArgs backward() {
    const RouteArgs call = args();
    return {call.logits, call.experts, TensorView::contiguous(dweights.data(), DType::kF32, {tokens, top}),
            TensorView::contiguous(dlogits.data(), DType::kF32, {tokens, count}), settings};
  }
  Batch& run(int threads = 2) {
    const Status status = route(args(), Stream::cpu(threads));
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().text());
    return *this;
  }
};

// The choice of a row as a plain program makes it; numbers differ by more than they are rounded.
std::vector<std::int32_t> plain_choice(const Batch& batch, std::int64_t row) {
  std::vector<double> key;
  double sum = 0;
  for (std::int64_t e = 0; e < batch.count; ++e) {
    const double x = batch.logits[static_cast<std::size_t>(row * batch.count + e)];
    sum += std::exp(x);
    key.push_back(x);
  }
  for (std::size_t e = 0; e < key.size(); ++e) {
    const bool logit = batch.settings.order == RouteOrder::kTopFirst;
    if (!logit)
      key[e] = batch.settings.score == RouteScore::kSigmoid ? 1 / (1 + std::exp(-key[e])) : std::exp(key[e]) / sum;
    if (!batch.bias.empty()) key[e] += static_cast<double>(batch.bias[e]);
  }
  const auto size = static_cast<std::size_t>(batch.count / batch.settings.groups);
  std::vector<std::pair<double, std::size_t>> marks;
  for (std::size_t g = 0; g * size < key.size(); ++g) {
    std::vector<double> own(key.begin() + static_cast<std::ptrdiff_t>(g * size),
                            key.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    std::sort(own.rbegin(), own.rend());
    marks.emplace_back(-(own[0] + (size > 1 ? own[1] : 0)), g);
  }
  std::sort(marks.begin(), marks.end());
  std::vector<std::pair<double, std::int32_t>> order;
  for (std::int64_t i = 0; i < batch.settings.group_top; ++i) {
    const std::size_t g = marks[static_cast<std::size_t>(i)].second;
    for (std::size_t e = g * size; e < (g + 1) * size; ++e) order.emplace_back(-key[e], static_cast<std::int32_t>(e));
  }
  std::sort(order.begin(), order.end());
  std::vector<std::int32_t> chosen;
  for (std::int64_t k = 0; k < batch.top; ++k) chosen.push_back(order[static_cast<std::size_t>(k)].second);
  return chosen;
}

RouteSettings settings_of(RouteScore score, RouteOrder order, std::int64_t groups = 1, std::int64_t group_top = 1,
                          bool renormalize = false, double scale = 1) {
  RouteSettings settings;
  settings.score = score, settings.order = order, settings.groups = groups, settings.group_top = group_top;
  settings.renormalize = renormalize, settings.scale = scale;
  return settings;
}

TEST(Route, ChoosesWhatAPlainProgramChooses) {
  for (const RouteScore score : {RouteScore::kSoftmax, RouteScore::kSigmoid}) {
    for (const RouteOrder order : {RouteOrder::kScoreFirst, RouteOrder::kTopFirst}) {
      for (const std::int64_t groups : {1, 4, 24}) {
        for (const bool biased : {false, true}) {
          Batch batch(60, 24, 5, settings_of(score, order, groups, (groups + 3) / 4 + (groups > 1 ? 1 : 0)));
          if (batch.settings.group_top * (24 / groups) < 5) batch.settings.group_top = groups;
          if (!biased) batch.bias.clear();
          batch.run();
          for (std::int64_t row = 0; row < 60; ++row) {
            const auto begin = batch.experts.begin() + row * 5;
            ASSERT_EQ(std::vector<std::int32_t>(begin, begin + 5), plain_choice(batch, row))
                << "row " << row << ", groups " << groups << ", bias " << biased;
          }
        }
      }
    }
  }
}

TEST(Route, WeightsAreScoresWithoutTheBias) {
  Batch softmax(40, 20, 4);
  softmax.run();
  Batch top_first(40, 20, 4, settings_of(RouteScore::kSoftmax, RouteOrder::kTopFirst, 1, 1, false, 2.5));
  top_first.run();
  Batch sigmoid(40, 20, 4, settings_of(RouteScore::kSigmoid, RouteOrder::kScoreFirst, 1, 1, true, 1.5));
  sigmoid.run();
  for (std::int64_t row = 0; row < 40; ++row) {
    const auto logit = [&](const Batch& batch, std::int64_t k) {
      return static_cast<double>(
          batch.logits[static_cast<std::size_t>(row * 20 + batch.experts[static_cast<std::size_t>(row * 4 + k)])]);
    };
    double all = 0, chosen = 0, sigmoids = 0;
    for (std::int64_t e = 0; e < 20; ++e)
      all += std::exp(static_cast<double>(softmax.logits[static_cast<std::size_t>(row * 20 + e)]));
    for (std::int64_t k = 0; k < 4; ++k) {
      chosen += std::exp(logit(top_first, k)), sigmoids += 1 / (1 + std::exp(-logit(sigmoid, k)));
    }
    for (std::int64_t k = 0; k < 4; ++k) {
      const auto at = static_cast<std::size_t>(row * 4 + k);
      ASSERT_NEAR(softmax.weights[at], std::exp(logit(softmax, k)) / all, 1e-7);
      ASSERT_NEAR(top_first.weights[at], 2.5 * std::exp(logit(top_first, k)) / chosen, 3e-7);
      ASSERT_NEAR(sigmoid.weights[at], 1.5 / (1 + std::exp(-logit(sigmoid, k))) / sigmoids, 2e-7);
    }
  }
}

TEST(Route, OfEqualNumbersTheLowerExpertComesFirst) {
  for (const bool biased : {false, true}) {
    Batch batch = Batch::of_row({1, 3, 3, -0.0F, 0.0F, 3, -0.0F, 1}, 7);
    if (biased) batch.bias.assign(8, 0.25F);
    batch.run();
    EXPECT_EQ(batch.experts, (std::vector<std::int32_t>{1, 2, 5, 0, 7, 3, 4})) << biased;
  }
  // Groups of equal marks, and scores that differ as logits do but not in fp32.
  Batch groups = Batch::of_row({2, 1, 1, 2, 0, 3}, 2, settings_of(RouteScore::kSoftmax, RouteOrder::kTopFirst, 3, 1));
  EXPECT_EQ(groups.run().experts, (std::vector<std::int32_t>{0, 1}));
  Batch flat = Batch::of_row({40, 50, 60}, 2, settings_of(RouteScore::kSigmoid, RouteOrder::kScoreFirst));
  EXPECT_EQ(flat.run().experts, (std::vector<std::int32_t>{2, 1})) << "by the logits";
  flat.bias.assign(3, 0);
  EXPECT_EQ(flat.run().experts, (std::vector<std::int32_t>{0, 1})) << "by scores, which are 1";
}

TEST(Route, ANanIsChosenLastAndNoExpertTwice) {
  for (const RouteScore score : {RouteScore::kSoftmax, RouteScore::kSigmoid}) {
    for (const bool biased : {false, true}) {
      Batch batch = Batch::of_row({kNan, -kInf, 2, kNan, kInf, -1}, 6, settings_of(score, RouteOrder::kScoreFirst));
      if (biased) batch.bias = {9, 0, 0, 9, 0, 0};
      batch.run();
      EXPECT_EQ(batch.experts[0], 4);
      std::vector<std::int32_t> last(batch.experts.begin() + 4, batch.experts.end());
      EXPECT_EQ(last, (std::vector<std::int32_t>{0, 3}));
      EXPECT_EQ(std::set<std::int32_t>(batch.experts.begin(), batch.experts.end()).size(), 6u);
      EXPECT_TRUE(std::isnan(batch.weights[4]) && std::isnan(batch.weights[5]));
      EXPECT_EQ(std::isnan(batch.weights[0]), score == RouteScore::kSoftmax);
    }
  }
  Batch only =
      Batch::of_row({kNan, kNan, kNan, kNan}, 3, settings_of(RouteScore::kSoftmax, RouteOrder::kTopFirst, 2, 2));
  EXPECT_EQ(only.run().experts, (std::vector<std::int32_t>{0, 1, 2}));
  // A group with a NaN counts it as -infinity, and its other expert is no better for it.
  Batch group = Batch::of_row({5, kNan, 1, 1}, 2, settings_of(RouteScore::kSigmoid, RouteOrder::kTopFirst, 2, 1));
  EXPECT_EQ(group.run().experts, (std::vector<std::int32_t>{2, 3}));
  // What is not chosen does not reach the weights of the chosen ones alone.
  Batch apart = Batch::of_row({kNan, 1, 2}, 2, settings_of(RouteScore::kSoftmax, RouteOrder::kTopFirst));
  EXPECT_FALSE(std::isnan(apart.run().weights[0]));
}

TEST(Route, SameBitsWhateverTheNumberOfThreads) {
  const RouteSettings settings = settings_of(RouteScore::kSoftmax, RouteOrder::kScoreFirst, 8, 3, true, 2.5);
  Batch first(97, 64, 6, settings);
  first.run(1);
  ASSERT_TRUE(route_backward(first.backward(), Stream::cpu(1)).ok());
  for (const int threads : {2, 3, 7}) {
    Batch again(97, 64, 6, settings);
    again.run(threads);
    ASSERT_TRUE(route_backward(again.backward(), Stream::cpu(threads)).ok());
    EXPECT_EQ(first.experts, again.experts);
    EXPECT_EQ(first.weights, again.weights);
    EXPECT_EQ(first.dlogits, again.dlogits);
  }
}

// A logit whose sigmoid is so near the middle of two numbers of fp32 that fp64 cannot be asked to tell.
float logit_of_no_certain_score(float& low) {
  for (float x = 0.5F; x < 8; x = std::nextafter(x, 9.0F)) {
    const long double score = 1 / (1 + std::exp(-static_cast<long double>(x)));
    const auto below = static_cast<float>(score * (1 - 0x1p-44L)), above = static_cast<float>(score * (1 + 0x1p-44L));
    if (below != above) return low = below, x;
  }
  return kNan;
}

TEST(Route, ARowThatHangsOnARoundingIsOpenAndNoOther) {
  float low = 0;
  const float x = logit_of_no_certain_score(low);
  ASSERT_FALSE(std::isnan(x));
  ops::route::Shape shape;
  shape.experts = 3, shape.top = 2, shape.sigmoid = shape.bias = true;
  // The first one's number is exactly the lower of the two that the second one's may be.
  const std::vector<double> logits = {0, x, -30}, bias = {static_cast<double>(low) - 0.5, 0, 0};
  const ops::route::RightChoice open(shape, logits, bias);
  EXPECT_TRUE(open.open());
  EXPECT_TRUE(open.allows({0, 1}) && open.allows({1, 0}));
  for (const std::vector<std::int64_t>& wrong :
       std::vector<std::vector<std::int64_t>>{{0, 0}, {0, 2}, {1, 3}, {-1, 1}}) {
    EXPECT_FALSE(open.allows(wrong)) << wrong[0] << ", " << wrong[1];
  }
  const ops::route::RightChoice far(shape, {1, x, -30}, {1, 0, 0});
  EXPECT_FALSE(far.open()) << "nothing else is near";
  const ops::route::RightChoice equal(shape, {x, x, -30}, {0, 0, 0});
  EXPECT_FALSE(equal.open()) << "equal logits have equal scores";
  EXPECT_EQ(equal.experts(), (std::vector<std::int64_t>{0, 1}));
}

// What an implementation could do wrong, as the result of a right one that was changed.
struct Mutant {
  const char* name;
  const char* words;
  std::function<void(const ops::Problem&, Operands&)> change;
};

void rerun(const std::string& words, Operands& operands) {
  const ops::Problem other = bound(words);
  ASSERT_TRUE(
      the_operator().implementations.back().run(other, {operands.views(), operands.scalars}, Stream::cpu()).ok());
}
template <class Change>
void change_values(Operand& operand, const Change& change) {
  std::vector<double> values = operand.values();
  change(values);
  operand.assign(values);
}
// Of columns of choices, in every row.
template <class Change>
std::function<void(const ops::Problem&, Operands&)> in_rows(const Change& change) {
  return [change](const ops::Problem& problem, Operands& operands) {
    const std::size_t count = operands.all.size(), top = static_cast<std::size_t>(problem.operands.back().shape[1]);
    std::vector<double> weights = operands.all[count - 2].values(), experts = operands.all[count - 1].values();
    for (std::size_t first = 0; first < weights.size(); first += top) change(&weights[first], &experts[first], top);
    operands.all[count - 2].assign(weights);
    operands.all[count - 1].assign(experts);
  };
}

const std::string kGrouped = "route tokens=50 experts=32 top=4 dtype=f32 score=sigmoid bias=1 groups=8 renormalize=1 ";

std::vector<Mutant> mutants() {
  return {
      {"nothing", "group_top=3", [](const ops::Problem&, Operands&) {}},
      {"one group more", "group_top=3", [](const ops::Problem&, Operands& o) { rerun(kGrouped + "group_top=4", o); }},
      {"one group less", "group_top=3", [](const ops::Problem&, Operands& o) { rerun(kGrouped + "group_top=2", o); }},
      {"no groups", "group_top=3", [](const ops::Problem&, Operands& o) { rerun(kGrouped + "group_top=8", o); }},
      {"no renormalize", "group_top=3",
       [](const ops::Problem&, Operands& o) {
         rerun("route tokens=50 experts=32 top=4 dtype=f32 score=sigmoid bias=1 groups=8 group_top=3", o);
       }},
      {"softmax for sigmoid", "group_top=3",
       [](const ops::Problem&, Operands& o) {
         rerun("route tokens=50 experts=32 top=4 dtype=f32 bias=1 groups=8 group_top=3 renormalize=1", o);
       }},
      {"no scale", "group_top=3",
       [](const ops::Problem& problem, Operands& o) {
         const std::vector<record::Scalar> kept = o.scalars;
         o.scalars = {record::Scalar::f32(1)};
         rerun(problem.problem_case.text(), o);
         o.scalars = kept;
       }},
      {"no bias in the choice", "group_top=3",
       [](const ops::Problem& problem, Operands& o) {
         const std::vector<double> bias = o.all[1].values();
         o.all[1].assign(std::vector<double>(bias.size(), 0));
         rerun(problem.problem_case.text(), o);
         o.all[1].assign(bias);
       }},
      {"the bias in the weights", "group_top=3",
       [](const ops::Problem& problem, Operands& o) {
         const std::vector<double> bias = o.all[1].values();
         const double scale = o.scalars[0].real();
         const auto top = static_cast<std::size_t>(problem.operands.back().shape[1]);
         const std::vector<double> experts = o.all[3].values(), logits = o.all[0].values();
         change_values(o.all[2], [&](std::vector<double>& weights) {
           for (std::size_t first = 0; first < weights.size(); first += top) {
             double sum = 0;
             for (const bool divide : {false, true}) {
               for (std::size_t k = 0; k < top; ++k) {
                 const auto e = static_cast<std::size_t>(experts[first + k]);
                 const double one = 1 / (1 + std::exp(-logits[first / top * 32 + e])) + bias[e];
                 if (divide) weights[first + k] = scale * one / sum;
                 sum += divide ? 0 : one;
               }
             }
           }
         });
       }},
      {"an expert twice", "group_top=3",
       in_rows([](double*, double* experts, std::size_t) { experts[1] = experts[0]; })},
      {"an expert that is none", "group_top=3",
       in_rows([](double*, double* experts, std::size_t) { experts[3] = 32; })},
      {"another order", "group_top=3", in_rows([](double* weights, double* experts, std::size_t) {
         std::swap(weights[0], weights[1]), std::swap(experts[0], experts[1]);
       })},
      {"a weight that is off", "group_top=3",
       in_rows([](double* weights, double*, std::size_t) { weights[2] *= 1.0001; })},
      {"never written", "group_top=3", [](const ops::Problem&, Operands& o) { o.all[3].poison(); }},
  };
}

TEST(Route, TheChecksCatchEveryMutant) {
  for (const Mutant& mutant : mutants()) {
    const ops::Problem problem = bound(kGrouped + mutant.words);
    Operands operands = make_operands(problem, kPacked, 8);
    operands.scalars = {record::Scalar::f32(2.5F)};
    rerun(problem.problem_case.text(), operands);
    mutant.change(problem, operands);
    const bool right = std::string(mutant.name) == "nothing";
    const auto expected = the_operator().reference(problem, {operands.views(), operands.scalars});
    ASSERT_TRUE(expected.ok());
    const bool passes = compare(operands.all[2].values(), (*expected)[0], DType::kF32).empty() &&
                        compare(operands.all[3].values(), (*expected)[1], DType::kI32).empty();
    EXPECT_EQ(passes, right) << "full compare: " << mutant.name;
    const auto found = the_operator().spot_check(problem, {operands.views(), operands.scalars}, 3);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->residual <= found->allowed, right) << "spot check: " << mutant.name << ": " << found->detail;
  }
}

TEST(Route, TheChecksCatchAWrongOrderOfEqualNumbers) {
  for (const char* words :
       {"route tokens=4 experts=16 top=3 dtype=f32", "route tokens=4 experts=16 top=3 dtype=f32 bias=1"}) {
    const ops::Problem problem = bound(words);
    Operands operands = make_operands(problem, kPacked, 8);
    for (Operand& operand : operands.all) {
      if (!operand.spec().output) operand.assign(std::vector<double>(operand.values().size(), 0.75));
    }
    rerun(words, operands);
    Operand& experts = operands.all.back();
    EXPECT_EQ(experts.values(), (std::vector<double>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2}));
    for (const std::vector<double>& wrong : {std::vector<double>{0, 2, 1, 0, 1, 2, 0, 1, 2, 0, 1, 2},
                                             std::vector<double>{0, 1, 2, 0, 1, 2, 15, 14, 13, 0, 1, 2}}) {
      experts.assign(wrong);
      const auto found = the_operator().spot_check(problem, {operands.views(), operands.scalars}, 3);
      ASSERT_TRUE(found.ok());
      EXPECT_GT(found->residual, found->allowed);
    }
  }
}

TEST(Route, TheCheckOfTheGradientCatchesWhatIsMissing) {
  const std::string words = "route_backward tokens=40 experts=32 top=4 dtype=f32 renormalize=1 ";
  const ops::Operator& op = the_operator("route_backward");
  // With renormalize, scores of the chosen experts alone would be the same.
  for (const std::string& other :
       {std::string(), std::string("renormalize=0"), std::string("score=sigmoid"), std::string("scale")}) {
    const ops::Problem problem = bound(words);
    Operands operands = make_operands(problem, kPacked, 8);
    operands.scalars = {record::Scalar::f32(2.5F)};
    record::Case changed = problem.problem_case;
    if (const auto at = other.find('='); at != std::string::npos)
      changed.set(other.substr(0, at), other.substr(at + 1));
    const std::vector<record::Scalar> scalars = {record::Scalar::f32(other == "scale" ? 1.0F : 2.5F)};
    ASSERT_TRUE(op.implementations.back().run(*op.bind(changed), {operands.views(), scalars}, Stream::cpu()).ok());
    const auto found = op.spot_check(problem, {operands.views(), operands.scalars}, 5);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->residual <= found->allowed, other.empty()) << other;
  }
}

TEST(Route, AnExpertThatIsNoneIsAnErrorOfTheBackwardThatNamesItsPlace) {
  Batch batch(7, 5, 3);
  batch.run();
  batch.experts[3 * 4 + 2] = 5;
  const Status status = route_backward(batch.backward(), Stream::cpu());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().text(),
            "route_backward: experts[4, 2] is 5; there are 5 (give the experts as route wrote them)");
  EXPECT_TRUE(std::isnan(batch.dlogits[0])) << "written before the experts were looked at";
}

TEST(Route, APartOfAWarpHoldsARowOnAGpu) {
  const ops::DescribedKernel& kernel = ops::described_kernel("ops/route/cuda_route.cu");
  struct Expected {
    const char* words;
    std::int64_t lanes, per_lane, span, general, keys;
    std::uint32_t blocks;
  };
  for (const Expected& one :
       {Expected{"experts=256", 32, 8, 1, 0, 0, 250}, Expected{"experts=256 dtype=f32", 32, 8, 1, 0, 1, 250},
        Expected{"experts=128 bias=1", 16, 8, 1, 0, 2, 125}, Expected{"experts=8 order=top_first", 1, 8, 1, 0, 0, 8},
        Expected{"experts=67", 16, 8, 1, 0, 0, 125},
        Expected{"experts=512 bias=1 order=top_first", 32, 16, 1, 0, 1, 250},
        Expected{"experts=1000", 32, 32, 1, 0, 0, 250}, Expected{"experts=1032", 32, 1, 1, 1, 0, 1000},
        Expected{"experts=256 groups=8 group_top=4", 32, 8, 4, 0, 2, 250},
        Expected{"experts=256 groups=8 group_top=8", 32, 8, 1, 0, 2, 250},
        Expected{"experts=160 groups=8 group_top=3", 8, 20, 1, 0, 2, 63},
        Expected{"experts=120 groups=3 group_top=2", 32, 1, 1, 1, 2, 1000},
        Expected{"experts=128 groups=64 group_top=9", 32, 1, 1, 1, 2, 1000}}) {
    const ops::Problem problem = bound(std::string("route tokens=1000 top=6 ") + one.words);
    const record::PlanFacts facts = ops::plan_facts(problem);
    const record::Variables numbers = kernel.variables(0, facts).value();
    EXPECT_EQ(numbers.at("lanes"), one.lanes) << one.words;
    EXPECT_EQ(numbers.at("per_lane"), one.per_lane) << one.words;
    EXPECT_EQ(numbers.at("span"), one.span) << one.words;
    EXPECT_EQ(numbers.at("general"), one.general) << one.words;
    EXPECT_EQ(numbers.at("keys"), one.keys) << one.words;
    const record::ResolvedPlan plan = kernel.resolve(0, facts).value();
    EXPECT_EQ(plan.kernels.at(0).grid[0], one.blocks) << one.words;
    EXPECT_EQ(plan.kernels.at(0).parameters.at(0).bytes, 96u) << "RouteParameters";
  }
}

TEST(Route, SaysWhatIsWrongWithACall) {
  const auto refused = [](const RouteArgs& args) {
    const Status status = route(args, Stream::cpu());
    return status.ok() ? std::string("no error") : status.error().text();
  };
  const auto with = [&](const std::function<void(RouteArgs&)>& change) {
    Batch batch(4, 8, 2);
    RouteArgs args = batch.args();
    change(args);
    return refused(args);
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(with([](RouteArgs& a) { a.settings.groups = 3; }), "groups=3 of 8 experts (give a number that divides");
  has(with([](RouteArgs& a) { a.settings.groups = 4, a.settings.group_top = 5; }), "group_top=5 of 4 groups");
  has(with([](RouteArgs& a) { a.settings.groups = 8, a.settings.group_top = 1; }),
      "top=2, and 1 of 8 groups have 1 experts (give a larger group_top or a smaller top)");
  has(with([](RouteArgs& a) { a.settings.scale = HUGE_VAL; }), "scale is inf (give a finite number)");
  has(with([](RouteArgs& a) { a.logits.dtype = DType::kI32; }), "give f32, bf16 or f16");
  has(with([](RouteArgs& a) { a.experts.shape[1] = 1; }), "experts");
  has(with([](RouteArgs& a) { a.bias.shape[0] = 7; }), "bias");
  has(with([](RouteArgs& a) { a.weights.rank = 0; }), "weights is");
  EXPECT_NE(with([](RouteArgs& a) { a.experts.data = a.weights.data; }), "no error");
  const auto wrong = the_operator().bind(*record::parse_case("route experts=8 top=9"));
  ASSERT_FALSE(wrong.ok());
  has(wrong.error().text(), "top=9 of 8 experts (give 1 to 8)");
}

}  // namespace
}  // namespace ridge::testing
