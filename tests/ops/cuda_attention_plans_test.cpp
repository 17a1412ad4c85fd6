// What the kernels for GPUs of attention and its gradients are launched with. Needs no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "ops/cuda_plan_cases.h"

namespace ridge::ops {
namespace {

using record::ResolvedPlan;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kAttention = "ops/attention/cuda_attention.cu";

TEST(AttentionPlan, MapsFollowStridesInAnyOrder) {
  const Problem problem = problem_of("attention batch=1 heads=4 kv_heads=2 q_len=500 k_len=300 dim=128");
  std::vector<TensorView> views = dense_views(problem);
  views[0].stride = {17, 128, 500 * 128, 1};  // [heads, length, dim], of one sequence
  const ResolvedPlan plan = plan_of(kAttention, problem, views);
  EXPECT_THAT(plan.tensor_maps.at(0).sizes, ElementsAre(128, 500, 4, 1));
  EXPECT_THAT(plan.tensor_maps[0].strides_bytes, ElementsAre(256, 256 * 500, 256 * 500 * 4));
  EXPECT_THAT(plan.tensor_maps[0].box, ElementsAre(64, 128, 1, 1));
  EXPECT_THAT(plan.tensor_maps[1].strides_bytes, ElementsAre(512, 256, 512)) << "of one sequence the last is free";
  EXPECT_EQ(plan.kernels.at(0).grid[0], 16u);
  EXPECT_EQ(plan.kernels[0].block[0], 384u);
}

// Kernels used to divide 1.4426... by the root.
TEST(AttentionPlan, TheScaleFollowsTheCallAndTheUsualOneIsTheNumberThatItAlwaysWas) {
  for (const std::int64_t dim : {64, 128}) {
    const Problem problem = problem_of(fmt::format("attention dim={} mask=causal", dim));
    const ResolvedPlan plan = plan_of(kAttention, problem, dense_views(problem));
    const auto& parts = plan.kernels.at(0).parameters.back().parts;
    const record::ResolvedArgument& scale = parts.at(10);  // the ends of a window follow
    EXPECT_EQ(scale.kind, record::ResolvedArgument::Kind::kFormula);
    EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(scale.bits)),
              static_cast<float>(1.4426950408889634 / std::sqrt(static_cast<double>(dim))));
  }
}

// Keys of a section stay in the L2, unless the blocks would get unequal work.
TEST(AttentionPlan, SectionsLeaveTheBlocksEqualWork) {
  const auto section = [](const char* words) {
    const Problem problem = problem_of(fmt::format("attention {}", words));
    return plan_of(kAttention, problem, dense_views(problem)).kernels.back().parameters.back().parts.at(9).bits;
  };
  EXPECT_EQ(section("heads=32 kv_heads=8 q_len=8192 k_len=8192 dim=128 mask=causal"), 32u) << "4 MiB a head of k and v";
  EXPECT_EQ(section("heads=32 kv_heads=32 q_len=8192 k_len=8192 dim=128"), 4u);
  EXPECT_EQ(section("heads=32 kv_heads=32 q_len=8192 k_len=8192 dim=128 mask=causal"), 32u) << "15 tiles for a block";
  EXPECT_EQ(section("heads=16 kv_heads=16 q_len=16384 k_len=16384 dim=256 mask=causal"), 16u);
  EXPECT_EQ(section("heads=128 kv_heads=128 q_len=4096 k_len=4096 dim=192 v_dim=128 mask=causal"), 33u)
      << "each head's keys would be read by one block at a time";
  EXPECT_EQ(section("heads=64 kv_heads=8 q_len=32768 k_len=32768 dim=128 mask=causal"), 16u) << "124 tiles for a block";
  // Four tiles a head: two rounds of 132 blocks are 66 heads, eight 264, whose keys are 17 MB with eight heads of them.
  EXPECT_EQ(section("batch=32 heads=32 kv_heads=32 q_len=512 k_len=512 dim=128 mask=causal"), 66u);
  EXPECT_EQ(section("batch=32 heads=32 kv_heads=8 q_len=512 k_len=512 dim=128 mask=causal"), 264u);
  EXPECT_EQ(section("batch=4 heads=32 kv_heads=32 q_len=2048 k_len=2048 dim=64 mask=causal"), 48u) << "four rounds";
  EXPECT_EQ(section("batch=4 heads=32 kv_heads=32 q_len=2048 k_len=2048 dim=128 mask=causal"), 33u)
      << "two are not whole";
  EXPECT_EQ(section("batch=64 heads=32 kv_heads=32 q_len=256 k_len=256 dim=128 mask=causal"), 132u);
  EXPECT_EQ(section("batch=64 heads=32 kv_heads=32 q_len=850 k_len=850 dim=128 mask=causal"), 150u) << "none is whole";
}

TEST(AttentionPlan, ASectionHasAHeadWhateverTheShareOfTheMultiprocessors) {
  for (const auto& [source, op] :
       {std::pair{kAttention, "attention"}, {"ops/attention/fp8/cuda_attention_fp8.cu", "attention_fp8"}}) {
    for (const int multiprocessors : {1, 2, 5, 16, 132}) {
      for (const int length : {1, 128, 300, 512, 1100, 2000, 5000}) {
        for (const char* mask : {"full", "causal"}) {
          const Problem problem = problem_of(
              fmt::format("{} batch=2 heads=6 kv_heads=3 q_len={} k_len={} dim=64 mask={}", op, length, length, mask));
          record::PlanFacts facts = plan_facts(problem, dense_views(problem));
          facts.values["sm_count"] = multiprocessors;
          const ResolvedPlan plan = described_kernel(source).resolve(0, facts).value();
          const std::uint64_t section = plan.kernels.back().parameters.back().parts.at(9).bits;
          EXPECT_GE(section, 1u) << problem.problem_case.text() << " on " << multiprocessors;
          EXPECT_LE(section, 12u) << problem.problem_case.text() << " on " << multiprocessors;
        }
      }
    }
  }
}

TEST(AttentionPlan, AWindowIsABuildOfItsOwnWithItsEnds) {
  const auto ends = [](const char* source, const char* words) {
    const Problem problem = problem_of(words);
    const ResolvedPlan plan = plan_of(source, problem, dense_views(problem));
    const auto& parts = plan.kernels.back().parameters.back().parts;
    const std::size_t at = problem.problem_case.op == "attention" ? 11 : 30;
    return std::vector<std::uint64_t>{parts.at(at).bits, parts.at(at + 1).bits};
  };
  const auto defines = [](const char* source, const char* words) {
    const Problem problem = problem_of(words);
    return described_kernel(source).build(0, plan_facts(problem, dense_views(problem)))->defines;
  };
  constexpr std::uint64_t kAll = 536870912;
  for (const auto& [source, op] : {std::pair{"ops/attention/cuda_attention.cu", "attention"},
                                   {"ops/attention/backward/cuda_attention_backward.cu", "attention_backward"}}) {
    const auto words = [&](const char* mask) { return fmt::format("{} dim=128 {}", op, mask); };
    const auto check = [&](const char* mask, std::uint64_t left, std::uint64_t right) {
      EXPECT_THAT(ends(source, words(mask).c_str()), ElementsAre(left, right)) << mask;
      EXPECT_THAT(defines(source, words(mask).c_str()), testing::Contains("RIDGE_WINDOW=1"));
      EXPECT_THAT(defines(source, words(mask).c_str()), testing::Contains("RIDGE_CAUSAL=0"));
    };
    check("mask=causal keys_left=64", 63, 0);
    check("keys_left=64", 63, kAll);
    check("keys_right=1", kAll, 0);
    check("keys_left=1 keys_right=6", 0, 5);
    EXPECT_THAT(defines(source, words("mask=causal").c_str()), testing::Contains("RIDGE_WINDOW=0"));
    EXPECT_THAT(defines(source, words("mask=causal").c_str()), testing::Contains("RIDGE_CAUSAL=1"));
  }
}

// Slopes are an operand and builds of their own: one for masks that show no key behind its query, which need no
// absolute value of a distance, and one for the others.
TEST(AttentionPlan, SlopesAreBuildsOfTheirOwn) {
  using Kind = record::ResolvedArgument::Kind;
  const auto view = [](const char* source, const char* words) {
    const Problem problem = problem_of(words);
    return plan_of(source, problem, dense_views(problem)).kernels.back().parameters.back().parts;
  };
  const auto defines = [](const char* source, const std::string& words) {
    const Problem problem = problem_of(words);
    return described_kernel(source).build(0, plan_facts(problem, dense_views(problem)))->defines;
  };
  EXPECT_EQ(view(kAttention, "attention dim=64").back().kind, Kind::kZeros);
  EXPECT_EQ(view(kAttention, "attention dim=64 alibi=1").back().kind, Kind::kOperand);
  for (const auto& [source, words] :
       {std::pair{kAttention, "attention dim=64"},
        {"ops/attention/backward/cuda_attention_backward.cu", "attention_backward dim=64"},
        {"ops/attention/backward/cuda_attention_backward_wide.cu", "attention_backward dim=256"}}) {
    const auto build = [&, source = source, words = words](const char* more) {
      return defines(source, fmt::format("{} {}", words, more));
    };
    EXPECT_THAT(build("mask=causal"), testing::Contains("RIDGE_ALIBI=0"));
    for (const char* one_sided : {"mask=causal", "mask=causal keys_left=9", "mask=causal documents=2"}) {
      EXPECT_THAT(build(fmt::format("{} alibi=1", one_sided).c_str()), testing::Contains("RIDGE_ALIBI=1"));
    }
    for (const char* both : {"mask=full", "keys_left=9 keys_right=9", "documents=2"}) {
      EXPECT_THAT(build(fmt::format("{} alibi=1", both).c_str()), testing::Contains("RIDGE_ALIBI=2"));
    }
  }
  EXPECT_THAT(defines(kAttention, "attention dim=64 alibi=1"), testing::Contains("RIDGE_CONSUMERS=3"));
  EXPECT_THAT(defines(kAttention, "attention dim=256 alibi=1 documents=2"), testing::Contains("RIDGE_BLOCK_N=64"))
      << "registers";
  EXPECT_THAT(defines(kAttention, "attention dim=256 alibi=1"), testing::Contains("RIDGE_BLOCK_N=80"));
  EXPECT_THAT(defines(kAttention, "attention dim=192 alibi=1"), testing::Contains("RIDGE_BLOCK_N=96"));
}

// Sinks are an operand, a softcap two numbers of the call, and each is a build of its own.
TEST(AttentionPlan, SinksAndASoftcapAreBuildsOfTheirOwn) {
  using Kind = record::ResolvedArgument::Kind;
  const auto parts = [](const char* words) {
    const Problem problem = problem_of(fmt::format("attention dim=64 {}", words));
    return plan_of(kAttention, problem, dense_views(problem)).kernels.back().parameters.back().parts;
  };
  const auto defines = [](const char* source, const char* words) {
    const Problem problem = problem_of(words);
    return described_kernel(source).build(0, plan_facts(problem, dense_views(problem)))->defines;
  };
  const auto real = [](const record::ResolvedArgument& part) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(part.bits));
  };
  EXPECT_EQ(parts("").at(17).kind, Kind::kZeros);
  EXPECT_EQ(parts("").at(18).kind, Kind::kZeros);
  EXPECT_EQ(parts("sinks=1").at(17).kind, Kind::kOperand);
  EXPECT_FLOAT_EQ(real(parts("softcap=1").at(18)), 2 * 1.44269504f / 8 / 30);
  EXPECT_FLOAT_EQ(real(parts("softcap=1").at(19)), 1.44269504f * 30);
  EXPECT_THAT(defines(kAttention, "attention dim=64 sinks=1"),
              testing::IsSupersetOf({"RIDGE_SINKS=1", "RIDGE_SOFTCAP=0", "RIDGE_CONSUMERS=3"}));
  EXPECT_THAT(defines(kAttention, "attention dim=64 softcap=1"),
              testing::IsSupersetOf({"RIDGE_SINKS=0", "RIDGE_SOFTCAP=1", "RIDGE_CONSUMERS=2"}));
  EXPECT_THAT(defines(kAttention, "attention dim=256 softcap=1 documents=2"), testing::Contains("RIDGE_BLOCK_N=64"))
      << "registers";
  constexpr const char* kNarrow = "ops/attention/backward/cuda_attention_backward.cu";
  EXPECT_THAT(defines(kNarrow, "attention_backward dim=40 softcap=1"),
              testing::IsSupersetOf({"RIDGE_HEAD_DIM=128", "RIDGE_COLUMNS=64", "RIDGE_BLOCK_M=64", "RIDGE_CLIPPED=1"}))
      << "steps of 128 queries have no registers for it";
  EXPECT_THAT(defines(kNarrow, "attention_backward dim=40 sinks=1"),
              testing::IsSupersetOf({"RIDGE_HEAD_DIM=64", "RIDGE_COLUMNS=64", "RIDGE_BLOCK_M=128"}));
  constexpr const char* kWide = "ops/attention/backward/cuda_attention_backward_wide.cu";
  EXPECT_THAT(defines(kWide, "attention_backward dim=192 v_dim=128 softcap=1"),
              testing::IsSupersetOf({"RIDGE_VALUE_DIM=192", "RIDGE_BLOCK_N=64"}));
  for (const auto& [source, words] :
       {std::pair{kNarrow, "attention_backward batch=2 heads=4 kv_heads=2 q_len=500 k_len=300 dim=128"},
        {kWide, "attention_backward batch=2 heads=4 kv_heads=2 q_len=500 k_len=300 dim=256"}}) {
    for (const int sinks : {0, 1}) {
      const Problem problem = problem_of(fmt::format("{} sinks={}", words, sinks));
      const ResolvedPlan plan = plan_of(source, problem, dense_views(problem));
      EXPECT_EQ(plan.workspaces.at(6).bytes, sinks * 4u * 64) << "a sum of each block of queries and head";
    }
  }
  EXPECT_THAT(described_kernel(kNarrow)
                  .refuses(plan_facts(problem_of("attention_backward batch=0 dim=64 sinks=1")))
                  .value_or(""),
              HasSubstr("blocks of queries, and there is none"));
}

// Columns are rounded up to builds; panels of 64 of them, tiles of Q and keys per step fill the shared memory.
TEST(AttentionPlan, AHeadOfAnySizeHasABuild) {
  struct Heads {
    const char *words, *head_dim, *value_dim, *block_n, *slots, *consumers;
    std::uint32_t shared;
  };
  for (const Heads& one : {Heads{"dim=8", "64", "64", "128", "2", "3", 2 * 24576 + 4 * 16384 + 256},
                           Heads{"dim=64", "64", "64", "128", "2", "3", 2 * 24576 + 4 * 16384 + 256},
                           Heads{"dim=72", "96", "96", "128", "2", "2", 2 * 32768 + 4 * 32768 + 256},
                           Heads{"dim=96", "96", "96", "128", "2", "2", 2 * 32768 + 4 * 32768 + 256},
                           Heads{"dim=128", "128", "128", "128", "2", "2", 2 * 32768 + 4 * 32768 + 256},
                           Heads{"dim=136", "160", "160", "112", "1", "2", 49152 + 4 * 43008 + 256},
                           Heads{"dim=192", "192", "192", "112", "1", "2", 49152 + 4 * 43008 + 256},
                           Heads{"dim=200", "224", "224", "80", "1", "2", 65536 + 4 * 40960 + 256},
                           Heads{"dim=256", "256", "256", "80", "1", "2", 65536 + 4 * 40960 + 256}}) {
    const Problem problem = problem_of(fmt::format("attention q_len=500 k_len=300 {}", one.words));
    const std::vector<TensorView> views = dense_views(problem);
    const ResolvedPlan plan = plan_of(kAttention, problem, views);
    EXPECT_EQ(plan.kernels.at(0).shared_bytes, one.shared) << one.words;
    EXPECT_LE(one.shared, 232448u);
    EXPECT_EQ(plan.tensor_maps.at(0).sizes[0], static_cast<std::uint64_t>(views[0].shape[3]))
        << "what the engine clips";
    EXPECT_EQ(std::to_string(plan.tensor_maps.at(1).box[1]), one.block_n) << one.words;
    EXPECT_THAT(described_kernel(kAttention).build(0, plan_facts(problem, views))->defines,
                testing::IsSupersetOf(
                    {fmt::format("RIDGE_HEAD_DIM={}", one.head_dim), fmt::format("RIDGE_VALUE_DIM={}", one.value_dim),
                     fmt::format("RIDGE_BLOCK_N={}", one.block_n), fmt::format("RIDGE_SLOTS={}", one.slots),
                     fmt::format("RIDGE_CONSUMERS={}", one.consumers)}))
        << one.words;
  }
}

// V is turned in front of the kernel, into as many bytes as it has codes with keys up to whole blocks.
TEST(AttentionPlan, OfCodesReadsValuesThatAreTurnedFirst) {
  constexpr const char* kSource = "ops/attention/fp8/cuda_attention_fp8.cu";
  const Problem problem = problem_of("attention_fp8 batch=2 heads=4 kv_heads=2 q_len=500 k_len=300 dim=96 v_dim=80");
  const std::vector<TensorView> views = dense_views(problem);
  const ResolvedPlan plan = plan_of(kSource, problem, views);
  EXPECT_THAT(symbols(plan), ElementsAre("ridge_attention_turn_values", "ridge_attention"));
  EXPECT_EQ(plan.workspaces.at(0).bytes, 2u * 2 * 80 * 384);
  EXPECT_EQ(plan.kernels[0].grid[0] * plan.kernels[0].grid[1], 3u * 4);
  EXPECT_TRUE(plan.kernels[1].overlap_previous);
  EXPECT_EQ(plan.kernels[1].grid[0], 32u);
  EXPECT_EQ(plan.kernels[1].shared_bytes, 2 * 32768 + 3 * (16384u + 96 * 128) + 320);
  EXPECT_THAT(plan.tensor_maps.at(0).strides_bytes, ElementsAre(4 * 96, 96, 500 * 4 * 96)) << "a code is a byte";
  EXPECT_THAT(plan.tensor_maps[2].sizes, ElementsAre(384, 80, 2, 2));
  EXPECT_THAT(plan.tensor_maps[2].box, ElementsAre(128, 96, 1, 1)) << "columns that V lacks are zeros";
  EXPECT_THAT(described_kernel(kSource).build(0, plan_facts(problem, views))->defines,
              testing::IsSupersetOf({"RIDGE_HEAD_DIM=96", "RIDGE_VALUE_DIM=96", "RIDGE_OUTPUT_TYPE=kBf16"}));
  const auto refusal = [&](const char* words) {
    const Problem refused = problem_of(fmt::format("attention_fp8 {}", words));
    return described_kernel(kSource).refuses(plan_facts(refused, dense_views(refused))).value_or("");
  };
  EXPECT_EQ(refusal("dim=256 v_dim=128"), "");
  EXPECT_THAT(refusal("dim=40"), testing::HasSubstr("multiples of 16"));
  EXPECT_THAT(refusal("dim=256"), testing::HasSubstr("of v up to 128"));
}

// By the columns in memory: rows of documents are stored without the copy engine.
TEST(AttentionPlan, ABuildForDocumentsHasTheColumnsOfTheCall) {
  const auto defines = [](const char* words) {
    const Problem problem = problem_of(fmt::format("attention {}", words));
    return described_kernel(kAttention).build(0, plan_facts(problem, dense_views(problem)))->defines;
  };
  EXPECT_THAT(defines("dim=72 documents=3"), testing::Contains("RIDGE_OUTPUT_COLUMNS=72"));
  EXPECT_THAT(defines("dim=72"), testing::Contains("RIDGE_OUTPUT_COLUMNS=96")) << "one build for all of them";
}

TEST(AttentionPlan, DocumentsAreCutInFrontOfTheKernel) {
  const auto plan = [](const char* source, const char* words) {
    const Problem problem = problem_of(words);
    return plan_of(source, problem, dense_views(problem));
  };
  const ResolvedPlan forward =
      plan("ops/attention/cuda_attention.cu", "attention heads=4 kv_heads=2 q_len=500 k_len=300 dim=128 documents=5");
  EXPECT_THAT(symbols(forward), ElementsAre("ridge_attention_documents", "ridge_attention"));
  EXPECT_EQ(forward.kernels[0].parameters.at(0).bytes, 32u) << "DocumentOffsets";
  EXPECT_EQ(forward.kernels[1].grid[0], 40u) << "no more than 3 + 5 + 2 tiles of 4 heads";
  ASSERT_EQ(forward.workspaces.size(), 1u);
  EXPECT_EQ(forward.workspaces[0].bytes, 32u * 11);
  const auto sorted = [&](const char* words) {
    return plan("ops/attention/cuda_attention.cu", words).kernels.at(0).parameters.back().parts.at(0).bits;
  };
  EXPECT_EQ(sorted("attention q_len=65536 k_len=65536 dim=128 documents=5"), 1u);
  EXPECT_EQ(sorted("attention q_len=65537 k_len=65537 dim=128 documents=5"), 0u) << "more than 32 MiB for each head";
  EXPECT_THAT(symbols(plan("ops/attention/cuda_attention.cu", "attention dim=128")), ElementsAre("ridge_attention"));
  const ResolvedPlan backward =
      plan("ops/attention/backward/cuda_attention_backward.cu",
           "attention_backward heads=4 kv_heads=2 q_len=500 k_len=300 dim=128 documents=5 deterministic=1");
  EXPECT_THAT(symbols(backward), ElementsAre("ridge_attention_backward_documents", "ridge_attention_backward_prepare",
                                             "ridge_attention_backward", "ridge_attention_backward_finish"));
  EXPECT_EQ(backward.kernels[1].grid[0], 14u) << "7 + 5 + 2 blocks of 64 queries";
  EXPECT_EQ(backward.kernels[2].grid[0], 18u) << "2 + 5 + 2 blocks of keys of two heads";
  ASSERT_EQ(backward.workspaces.size(), 7u);
  EXPECT_EQ(backward.workspaces[2].bytes, 32768u * 14 * 4);
  EXPECT_EQ(backward.workspaces[4].bytes, 32u * 10);
  EXPECT_EQ(backward.workspaces[5].bytes, 8u * 15);
}

TEST(AttentionPlan, RefusesWhatItCannotReadWithTheValues) {
  const DescribedKernel& kernel = described_kernel(kAttention);
  const auto refusal = [&](const char* words, std::vector<std::uint8_t> alignment = {}) {
    Problem problem = problem_of(std::string("attention ") + words);
    problem.alignment = std::move(alignment);
    return kernel.refuses(plan_facts(problem)).value_or("");
  };
  EXPECT_EQ(refusal("dim=64"), "");
  EXPECT_EQ(refusal("dim=128 q_len=0"), "");
  EXPECT_THAT(refusal("dim=100"), HasSubstr("heads of multiples of 8: dim=100"));
  EXPECT_THAT(refusal("dim=64 v_dim=4"), HasSubstr("heads of multiples of 8: dim=64 v_dim=4"));
  EXPECT_EQ(refusal("dim=64 v_dim=256"), "");
  EXPECT_EQ(refusal("dim=64 sinks=1"), "");
  EXPECT_EQ(refusal("dim=64 softcap=1 sinks=1"), "");
  EXPECT_EQ(refusal("dim=64 softcap=1 sinks=1 alibi=1"), "");
  EXPECT_THAT(refusal("k_len=0"), HasSubstr("nothing to multiply: k_len=0"));
  EXPECT_THAT(refusal("q_len=1073741825"), HasSubstr("counted in 32 bits"));
  EXPECT_THAT(refusal("dim=64", {16, 8, 16, 16, 4}), HasSubstr("start on 16 bytes: k_align=8"));
  EXPECT_EQ(refusal("dim=64", {16, 16, 16, 16, 4}), "") << "the log-sum-exp goes by elements";
}

constexpr const char* kBackward = "ops/attention/backward/cuda_attention_backward.cu";

TEST(AttentionBackwardPlan, ThreeLaunchesShareTheirSumsInScratchMemory) {
  const auto plan = [](const std::string& words) {
    const Problem problem = problem_of("attention_backward batch=2 heads=4 kv_heads=2 q_len=500 k_len=300 " + words);
    return plan_of(kBackward, problem, dense_views(problem));
  };
  const ResolvedPlan plain = plan("dim=128");
  EXPECT_THAT(symbols(plain), ElementsAre("ridge_attention_backward_prepare", "ridge_attention_backward",
                                          "ridge_attention_backward_finish"));
  EXPECT_EQ(plain.kernels[0].grid[0], 8u) << "blocks of 64 queries";
  EXPECT_EQ(plain.kernels[0].grid[1], 8u) << "heads of both sequences";
  EXPECT_EQ(plain.kernels[1].grid[0], 12u) << "three blocks of keys of four heads";
  EXPECT_EQ(plain.kernels[1].shared_bytes, 197888u);
  ASSERT_EQ(plain.workspaces.size(), 7u);
  EXPECT_EQ(plain.workspaces[0].bytes, 64u * 64 * 4);
  EXPECT_EQ(plain.workspaces[2].bytes, 64u * 64 * 128 * 4) << "dQ in fp32";
  EXPECT_EQ(plain.workspaces[3].bytes, 0u);
  EXPECT_EQ(plain.kernels[0].parameters.at(0).bytes, 336u) << "AttentionBackwardView";
  const ResolvedPlan ordered = plan("dim=64 deterministic=1 mask=causal");
  EXPECT_EQ(ordered.kernels[0].grid[0], 4u) << "blocks of 128 queries";
  EXPECT_EQ(ordered.kernels[1].shared_bytes, 198912u);
  EXPECT_EQ(ordered.workspaces[3].bytes, 4u * 8 * 8);
  const ResolvedPlan clipped = plan("dim=96");
  EXPECT_EQ(clipped.kernels[1].shared_bytes, 197888u) << "that of heads of 128";
  EXPECT_EQ(clipped.workspaces[2].bytes, 64u * 64 * 128 * 4);
}

// Heads of K and V that are worked on at one time.
TEST(AttentionBackwardPlan, SectionsShareTheL2OrAreTwoBlocksForEveryMultiprocessor) {
  const auto section = [](const char* source, const std::string& words, int multiprocessors) {
    const Problem problem = problem_of("attention_backward " + words);
    record::PlanFacts facts = plan_facts(problem, dense_views(problem));
    facts.values["sm_count"] = multiprocessors;
    return described_kernel(source).resolve(0, facts).value().kernels.back().parameters.back().parts.at(27).bits;
  };
  const auto of = [&](const std::string& words) {
    return section("ops/attention/backward/cuda_attention_backward.cu", words, 132);
  };
  const auto wide = [&](const std::string& words) {
    return section("ops/attention/backward/cuda_attention_backward_wide.cu", words, 132);
  };
  EXPECT_EQ(of("batch=2 heads=64 kv_heads=8 q_len=4096 k_len=4096 dim=128 mask=causal"), 8u) << "32 blocks a head";
  EXPECT_EQ(of("heads=32 kv_heads=8 q_len=8192 k_len=8192 dim=128 mask=causal"), 4u) << "64 blocks a head";
  EXPECT_EQ(of("batch=32 heads=32 kv_heads=8 q_len=512 k_len=512 dim=128 mask=causal"), 16u) << "2 MiB a head";
  EXPECT_EQ(of("batch=4 heads=32 kv_heads=32 q_len=2048 k_len=2048 dim=64 mask=causal deterministic=1"), 32u);
  EXPECT_EQ(of("batch=2 heads=64 kv_heads=8 q_len=4096 k_len=4096 dim=128"), 8u) << "of one query head each";
  EXPECT_EQ(wide("heads=16 kv_heads=16 q_len=16384 k_len=16384 dim=256 mask=causal"), 1u);
  EXPECT_EQ(wide("heads=16 kv_heads=16 q_len=16384 k_len=16384 dim=256 mask=causal deterministic=1"), 4u) << "turns";
  for (const int multiprocessors : {1, 5, 132}) {
    for (const char* more : {"", " mask=causal", " deterministic=1", " mask=causal deterministic=1"}) {
      for (const int length : {1, 300, 5000, 100000}) {
        const std::string words = fmt::format("heads=6 kv_heads=3 q_len={0} k_len={0} dim=64{1}", length, more);
        const std::uint64_t heads =
            section("ops/attention/backward/cuda_attention_backward.cu", words, multiprocessors);
        EXPECT_GE(heads, 1u) << words << " on " << multiprocessors;
        EXPECT_LE(heads, 3u) << words << " on " << multiprocessors;
      }
    }
  }
}

TEST(AttentionBackwardPlan, RefusesWhatItCannotReadWithTheValues) {
  const DescribedKernel& kernel = described_kernel(kBackward);
  const auto refusal = [&](const char* words) {
    return kernel.refuses(plan_facts(problem_of(std::string("attention_backward ") + words))).value_or("");
  };
  for (const char* words : {"dim=8", "dim=64", "dim=96", "dim=128", "dim=64 v_dim=128"}) EXPECT_EQ(refusal(words), "");
  EXPECT_THAT(refusal("dim=100"), HasSubstr("heads of multiples of 8 up to 128: dim=100"));
  EXPECT_THAT(refusal("dim=136"), HasSubstr("heads of multiples of 8 up to 128: dim=136"));
  EXPECT_THAT(refusal("dim=128 v_dim=4"), HasSubstr("up to 128: dim=128 v_dim=4"));
  EXPECT_EQ(refusal("dim=64 sinks=1"), "");
  EXPECT_EQ(refusal("dim=64 softcap=1 sinks=1"), "");
  EXPECT_EQ(refusal("dim=64 softcap=1 sinks=1 alibi=1"), "");
  EXPECT_THAT(refusal("k_len=0"), HasSubstr("nothing to multiply"));
  EXPECT_THAT(refusal("batch=20000"), HasSubstr("at most 65535 heads"));
}

constexpr const char* kWideBackward = "ops/attention/backward/cuda_attention_backward_wide.cu";

TEST(WideAttentionBackwardPlan, HasAllHeadsBeyondTheOtherKernels) {
  const auto plan = [](const std::string& words) {
    const Problem problem = problem_of("attention_backward batch=2 heads=4 kv_heads=2 q_len=500 k_len=300 " + words);
    return plan_of(kWideBackward, problem, dense_views(problem));
  };
  const ResolvedPlan latent = plan("dim=192 v_dim=128");
  EXPECT_THAT(symbols(latent), ElementsAre("ridge_attention_backward_prepare", "ridge_attention_backward",
                                           "ridge_attention_backward_finish"));
  EXPECT_EQ(latent.kernels[0].grid[0], 8u) << "blocks of 64 queries";
  EXPECT_EQ(latent.kernels[1].grid[0], 12u) << "three blocks of 128 keys of four heads";
  EXPECT_EQ(latent.kernels[1].shared_bytes, 230576u);
  EXPECT_EQ(latent.kernels[2].block[0], 384u) << "three parts of dQ";
  EXPECT_EQ(latent.workspaces[2].bytes, 64u * 64 * 192 * 4) << "dQ in fp32";
  EXPECT_EQ(latent.kernels[0].parameters.at(0).bytes, 336u) << "AttentionBackwardView";
  const ResolvedPlan middle = plan("dim=160 v_dim=136");
  EXPECT_EQ(middle.kernels[1].grid[0], 20u) << "five blocks of 64 keys of four heads";
  EXPECT_EQ(middle.workspaces[2].bytes, 64u * 64 * 192 * 4);
  const ResolvedPlan wide = plan("dim=200 v_dim=160 deterministic=1");
  EXPECT_EQ(wide.kernels[1].grid[0], 20u) << "five blocks of 64 keys of four heads";
  EXPECT_EQ(wide.kernels[2].block[0], 512u) << "four parts of dQ";
  EXPECT_EQ(wide.workspaces[2].bytes, 64u * 64 * 256 * 4);
  EXPECT_EQ(wide.workspaces[3].bytes, 64u * 4);
  const DescribedKernel& kernel = described_kernel(kWideBackward);
  const auto refusal = [&](const char* words) {
    return kernel.refuses(plan_facts(problem_of(std::string("attention_backward ") + words))).value_or("");
  };
  for (const char* words : {"dim=136", "dim=192 v_dim=128", "dim=256", "dim=8 v_dim=256"}) {
    EXPECT_EQ(refusal(words), "");
  }
  EXPECT_THAT(refusal("dim=128"), HasSubstr("heads of more than 128: dim=128"));
  EXPECT_THAT(refusal("dim=132"), HasSubstr("heads of multiples of 8 up to 256: dim=132"));
  EXPECT_THAT(refusal("dim=192 v_dim=20"), HasSubstr("v_dim=20"));
}

constexpr const char* kShortBackward = "ops/attention/backward/cuda_attention_backward_short.cu";

TEST(ShortAttentionBackwardPlan, IsOneLaunchWithoutScratchMemory) {
  const Problem problem = problem_of("attention_backward batch=3 heads=4 kv_heads=4 q_len=200 k_len=256 dim=64");
  const ResolvedPlan plan = plan_of(kShortBackward, problem, dense_views(problem));
  EXPECT_THAT(symbols(plan), ElementsAre("ridge_attention_backward_short"));
  EXPECT_EQ(plan.kernels[0].grid[0], 12u) << "a block per head";
  EXPECT_EQ(plan.kernels[0].parameters.back().bytes, 152u) << "View";
  EXPECT_TRUE(plan.workspaces.empty());
}

TEST(ShortAttentionBackwardPlan, TakesWhatABlockHoldsAndNoMore) {
  const DescribedKernel& kernel = described_kernel(kShortBackward);
  const auto refusal = [&](const std::string& words) {
    return kernel.refuses(plan_facts(problem_of("attention_backward heads=2 " + words))).value_or("");
  };
  for (const char* words : {"kv_heads=2 q_len=256 k_len=256 dim=64", "kv_heads=2 q_len=1 k_len=3 dim=8 mask=causal"}) {
    EXPECT_EQ(refusal(words), "");
  }
  EXPECT_THAT(refusal("kv_heads=1 q_len=256 k_len=256 dim=64"), HasSubstr("share no keys here: heads=2 kv_heads=1"));
  EXPECT_THAT(refusal("kv_heads=2 q_len=257 k_len=256 dim=64"),
              HasSubstr("up to 256 queries and keys: k_len=256 q_len=257"));
  EXPECT_THAT(refusal("kv_heads=2 q_len=64 k_len=64 dim=72"), HasSubstr("multiples of 8 up to 64: dim=72"));
  for (const char* more : {"keys_left=9", "documents=3", "sinks=1", "softcap=1", "alibi=1"}) {
    EXPECT_THAT(refusal(fmt::format("kv_heads=2 q_len=64 k_len=64 dim=64 {}", more)), HasSubstr("not for this kernel"));
  }
}

}  // namespace
}  // namespace ridge::ops
