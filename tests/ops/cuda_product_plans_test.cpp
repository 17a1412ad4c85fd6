// What products on GPUs are launched with, and how many blocks kernels that stay on their multiprocessors have on a
// share of the GPU. Needs no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/cuda_plan_cases.h"
#include "ops/matmul/cuda/calls.h"
#include "ops/matmul/values.h"

namespace ridge::ops {
namespace {

using testing::HasSubstr;

// Kernels that stay have no more blocks than their share of the multiprocessors holds at once.
TEST(Plans, OfKernelsThatStayTakeNoMoreMultiprocessorsThanTheyMayCountOn) {
  const auto blocks = [](const char* source, const char* words, int multiprocessors) {
    const Problem problem = problem_of(words);
    record::PlanFacts facts = plan_facts(problem, dense_views(problem));
    facts.values["sm_count"] = multiprocessors;
    const DescribedKernel& kernel = described_kernel(source);
    return kernel.resolve(kernel.fitting(facts).at(0), facts).value().kernels.at(0).grid[0];
  };
  struct Stays {
    const char *source, *words;
  };
  for (const Stays& one :
       {Stays{"ops/attention/cuda_attention.cu", "attention batch=8 heads=32 kv_heads=8 q_len=4096 k_len=4096 dim=128"},
        Stays{"ops/rmsnorm/cuda_rmsnorm.cu", "rmsnorm rows=8192 cols=1024"},
        Stays{"ops/rmsnorm/backward/cuda_rmsnorm_backward.cu", "rmsnorm_backward rows=8192 cols=65536"},
        Stays{"ops/cross_entropy/cuda_cross_entropy.cu", "cross_entropy tokens=8192 vocabulary=128256"},
        Stays{"ops/grouped_gemm/cuda_groups.cu", "grouped_gemm rows=16384 groups=8 n=4096 k=4096 layout=nt"},
        Stays{"ops/grouped_gemm_fp8/cuda_groups_fp8.cu", "grouped_gemm_fp8 rows=16384 groups=8 n=4096 k=4096"},
        Stays{"ops/symmetric_product/cuda_symmetric.cu", "symmetric_product n=8192 k=4096"}}) {
    const std::uint32_t all = blocks(one.source, one.words, 132);
    EXPECT_LE(blocks(one.source, one.words, 100), all * 100 / 132) << one.words;
    EXPECT_LE(blocks(one.source, one.words, 16), std::max(all * 16 / 132, 1u)) << one.words;
    EXPECT_GE(blocks(one.source, one.words, 16), 1u) << one.words;
  }
}

TEST(GroupedFp8Plan, RefusesWhatItCannotReadWithTheValues) {
  const DescribedKernel& kernel = described_kernel("ops/grouped_gemm_fp8/cuda_groups_fp8.cu");
  const auto refusal = [&](const char* words) {
    return kernel.refuses(plan_facts(problem_of(std::string("grouped_gemm_fp8 ") + words))).value_or("");
  };
  EXPECT_EQ(refusal("rows=256 k=256 n=256"), "");
  EXPECT_EQ(refusal("rows=256 m=256 n=256 along=sums"), "");
  EXPECT_THAT(refusal("rows=254 k=256 n=256"), HasSubstr("scale_a_align=8"));
  EXPECT_THAT(refusal("rows=256 m=255 n=256 along=sums"), HasSubstr("scale_a_align=4"));
  for (const char* scaling : {" scaling=row", " scaling=tensor"}) {  // their scales lie at any address
    EXPECT_EQ(refusal((std::string("rows=253 k=256 n=256") + scaling).c_str()), "");
    EXPECT_EQ(refusal((std::string("rows=256 m=255 n=256 along=sums") + scaling).c_str()), "");
    EXPECT_THAT(refusal((std::string("rows=253 k=250 n=256") + scaling).c_str()), HasSubstr("a_align"));
  }
  EXPECT_THAT(refusal("rows=0 k=256 n=256"), HasSubstr("an empty product"));
}

// Scales of blocks lie in the stages; of rows, those of B's once for each warpgroup; of groups nowhere.
TEST(GroupedFp8Plan, BuildsForTheScalesAndSaysHowFarApartTheyLie) {
  const DescribedKernel& kernel = described_kernel("ops/grouped_gemm_fp8/cuda_groups_fp8.cu");
  struct Expected {
    const char *words, *scaling;
    std::uint32_t scale_bytes;        // of shared memory
    std::int64_t stride_a, stride_b;  // of ScaleView
  };
  for (const Expected& one : {Expected{"k=384", "kBlock", 4 * (128 + 4) * 4, 512, 3},
                              Expected{"m=64 along=sums", "kVector", 4 * (128 + 256) * 4, 64, 256},
                              Expected{"k=384 scaling=row", "kRow", 2 * 256 * 4, 1, 256},
                              Expected{"m=64 along=sums scaling=row", "kRow", 2 * 256 * 4, 64, 256},
                              Expected{"k=384 scaling=tensor", "kTensor", 0, 1, 1},
                              Expected{"m=64 along=sums scaling=tensor", "kTensor", 0, 1, 1}}) {
    const Problem problem = problem_of(std::string("grouped_gemm_fp8 rows=512 groups=8 n=256 ") + one.words);
    record::PlanFacts facts = plan_facts(problem, dense_views(problem));
    facts.values["sm_count"] = 132;
    const auto& configs = kernel.description().configs;
    const auto wide = std::find_if(configs.begin(), configs.end(), [](auto& c) { return c.name == "promote_128x256"; });
    ASSERT_NE(wide, configs.end());
    const int configuration = static_cast<int>(wide - configs.begin());
    EXPECT_THAT(kernel.build(configuration, facts).value().defines,
                testing::Contains(std::string("RIDGE_SCALING=") + one.scaling));
    const auto launched = kernel.resolve(configuration, facts).value().kernels.at(0);
    EXPECT_EQ(launched.shared_bytes, 4 * (384 * 128 + 16) + one.scale_bytes + 16384 + 9 * 8) << one.words;
    const auto variables = kernel.variables(configuration, facts).value();
    EXPECT_EQ(variables.at("scale_a_stride0"), one.stride_a) << one.words;
    EXPECT_EQ(variables.at("scale_b_row"), one.stride_b) << one.words;
  }
}

TEST(Plans, ProductsOnAShareOfTheMultiprocessorsRunInNoClusters) {
  ridge::cuda::GemmCase g;
  g.m = g.n = g.k = g.lda = g.ldb = g.ldc = 8192;
  g.type_a = g.type_b = g.type_c = ridge::cuda::GemmType::kBf16;
  record::PlanFacts facts;
  matmul::add_values(g, facts.values);
  DeviceInfo device;
  device.multiprocessors = 132;
  const auto blocks_of_a_cluster = [](int configuration) {
    const auto& config = ridge::cuda::wgmma_configs()[static_cast<std::size_t>(configuration)];
    return config.cluster_m * config.cluster_n * config.split_k;
  };
  const int whole = matmul::wgmma_choice(g, facts, -1, device, 132);
  ASSERT_GE(whole, 0);
  EXPECT_GT(blocks_of_a_cluster(whole), 1) << "the fastest on the whole device";
  const int share = matmul::wgmma_choice(g, facts, -1, device, 100);
  ASSERT_GE(share, 0);
  EXPECT_EQ(blocks_of_a_cluster(share), 1);
  EXPECT_EQ(matmul::wgmma_choice(g, facts, whole, device, 132), whole) << "what was asked for";
  EXPECT_EQ(matmul::wgmma_choice(g, facts, whole, device, 100), share) << "is not taken on a share";
  EXPECT_EQ(matmul::wgmma_choice(g, facts, share, device, 132), share);
}

// Half of gemm's tiles, and those on the diagonal; a residual and a batch change nothing of the tiles of one matrix.
TEST(SymmetricPlan, CountsTheTilesOnAndAboveTheDiagonal) {
  constexpr const char* kSource = "ops/symmetric_product/cuda_symmetric.cu";
  const DescribedKernel& kernel = described_kernel(kSource);
  const auto blocks = [&](const char* words, std::string_view config) -> std::uint32_t {
    const Problem problem = problem_of(words);
    record::PlanFacts facts = plan_facts(problem, dense_views(problem));
    facts.values["sm_count"] = 100000;
    for (const int one : kernel.fitting(facts)) {
      if (kernel.description().configs[static_cast<std::size_t>(one)].name != config) continue;
      return kernel.resolve(one, facts).value().kernels.at(0).grid[0];
    }
    return 0;
  };
  EXPECT_EQ(blocks("symmetric_product n=1024 k=512", "pp_128x128"), 36u);
  EXPECT_EQ(blocks("symmetric_product n=1032 k=512 residual=1", "pp_128x128"), 45u);
  EXPECT_EQ(blocks("symmetric_product n=1024 k=512 batch=3 layout=t", "pp_128x128"), 108u);
  EXPECT_EQ(blocks("symmetric_product n=1024 k=512", "pp_128x128_m2"), 2 * (8 + 6 + 4 + 2u));
  EXPECT_EQ(blocks("symmetric_product n=1024 k=512", "coop_256x128_n2"), 2 * 10u);
  EXPECT_EQ(blocks("symmetric_product n=1024 k=512", "pp_64x64"), 136u);
  EXPECT_EQ(blocks("symmetric_product n=1024 k=512 dtype=f32", "pp_128x128"), 0u) << "the matrix unit has no fp32";
  EXPECT_EQ(blocks("symmetric_product n=1028 k=512", "pp_128x128"), 0u) << "rows that do not end on 16 bytes";
  EXPECT_EQ(blocks("symmetric_product n=1028 k=512 out=f32", "pp_128x128"), 45u);
}

}  // namespace
}  // namespace ridge::ops
