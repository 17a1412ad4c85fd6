// Checks the wgmma matrix products against float64 on this machine's GPU: every configuration, all layouts and types,
// shapes at and around tile edges, poisoned outputs, padded leading dimensions, NaN and Inf, and bitwise repeatability.
//   gemm_conformance ROOT [quick | LAYOUT:WORDS ...]
// With words, as in gemm_shape.h, every configuration runs those alone.
#include <iostream>

#include "gemm_check.h"

using namespace ridge::gpu;
namespace rc = ridge::cuda;

namespace {

int failures = 0, checks = 0;

std::string describe(const GemmCase& g, const std::string& config) {
  return config + " " + (g.a_mn_major ? "T" : "N") + (g.b_mn_major ? "N" : "T") + " " + rc::name_of(g.type_a) + "," +
         rc::name_of(g.type_b) + "->" + rc::name_of(g.type_c) + (g.accumulate ? "+=" : "") + " " +
         rc::name_of(g.scaling) + (g.promote ? " promote " : " ") + rc::name_of(g.activation) +
         (g.bias ? " bias" : "") + (g.residual ? " residual" : "") + " " + std::to_string(g.m) + "," +
         std::to_string(g.n) + "," + std::to_string(g.k) + " ld " + std::to_string(g.row_a()) + "," +
         std::to_string(g.row_b()) + "," + std::to_string(g.row_c());
}

void report(bool passed, const std::string& what, const std::string& detail = "") {
  ++checks;
  if (passed) return;
  ++failures;
  if (failures <= 40) std::cout << "FAILED " << what << " " << detail << std::endl;
}

constexpr int kPoison = 0xFF;        // NaN in every type
constexpr std::size_t kTail = 4096;  // guarded bytes behind C

// `config` -1: the path without the copy engine.
void check_case(Kernels& kernels, const GemmCase& g, int config, std::uint64_t seed, std::int64_t rows = 512) {
  const bool plain = config < 0;
  const std::string name = describe(g, plain ? "simt" : config_at(config).name);
  const auto refusal = wgmma_refuses(g);
  if (!plain && refusal) return report(false, name, *refusal);
  const std::size_t bytes_c = static_cast<std::size_t>(elements_c(g) * rc::bytes_of(g.type_c));
  Buffer a(static_cast<std::size_t>(elements_a(g) * rc::bytes_of(g.type_a))),
      b(static_cast<std::size_t>(elements_b(g) * rc::bytes_of(g.type_b)));
  Buffer c(bytes_c + kTail), again(bytes_c + kTail), before(bytes_c + kTail), counter(8);
  const ExtraBuffers extra(kernels, g, seed + 3);
  fill_normal(kernels, a.get(), g.type_a, elements_a(g), seed);
  fill_normal(kernels, b.get(), g.type_b, elements_b(g), seed + 1);
  before.fill(kPoison);
  if (g.accumulate) {
    // Only the columns inside the matrix hold numbers; the padding stays poisoned.
    const std::int64_t size = rc::bytes_of(g.type_c);
    for (std::int64_t row = 0; row < g.m; ++row) {
      fill_normal(kernels, before.get() + static_cast<Address>(row * g.row_c() * size), g.type_c, g.n, seed + 2 + row);
      if (g.row_c() == g.n && row == 0) {
        fill_normal(kernels, before.get(), g.type_c, elements_c(g), seed + 2);
        break;
      }
    }
  }
  auto run = [&](const Buffer& out) {
    out.copy_from(before);
    ready(plain ? simt() : wgmma(), plain ? 0 : config, g, a.get(), b.get(), out.get(), extra.view())
        .launch(gpu().stream);
  };
  run(c);
  run(again);
  auto result = compare_with_reference(kernels, g, a.get(), b.get(), c.get(), g.accumulate ? before.get() : 0, rows,
                                       extra.view(), plain);
  counter.fill(0);
  const Address c_p = c.get(), again_p = again.get(), counter_p = counter.get();
  const long long bytes = static_cast<long long>(c.bytes()), row_bytes = g.row_c() * rc::bytes_of(g.type_c),
                  used = g.n * rc::bytes_of(g.type_c), row_count = g.m, words = bytes / 4;
  launch(kernels.get(kHarness, "check_untouched"), blocks_for(bytes), 256, 0,
         {&c_p, &bytes, &row_bytes, &used, &row_count, &kPoison, &counter_p});
  result.touched_outside = counter.values<unsigned long long>(1)[0];
  report(result.passed(), name,
         "wrong " + std::to_string(result.wrong) + " first " + std::to_string(result.first_wrong) + " outside " +
             std::to_string(result.touched_outside) + " relative error " + std::to_string(result.relative_error) +
             " worst/bound " + std::to_string(result.worst));
  counter.fill(0);
  launch(kernels.get(kHarness, "count_differences"), blocks_for(words), 256, 0, {&c_p, &again_p, &words, &counter_p});
  report(counter.values<unsigned long long>(1)[0] == 0, name, "two runs differ");
}

// One NaN in A and one Inf in B must reach exactly the row and the column they belong to.
void check_not_finite(Kernels& kernels, GemmCase g, int config) {
  const std::string name = "nan/inf " + describe(g, config_at(config).name);
  Buffer a(static_cast<std::size_t>(elements_a(g) * rc::bytes_of(g.type_a))),
      b(static_cast<std::size_t>(elements_b(g) * rc::bytes_of(g.type_b)));
  Buffer c(static_cast<std::size_t>(elements_c(g) * rc::bytes_of(g.type_c)));
  const ExtraBuffers extra(kernels, g, 8);
  g.accumulate = false;
  fill_normal(kernels, a.get(), g.type_a, elements_a(g), 5);
  fill_normal(kernels, b.get(), g.type_b, elements_b(g), 6);
  auto set = [&](Address data, GemmType type, std::int64_t index, float value) {
    const int t = static_cast<int>(type);
    const long long i = index;
    launch(kernels.get(kHarness, "set_value"), 1, 1, 0, {&data, &t, &i, &value});
  };
  const std::int64_t bad_row = g.m / 2, bad_col = g.n / 3, p = g.k / 2;
  set(a.get(), g.type_a, g.a_mn_major ? p * g.row_a() + bad_row : bad_row * g.row_a() + p, std::nanf(""));
  if (rc::bytes_of(g.type_b) == 2) {  // the 8-bit conversion saturates: no Inf to plant
    set(b.get(), g.type_b, g.b_mn_major ? p * g.row_b() + bad_col : bad_col * g.row_b() + p, INFINITY);
  }
  c.fill(0x11);
  ready(wgmma(), config, g, a.get(), b.get(), c.get(), extra.view()).launch(gpu().stream);
  const auto result = compare_with_reference(kernels, g, a.get(), b.get(), c.get(), 0, g.m, extra.view());
  report(result.passed(), name,
         "wrong " + std::to_string(result.wrong) + " first " + std::to_string(result.first_wrong));
}

// Every input comes late from a kernel that let the product start early: scales, bias and operands must all be waited
// for. Compared bit by bit with the same product launched after everything was there.
void check_dependent_launch(Kernels& kernels, const char* words) {
  const GemmCase g = parse(std::string(words) + ":384,512,1024").g;
  const int config = choose_wgmma(g);
  const auto bytes = [](std::int64_t elements, GemmType type) {
    return static_cast<std::size_t>(elements * rc::bytes_of(type));
  };
  const ExtraBuffers given(kernels, g, 41);
  Buffer a(bytes(elements_a(g), g.type_a)), b(bytes(elements_b(g), g.type_b));
  fill_normal(kernels, a.get(), g.type_a, elements_a(g), 42);
  fill_normal(kernels, b.get(), g.type_b, elements_b(g), 43);
  Buffer expected(bytes(elements_c(g), g.type_c)), seen(bytes(elements_c(g), g.type_c)), counter(8);
  ready(wgmma(), config, g, a.get(), b.get(), expected.get(), given.view()).launch(gpu().stream);
  const std::vector<const Buffer*> sources = {&a, &b, &given.scale_a, &given.scale_b, &given.bias, &given.residual};
  std::vector<Buffer> late;
  for (const Buffer* source : sources) late.emplace_back(source->bytes());
  for (const Buffer& buffer : late) buffer.fill(kPoison);
  seen.fill(kPoison);
  const auto given_or_none = [&](std::size_t i) { return sources[i]->bytes() ? late[i].get() : 0; };
  const Extras extras{given_or_none(2), given_or_none(3), given_or_none(4), given_or_none(5)};
  const ReadyGemm product = ready(wgmma(), config, g, late[0].get(), late[1].get(), seen.get(), extras, true);
  const Kernel& publish = kernels.get(kHarness, "publish_late");
  std::vector<std::size_t> copied;
  for (std::size_t i = 0; i < late.size(); ++i) {
    if (sources[i]->bytes()) copied.push_back(i);
  }
  gpu().synchronize();
  for (const std::size_t i : copied) {
    const Address from = sources[i]->get(), to = late[i].get();
    const long long count = static_cast<long long>(sources[i]->bytes() / 4);
    // The last one, what the consumers read where there is any, is still on its way when the product may start.
    const unsigned sleep = i == copied.back() ? 300 : 0;
    launch(publish, 16, 256, 0, {&from, &to, &count, &sleep});
  }
  product.launch(gpu().stream);
  counter.fill(0);
  const Address expected_p = expected.get(), seen_p = seen.get(), counter_p = counter.get();
  const long long count = static_cast<long long>(seen.bytes() / 4);
  launch(kernels.get(kHarness, "count_differences"), blocks_for(count), 256, 0,
         {&expected_p, &seen_p, &count, &counter_p});
  const auto different = counter.values<unsigned long long>(1)[0];
  report(different == 0, std::string("dependent launch ") + words, std::to_string(different) + " words differ");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: gemm_conformance ROOT [quick | LAYOUT:WORDS ...]\n";
    return 2;
  }
  const bool quick = argc > 2 && std::string(argv[2]) == "quick";
  const std::vector<const char*> asked(argv + (quick ? 3 : 2), argv + argc);
  hopper();
  Kernels kernels(argv[1]);

  // Every configuration runs the variants it fits, in these words of the benchmark's shapes.
  std::vector<const char*> words = {
      "NT:bf16", "NN:bf16", "TN:bf16", "TT:bf16", "TN:bf16-f32add", "TN:bf16-f32", "NT:f16", "NN:f16-f32add",
      // main gradients and epilogues
      "TN:bf16-bf16add", "NT:bf16-bias-gelu", "NN:bf16-f32-bias-silu-residual", "NT:f16-gelutanh-residual",
      "NT:bf16-residual", "NT:e4m3-block-bf16add",
      // 8-bit, summed by the matrix unit
      "NT:e4m3-tensor", "NT:e5m2e4m3-row", "NT:e4m3-row-f32-bias",
      // and promoted
      "NT:e4m3-tensor-promote", "NT:e4m3e5m2-row-promote", "NT:e4m3-block", "NT:e5m2e4m3-block-f32add",
      "NT:e4m3-vector-f32add", "NT:e5m2-vector", "NT:tf32", "NT:tf32-bias-f32"};
  if (!asked.empty()) words = asked;
  std::vector<GemmCase> variants;
  for (const char* word : words) variants.push_back(parse(std::string(word) + ":64,64,1024").g);
  auto sized = [](GemmCase g, std::int64_t m, std::int64_t n, std::int64_t k) {
    g.m = m;
    g.n = n;
    g.k = k;
    return g;
  };
  const std::size_t configs = rc::wgmma_configs().size();
  std::vector<std::pair<int, const GemmCase*>> pairs;
  std::vector<Wanted> wanted;
  for (std::size_t ci = 0; ci < configs; ++ci) {
    for (std::size_t vi = 0; vi < variants.size(); ++vi) {
      if (!config_fits(static_cast<int>(ci), variants[vi])) continue;
      // Quick: each variant once, and each kind of configuration once.
      if (quick && (ci * 7 + vi) % 11 != 0) continue;
      pairs.push_back({static_cast<int>(ci), &variants[vi]});
      for (const std::int64_t n : {64, 63}) {
        const GemmCase g = sized(variants[vi], 64, n, 1024);
        if (config_fits(static_cast<int>(ci), g)) wanted.push_back({static_cast<int>(ci), g});
      }
    }
  }
  compile_all(wanted);

  std::uint64_t seed = 20260000;
  for (const auto& [index, variant] : pairs) {
    const WgmmaConfig* const config = &config_at(index);
    const std::int64_t bm = config->block_m * config->cluster_m, bn = config->block_n * config->cluster_n;
    struct Size {
      std::int64_t m, n, k;
    };
    // M edges freely; N and K in the steps the copy engine's 16-byte strides allow, with padded leading dimensions
    // below for the rest.
    std::vector<Size> sizes = {{1, 8, 16},           {1, 1, 1},
                               {7, 13, 17},          {bm, bn, 64},
                               {bm + 1, bn + 1, 65}, {bm - 1, bn - 1, 127},
                               {127, 257, 509},      {2 * bm + 3, 3 * bn - 5, 1031},
                               {64, 1, 128},         {1, 521, 40},
                               {bm + 1, bn + 8, 72}, {bm - 1, 2 * bn - 8, 66}};
    if (quick) sizes = {{1, 1, 1}, {bm + 1, bn + 1, 65}, {300, 520, 200}, {300, 2 * bn + 8, 66}};
    // All sizes for the first configuration and the first variants, every other one elsewhere.
    const bool thorough = index == 0 || variant - variants.data() < 4;
    std::size_t turn = static_cast<std::size_t>(variant - variants.data());
    for (const auto& size : sizes) {
      if (!quick && !thorough && ++turn % 2 == 0) continue;
      // What travels with a stage starts on 16 bytes, so the sizes of scaled rows and columns are multiples of four.
      const bool fours_m = variant->scaling == GemmScaling::kBlock || variant->scaling == GemmScaling::kVector;
      const bool fours_n = variant->scaling == GemmScaling::kVector;
      GemmCase g = sized(*variant, fours_m ? (size.m + 3) / 4 * 4 : size.m, fours_n ? (size.n + 3) / 4 * 4 : size.n,
                         size.k + (config->split_k - 1) * 512);
      auto pad = [](std::int64_t row, GemmType type) {
        const std::int64_t unit = 16 / rc::bytes_of(type);
        return (row + unit - 1) / unit * unit;
      };
      g.lda = pad(g.row_a(), g.type_a);
      g.ldb = pad(g.row_b(), g.type_b);
      // Dense, padded to 16 bytes, and padded beyond, in turn.
      if (size.k % 3 == 0) g.ldc = pad(g.row_c(), g.type_c) + (size.m % 2 ? 16 / rc::bytes_of(g.type_c) : 0);
      if (size.k % 3 == 1) g.ldc = pad(g.row_c(), g.type_c);
      if (g.residual || g.residual_is_c()) {
        // As the copy engine brings it, or as threads must read it.
        g.ld_residual = size.m % 2 == 0 ? g.n + 3 : pad(g.n, g.type_c);
        if (g.residual_is_c()) g.ldc = pad(g.row_c(), g.type_c);
      }
      if (!config_fits(index, g)) continue;
      check_case(kernels, g, index, seed += 10);
    }
    check_not_finite(kernels, sized(*variant, bm + 64, bn + 64, 192 + (config->split_k - 1) * 256), index);
    if (!quick && (thorough || seed % 3 == 0)) {
      // More tiles than multiprocessors: the persistent loop, the ring's phases and the reuse of the output slabs.
      check_case(kernels, sized(*variant, 3072 + 64, 4096 + 128, 320), index, seed += 10, 64);
      check_case(kernels, sized(*variant, 1024, 2048, 4096), index, seed += 10, 32);
    }
  }
  const auto ended = [] {
    std::cout << "gemm_conformance: " << checks << " checks, " << failures << " failed" << std::endl;
    return failures ? 1 : 0;
  };
  if (!asked.empty()) return ended();
  // Dense odd shapes that the wgmma path must refuse by name, and the plain path must compute; and what only it can.
  std::vector<const char*> plain(words.begin(), words.begin() + 22);
  plain.insert(plain.end(), {"NT:f32", "TN:f32-f32add", "NN:f32-bias-gelu-residual", "NT:e4m3-mx", "TT:e5m2e4m3-mx-f32",
                             "TN:e4m3-block", "NN:e4m3-vector-f32add", "TN:e5m2-row"});
  for (const char* word : plain) {
    if (std::string(word).find("promote") != std::string::npos) continue;
    for (const auto& [m, n, k] :
         {std::array<std::int64_t, 3>{1, 1, 1}, {65, 63, 17}, {127, 131, 129}, {7, 509, 1}, {300, 129, 261}}) {
      const GemmCase g = sized(parse(std::string(word) + ":1,1,1").g, m, n, k);
      report(wgmma_refuses(g).has_value(), describe(g, config_at(0).name), "should have been refused");
      check_case(kernels, g, -1, seed += 10);
    }
    if (quick) break;
  }
  for (const char* word : {"NT:bf16", "NT:bf16-bias-gelu", "NT:bf16-residual", "NT:e4m3-tensor", "NT:e4m3-row",
                           "NT:e4m3-block", "NT:e4m3-vector-f32"}) {
    check_dependent_launch(kernels, word);
  }
  // Mistakes of the caller: no kernel takes them.
  for (const char* word : {"NT:bf16-row", "NT:bf16-promote", "NT:bf16-f32add-bias"}) {
    report(rc::gemm_refuses(parse(std::string(word) + ":64,64,64").g).has_value(), word, "should have been refused");
  }
  return ended();
}
