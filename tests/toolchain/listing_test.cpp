#include "toolchain/listing.h"

#include <gtest/gtest.h>

namespace ridge::toolchain {
namespace {

// An outer loop (10..40) around an inner one (14..2a) with one spill; a second function with a scalar FMA.
constexpr const char* kListing =
    "\n0000000000000000 <ridge_kernel>:\n"
    "   0:\tpush   %rbp\n"
    "  10:\tvmovaps %zmm3,-0x40(%rbp)\n"
    "  14:\tvfmadd231ps (%rax),%zmm1,%zmm0\n"
    "  1a:\tvfmadd231ps 0x40(%rax){1to16},%zmm1,%zmm2\n"
    "  20:\tvmovaps 0x40(%rsp),%zmm4\n"
    "  24:\tadd    $0x40,%rax\n"
    "  2a:\tjne    14 <ridge_kernel+0x14>\n"
    "  30:\tvmovups %zmm0,(%rcx)\n"
    "  34:\tvgatherdps (%rax,%zmm1,4),%zmm5{%k1}\n"
    "  40:\tjb     10 <ridge_kernel+0x10>\n"
    "  44:\tret\n"
    "\n0000000000000000 <helper>:\n"
    "   0:\tvfmadd213ss %xmm1,%xmm2,%xmm0\n"
    "   8:\tjmp    90 <elsewhere>\n";

TEST(Listing, CountsFusedMultiplyAddsByWidth) {
  const auto counts = count_listing(kListing);
  EXPECT_EQ(counts.at("fma_vector"), 2);
  EXPECT_EQ(counts.at("fma_zmm"), 2);
  EXPECT_EQ(counts.at("fma_ymm"), 0);
  EXPECT_EQ(counts.at("fma_scalar"), 1);
  EXPECT_EQ(counts.at("gather"), 1);
  EXPECT_EQ(counts.at("vector_bits"), 512);
  EXPECT_EQ(counts.at("instructions"), 13);
}

TEST(Listing, FindsTheInnermostLoopAndItsSpills) {
  const auto counts = count_listing(kListing);
  EXPECT_EQ(counts.at("loops"), 1);
  EXPECT_EQ(counts.at("hot_loop_instructions"), 5);
  EXPECT_EQ(counts.at("hot_loop_fma"), 2);
  EXPECT_EQ(counts.at("hot_loop_loads"), 3);
  EXPECT_EQ(counts.at("hot_loop_stores"), 0);
  EXPECT_EQ(counts.at("hot_loop_spill"), 1);
  EXPECT_EQ(counts.at("hot_loop_registers"), 4);
  EXPECT_EQ(counts.at("stack_spill"), 1);
}

TEST(Listing, OfNothingIsZero) {
  const auto counts = count_listing("");
  EXPECT_EQ(counts.at("instructions"), 0);
  EXPECT_EQ(counts.at("vector_bits"), 0);
  EXPECT_EQ(counts.at("hot_loop_fma"), 0);
}

}  // namespace
}  // namespace ridge::toolchain
