// Times our matrix products against cuBLASLt on this machine's GPU.
//   gemm_bench compare ROOT [shapes]         chosen configuration against cuBLASLt's first and best algorithm
//   gemm_bench sweep ROOT [shapes]           every shipped configuration and cuBLASLt's best, without a pause and with
//                                            the cache cleared before each launch: what the cost model is tested on
//   gemm_bench facts ROOT                    what the device is: one line of JSON (limits, bandwidths, clock under
//   load)
// All others write CSV to stdout. ROOT is the repository; gemm_shape.h says how a shape is spelled. Exit status 77: no
// GPU, driver or run-time compiler here.
#include <chrono>
#include <cmath>
#include <iostream>
#include <sstream>

#include "gemm_peer.h"

using namespace ridge::gpu;
namespace rc = ridge::cuda;

namespace {

std::vector<Named> default_shapes() {
  std::vector<Named> shapes;
  for (const char* mnk :
       {"4096,4096,4096", "8192,8192,8192", "4096,6144,4096", "4096,28672,4096", "4096,4096,14336", "8192,10240,8192",
        "8192,57344,8192", "8192,8192,28672", "4096,7168,2048", "4096,2112,7168", "1024,4096,4096", "256,8192,8192"}) {
    for (const char* layout : {"NT", "NN", "TN"}) shapes.push_back(parse(std::string(layout) + ":bf16:" + mnk));
  }
  return shapes;
}

double expected_seconds(const GemmCase& g) {
  const double flops = 2.0 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k);
  return flops / (g.eight_bit() ? 1.4e15 : rc::bytes_of(g.type_a) == 4 ? 3.5e14 : 7e14);
}
int samples_per(const GemmCase& g) { return static_cast<int>(std::clamp(4e-4 / expected_seconds(g), 1.0, 10.0) + 0.5); }

double tflops(const GemmCase& g, double seconds) {
  return 2e-12 * static_cast<double>(g.m) * static_cast<double>(g.n) * static_cast<double>(g.k) / seconds;
}

// The peer's ranked algorithms, timed briefly; the fastest is raced in full.
std::size_t best_algorithm(const GemmCase& g, const PeerGemm& peer, const OperandSets& sets, int per_sample) {
  std::vector<Launcher> launchers;
  std::vector<std::size_t> usable;
  for (std::size_t i = 0; i < peer.algorithms(); ++i) {
    if (!peer.launch(i, sets.a[0].get(), sets.b[0].get(), sets.c[0].get(), gpu().stream)) continue;
    usable.push_back(i);
    launchers.push_back([&, i](std::size_t set) {
      peer.launch(i, sets.a[set].get(), sets.b[set].get(), sets.c[set].get(), gpu().stream);
    });
  }
  const double round =
      expected_seconds(g) * per_sample * static_cast<double>(std::max<std::size_t>(1, launchers.size()));
  const int rounds = std::clamp(static_cast<int>(0.1 / round), 2, 7);
  const auto timing = time_interleaved(launchers, sets.size(), rounds, per_sample);
  std::size_t best = 0;
  for (std::size_t i = 1; i < usable.size(); ++i) {
    if (median(timing.samples[i]) < median(timing.samples[best])) best = i;
  }
  return usable.empty() ? 0 : usable[best];
}

void compare(Kernels& kernels, const std::vector<Named>& shapes) {
  std::vector<Wanted> wanted;
  for (const auto& s : shapes) {
    wanted.push_back({choose_wgmma(s.g), s.g});
  }
  compile_all(wanted);
  Buffer cache(512u << 20), sink(1 << 16);
  cache.fill(1);
  std::cout << "protocol,layout,types,M,N,K,config,ours_tflops,lt_first_tflops,lt_best_tflops,ratio_first,ratio_best,"
               "ours_us,lt_best_us,clock_mhz,power_w,samples\n";
  for (const auto& s : shapes) {
    const auto& g = s.g;
    const OperandSets sets(kernels, g, 1234);
    const ExtraBuffers extra(kernels, g, 77);
    const int config = choose_wgmma(g);
    std::vector<ReadyGemm> runs;
    for (std::size_t i = 0; i < sets.size(); ++i) {
      runs.push_back(ready(wgmma(), config, g, sets.a[i].get(), sets.b[i].get(), sets.c[i].get(), extra.view()));
    }
    const PeerGemm peer(g, extra.scale_a.get(), extra.scale_b.get(), !g.promotes());
    const int per_sample = samples_per(g);
    const std::size_t best = best_algorithm(g, peer, sets, per_sample);
    const std::vector<Launcher> contenders = {
        [&](std::size_t set) { runs[set].launch(gpu().stream); },
        [&](std::size_t set) { peer.launch(0, sets.a[set].get(), sets.b[set].get(), sets.c[set].get(), gpu().stream); },
        [&](std::size_t set) {
          peer.launch(best, sets.a[set].get(), sets.b[set].get(), sets.c[set].get(), gpu().stream);
        },
    };
    const Kernel& sweep = kernels.get(kHarness, "sweep_cache");
    const Address cache_p = cache.get(), sink_p = sink.get();
    const long long words = static_cast<long long>(cache.bytes() / 16);
    const std::function<void()> cool = [&] { launch(sweep, 1056, 256, 0, {&cache_p, &words, &sink_p}); };
    for (const bool burst : {false, true}) {
      const int rounds = burst ? 20 : 40;
      const auto t = time_interleaved(contenders, sets.size(), rounds, burst ? 1 : per_sample,
                                      burst ? cool : std::function<void()>{});
      const double ours = median(t.samples[0]), first = median(t.samples[1]), top = median(t.samples[2]);
      std::cout << (burst ? "flushed" : "sustained") << "," << s.layout << "," << s.types << "," << g.m << "," << g.n
                << "," << g.k << "," << config_at(config).name << "," << tflops(g, ours) << "," << tflops(g, first)
                << "," << tflops(g, top) << "," << first / ours << "," << top / ours << "," << ours * 1e6 << ","
                << top * 1e6 << "," << t.telemetry.clock_mhz << "," << t.telemetry.power_w << "," << rounds
                << std::endl;
    }
  }
}

// How the launches of a sweep are spaced.
struct Protocol {
  const char* name;
  int flushes;  // reads of a buffer far larger than the L2 before each launch; 0: no pause, several launches in a row
};

constexpr double kSweepSeconds = 0.2;  // of one shape and protocol, if three rounds fit

int rounds_within(double seconds, double round_seconds, int most) {
  return std::clamp(static_cast<int>(seconds / round_seconds), 3, most);
}

void sweep(Kernels& kernels, const std::vector<Named>& shapes, const std::vector<Protocol>& protocols) {
  const int all = static_cast<int>(rc::wgmma_configs().size());
  std::vector<Wanted> wanted;
  for (const auto& s : shapes) {
    for (int c = 0; c < all; ++c) {
      if (config_fits(c, s.g)) wanted.push_back({c, s.g});
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  compile_all(wanted);
  std::cerr << "compiled " << wanted.size() << " builds in "
            << std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() << " s\n";
  Buffer cache(512u << 20), sink(1 << 16);
  cache.fill(1);
  const Kernel& clear = kernels.get(kHarness, "sweep_cache");
  const Address cache_p = cache.get(), sink_p = sink.get();
  const long long words = static_cast<long long>(cache.bytes() / 16);
  std::cout << "protocol,layout,types,M,N,K,config,us,lt_best_us,rounds\n";
  for (const auto& s : shapes) {
    const auto& g = s.g;
    const OperandSets sets(kernels, g, 99);
    const ExtraBuffers extra(kernels, g, 77);
    const PeerGemm peer(g, extra.scale_a.get(), extra.scale_b.get(), !g.promotes());
    const int per_sample = samples_per(g);
    const std::size_t best = best_algorithm(g, peer, sets, per_sample);
    std::vector<std::vector<ReadyGemm>> runs;
    std::vector<int> configs;
    std::vector<Launcher> contenders;
    for (int c = 0; c < all; ++c) {
      if (!config_fits(c, g)) continue;
      const auto plan = prepare(wgmma(), c, g);
      if (!plan || plan->kernels().at(0).attributes().local_bytes > 0) continue;  // does not compile, or spills
      configs.push_back(c);
      runs.emplace_back();
      for (std::size_t i = 0; i < sets.size(); ++i) {
        runs.back().push_back({*plan, sets.a[i].get(), sets.b[i].get(), sets.c[i].get(), extra.view()});
      }
    }
    for (auto& list : runs) contenders.push_back([&list](std::size_t set) { list[set].launch(gpu().stream); });
    contenders.push_back([&](std::size_t set) {
      peer.launch(best, sets.a[set].get(), sets.b[set].get(), sets.c[set].get(), gpu().stream);
    });
    for (const Protocol& protocol : protocols) {
      const std::function<void()> rest = [&] {
        for (int i = 0; i < protocol.flushes; ++i) launch(clear, 1056, 256, 0, {&cache_p, &words, &sink_p});
      };
      const int launches = protocol.flushes ? 1 : per_sample;
      const double each = expected_seconds(g) * launches + 2e-4 * protocol.flushes;
      const int rounds = rounds_within(kSweepSeconds, each * static_cast<double>(contenders.size()), 12);
      const auto t = time_interleaved(contenders, sets.size(), rounds, launches,
                                      protocol.flushes ? rest : std::function<void()>{});
      for (std::size_t i = 0; i < configs.size(); ++i) {
        std::cout << protocol.name << "," << s.layout << "," << s.types << "," << g.m << "," << g.n << "," << g.k << ","
                  << config_at(configs[i]).name << "," << median(t.samples[i]) * 1e6 << ","
                  << median(t.samples.back()) * 1e6 << "," << rounds << std::endl;
      }
    }
  }
}

// Bytes per second that the harness reads of a buffer which it goes over again and again.
double read_bandwidth(Kernels& kernels, std::size_t bytes, int times) {
  Buffer data(bytes), sink(1 << 16);
  data.fill(1);
  const Kernel& kernel = kernels.get(kHarness, "sweep_cache");
  const Address data_p = data.get(), sink_p = sink.get();
  const long long words = static_cast<long long>(bytes / 16);
  const auto run = [&] { launch(kernel, 1056, 512, 0, {&data_p, &words, &sink_p}); };
  for (int i = 0; i < times; ++i) run();
  Event begin, end;
  begin.record(gpu().stream);
  for (int i = 0; i < times; ++i) run();
  end.record(gpu().stream);
  gpu().synchronize();
  return static_cast<double>(bytes) * times / end.seconds_since(begin);
}

// What the management library says in the middle of half a second of products.
Telemetry under_load(Kernels& kernels, double& tflops_sustained) {
  const GemmCase g = parse("NT:bf16:8192,8192,8192").g;
  const OperandSets sets(kernels, g, 5);
  const PeerGemm peer(g, 0, 0, true);
  const auto run = [&](std::size_t i) {
    const std::size_t set = i % sets.size();
    peer.launch(0, sets.a[set].get(), sets.b[set].get(), sets.c[set].get(), gpu().stream);
  };
  Event begin, end;
  for (std::size_t i = 0; i < 200; ++i) run(i);
  begin.record(gpu().stream);
  for (std::size_t i = 0; i < 200; ++i) run(i);
  end.record(gpu().stream);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const Telemetry seen = read_telemetry();
  gpu().synchronize();
  tflops_sustained = tflops(g, end.seconds_since(begin) / 200);
  return seen;
}

void facts(Kernels& kernels) {
  double sustained = 0;
  const Telemetry load = under_load(kernels, sustained);
  std::printf(
      "{\"name\":\"%s\",\"multiprocessors\":%d,\"l2_bytes\":%.0f,\"clock_hz\":%.4g,\"memory_bandwidth\":%.4g,"
      "\"power_limit_w\":%u,\"hbm_read_bytes_per_s\":%.4g,\"l2_read_bytes_per_s\":%.4g,"
      "\"l2_half_read_bytes_per_s\":%.4g,\"clock_under_load_mhz\":%u,\"power_under_load_w\":%u,"
      "\"cublaslt_8192_tflops\":%.1f}\n",
      gpu().info().name.c_str(), gpu().info().multiprocessors, static_cast<double>(gpu().info().l2_bytes),
      gpu().clock(), gpu().memory_bandwidth(), load.power_limit_w, read_bandwidth(kernels, std::size_t{4} << 30, 20),
      read_bandwidth(kernels, 16u << 20, 400),
      read_bandwidth(kernels, static_cast<std::size_t>(gpu().info().l2_bytes / 2) / 4096 * 4096, 400), load.clock_mhz,
      load.power_w, sustained);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: gemm_bench compare|sweep|facts ROOT [LAYOUT:TYPES:M,N,K ...]\n";
    return 2;
  }
  const std::string mode = argv[1];
  hopper();
  if (const auto why = why_no_peer()) missing("no cuBLASLt to compare with: " + *why);
  Kernels kernels(argv[2]);
  std::vector<Named> shapes;
  for (int i = 3; i < argc; ++i) shapes.push_back(parse(argv[i]));
  if (shapes.empty()) shapes = default_shapes();
  if (mode == "compare") {
    compare(kernels, shapes);
  } else if (mode == "facts") {
    facts(kernels);
  } else {
    sweep(kernels, shapes, {{"sustained", 0}, {"flushed", 1}});
  }
  return 0;
}
