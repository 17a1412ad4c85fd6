// Checks and times matmul for Ridgeline, in the frozen table. Written by `ridge handoff init`; yours to change.
//
//   quick_test_bench test                                       the focused test: prints passed=N failed=N
//   quick_test_bench bench CSV SHAPES [--seed N] [--fresh]
//
// out = a b, with a of [M, K] and b of [K, N], row after row; d_a = d_out b^T, d_b = a^T d_out. Every call is checked
// against sums in double. Both modes draw new matrices before every timed call, --fresh also uses them, and then the
// caches are flushed: the two may differ in nothing but having been seen. Outputs hold NaN before every call, are copied
// as soon as it is over, and the copies are judged. A kernel fails its Check when an element is off by more than rounding
// explains, is NaN, or was not written, when it changes its inputs, answers from what it kept of an earlier call, or
// leaves work on another stream; on a GPU the wall time of such work counts as time of the call.
//
// One file for a CPU (c++), CUDA (nvcc -x cu) and HIP (hipcc).
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
#define GPU(name) hip##name
#elif defined(__CUDACC__)
#include <cuda_runtime.h>
#define GPU(name) cuda##name
#endif

#if defined(GPU)
using Stream = GPU(Stream_t);
#define STREAM_PARAMETER , Stream
#define STREAM_ARGUMENT , Stream(nullptr)
#define BOTH __host__ __device__
#else
#define STREAM_PARAMETER
#define STREAM_ARGUMENT
#define BOTH
#endif

// The kernel; pointers are the device's.
void matmul(const float* a, const float* b, float* out, int m, int n, int k STREAM_PARAMETER);
#define BACKWARD 1  // whether the gradients are checked and timed
#if BACKWARD
void matmul_backward(const float* d_out, const float* a, const float* b, float* d_a, float* d_b, int m, int n,
                         int k STREAM_PARAMETER);
#endif

namespace {

struct Shape {
  int m, n, k;
  [[nodiscard]] double flop() const { return 2.0 * m * n * k; }
};
const std::map<std::string, Shape> kShapes = {
    {"small", {64, 64, 64}},
    {"large", {128, 96, 160}},
};
const std::vector<Shape> kEdgeShapes = {{1, 1, 1}, {1, 7, 3}, {5, 1, 9}, {17, 33, 65}, {33, 17, 1}};
constexpr double kRounding = 0x1p-24;            // of the sums inside the kernel: 2^-24 for f32, 2^-11 for TF32
constexpr int kRepeats = 7, kWarmUps = 1;        // benchmark.launches of ridge-project.toml is their sum + 1
constexpr double kRemembers = 1.25;              // new numbers over those seen before
constexpr std::size_t kFlushBytes = 128u << 20;  // more than the last cache before memory holds

// --- the device ------------------------------------------------------------------------------------------------------

#if defined(GPU)
void must(GPU(Error_t) code, const char* what) {
  if (code == GPU(Success)) return;
  std::fprintf(stderr, "%s: %s\n", what, GPU(GetErrorString)(code));
  std::exit(3);
}
#endif

// Floats where the kernel finds them.
class Buffer {
 public:
  explicit Buffer(const std::vector<float>& values) : size_(values.size()) {
    const std::size_t bytes = std::max<std::size_t>(size_, 1) * sizeof(float);
#if defined(GPU)
    must(GPU(Malloc)(reinterpret_cast<void**>(&data_), bytes), "allocation");
#else
    data_ = static_cast<float*>(std::malloc(bytes));
    if (data_ == nullptr) std::exit(3);
#endif
    write(values);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
#if defined(GPU)
    static_cast<void>(GPU(Free)(data_));
#else
    std::free(data_);
#endif
  }
  void write(const std::vector<float>& values) {
#if defined(GPU)
    must(GPU(Memcpy)(data_, values.data(), size_ * sizeof(float), GPU(MemcpyHostToDevice)), "copy to the device");
#else
    std::copy(values.begin(), values.end(), data_);
#endif
  }
  // On a GPU the copy waits in the default stream, as the kernel does.
  void copy_from(const Buffer& other) {
#if defined(GPU)
    must(GPU(MemcpyAsync)(data_, other.data_, size_ * sizeof(float), GPU(MemcpyDeviceToDevice), nullptr), "snapshot");
#else
    std::memcpy(data_, other.data_, size_ * sizeof(float));
#endif
  }
  [[nodiscard]] std::vector<float> read() const {
    std::vector<float> values(size_);
#if defined(GPU)
    must(GPU(Memcpy)(values.data(), data_, size_ * sizeof(float), GPU(MemcpyDeviceToHost)), "copy from the device");
#else
    std::copy(data_, data_ + size_, values.begin());
#endif
    return values;
  }
  [[nodiscard]] float* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  std::size_t size_;
  float* data_ = nullptr;
};

void flush_caches() {
  static Buffer* const kScratch = new Buffer(std::vector<float>(kFlushBytes / sizeof(float)));
#if defined(GPU)
  must(GPU(Memset)(kScratch->data(), 0, kFlushBytes), "flush");
#else
  std::memset(kScratch->data(), 0, kFlushBytes);
#endif
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// An output of a call, full of NaN, and room for what it holds when the call is over.
struct Output {
  explicit Output(std::size_t size) : live(std::vector<float>(size, NAN)), taken(std::vector<float>(size, NAN)) {}
  Buffer live, taken;
};

struct Timed {
  double seconds = 0;
  bool left_work = false;  // on another stream, after the call was over; its time counts
};

#if defined(GPU)
double seconds_to_wait() {
  const double before = now();
  must(GPU(DeviceSynchronize)(), "after the call");
  return now() - before;
}
#endif

// Times a call, and takes copies of its outputs as they are when it is over.
Timed timed(const std::function<void()>& call, const std::vector<Output*>& outputs) {
  flush_caches();
  const auto take_snapshots = [&] {
    for (Output* one : outputs) one->taken.copy_from(one->live);
  };
#if defined(GPU)
  GPU(Event_t) first, last, copied;
  for (GPU(Event_t)* one : {&first, &last, &copied}) must(GPU(EventCreate)(one), "event");
  must(GPU(DeviceSynchronize)(), "before the call");
  must(GPU(EventRecord)(first, nullptr), "event");
  call();
  must(GPU(EventRecord)(last, nullptr), "event");
  take_snapshots();
  must(GPU(EventRecord)(copied, nullptr), "event");
  must(GPU(EventSynchronize)(copied), "the call");
  double late = seconds_to_wait();
  late = std::max(0.0, late - seconds_to_wait());  // the second time for nothing
  float milliseconds = 0;
  must(GPU(EventElapsedTime)(&milliseconds, first, last), "event");
  for (GPU(Event_t) one : {first, last, copied}) must(GPU(EventDestroy)(one), "event");
  return {milliseconds * 1e-3 + late, late > std::max(2e-4, 0.5e-3 * milliseconds)};
#else
  const double before = now();
  call();
  const double seconds = now() - before;
  take_snapshots();
  return {seconds, false};
#endif
}

// --- what is right ---------------------------------------------------------------------------------------------------

struct View {
  const float* data;
  long row, column;  // strides
  BOTH double at(long i, long j) const { return data[i * row + j * column]; }
};

struct Element {
  double exact, error, allowed;
};

// One element of x y in double, how far `out` is off, and how far a right kernel may be off.
BOTH inline Element element_of(View x, View y, float out, long i, long j, long depth) {
  double exact = 0, size = 0;
  for (long p = 0; p < depth; ++p) {
    const double term = x.at(i, p) * y.at(p, j);
    exact += term;
    size += fabs(term);
  }
  return {exact, fabs(out - exact), 1.01 * kRounding * static_cast<double>(depth + 2) * size + 0x1p-23 * fabs(exact)};
}

struct Verdict {
  double noise = 0, signal = 0;
  unsigned long long bad = 0;
  [[nodiscard]] double snr_db() const {
    if (!std::isfinite(noise)) return -INFINITY;
    return noise == 0 ? INFINITY : 10 * std::log10(signal / noise);
  }
};

#if defined(GPU)
__global__ void judge_elements(View x, View y, const float* out, long rows, long columns, long depth, Verdict* verdict) {
  const long at = static_cast<long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * columns) return;
  const Element one = element_of(x, y, out[at], at / columns, at % columns, depth);
  atomicAdd(&verdict->noise, one.error * one.error);
  atomicAdd(&verdict->signal, one.exact * one.exact);
  if (!(one.error <= one.allowed)) atomicAdd(&verdict->bad, 1ull);
}
#endif

Verdict judge(View x, View y, const Buffer& out, long rows, long columns, long depth) {
  Verdict verdict;
#if defined(GPU)
  Verdict* there = nullptr;
  must(GPU(Malloc)(reinterpret_cast<void**>(&there), sizeof(Verdict)), "allocation");
  must(GPU(Memcpy)(there, &verdict, sizeof(Verdict), GPU(MemcpyHostToDevice)), "copy");
  judge_elements<<<static_cast<unsigned>((rows * columns + 255) / 256), 256>>>(x, y, out.data(), rows, columns, depth,
                                                                               there);
  must(GPU(GetLastError)(), "the reference");
  must(GPU(Memcpy)(&verdict, there, sizeof(Verdict), GPU(MemcpyDeviceToHost)), "the reference");
  must(GPU(Free)(there), "free");
#else
  for (long i = 0; i < rows; ++i) {
    for (long j = 0; j < columns; ++j) {
      const Element one = element_of(x, y, out.data()[i * columns + j], i, j, depth);
      verdict.noise += one.error * one.error;
      verdict.signal += one.exact * one.exact;
      verdict.bad += one.error <= one.allowed ? 0 : 1;  // NaN is bad
    }
  }
#endif
  return verdict;
}

// --- the calls -------------------------------------------------------------------------------------------------------

// In -1..1, of a stream that only the key gives.
std::vector<float> drawn(std::size_t size, const std::string& key) {
  std::uint64_t state = 0x9e3779b97f4a7c15ull;
  for (const char c : key) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  std::vector<float> values(size);
  for (float& value : values) {
    std::uint64_t z = state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    value = static_cast<float>(static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-52 - 1.0);
  }
  return values;
}

struct Numbers {
  std::vector<float> a, b, d_out;
};

Numbers numbers_of(const Shape& s, const std::string& key) {
  const auto size = [](int rows, int columns) { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns); };
  return {drawn(size(s.m, s.k), key + "/a"), drawn(size(s.k, s.n), key + "/b"), drawn(size(s.m, s.n), key + "/d")};
}

// The operands of a call on the device, and copies of them that the kernel never sees.
struct Case {
  Case(const Shape& s, Numbers drawn_numbers)
      : shape(s), numbers(std::move(drawn_numbers)), a(numbers.a), b(numbers.b), d_out(numbers.d_out),
        kept_a(numbers.a), kept_b(numbers.b), kept_d_out(numbers.d_out) {}
  // Other numbers at the same addresses.
  void become(Numbers other) {
    numbers = std::move(other);
    for (Buffer* one : {&a, &kept_a}) one->write(numbers.a);
    for (Buffer* one : {&b, &kept_b}) one->write(numbers.b);
    for (Buffer* one : {&d_out, &kept_d_out}) one->write(numbers.d_out);
  }
  Shape shape;
  Numbers numbers;
  Buffer a, b, d_out, kept_a, kept_b, kept_d_out;
};

bool same(const std::vector<float>& x, const std::vector<float>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

// The calls of one shape, each checked.
class Run {
 public:
  Run(const Shape& shape, std::string key) : shape_(shape), key_(std::move(key)) {}

  [[nodiscard]] Numbers draw(int number) const { return numbers_of(shape_, key_ + "/" + std::to_string(number)); }

  // Seconds of the forward and of the backward call.
  std::pair<double, double> call(const Case& one) {
    const int m = shape_.m, n = shape_.n, k = shape_.k;
    Output out(one.d_out.size());
    const Timed ahead =
        timed([&] { matmul(one.a.data(), one.b.data(), out.live.data(), m, n, k STREAM_ARGUMENT); }, {&out});
    note("out", judge({one.kept_a.data(), k, 1}, {one.kept_b.data(), n, 1}, out.taken, m, n, k));
    Timed back{NAN, false};
#if BACKWARD
    Output d_a(one.a.size()), d_b(one.b.size());
    const auto backward_call = [&] {
      matmul_backward(one.d_out.data(), one.a.data(), one.b.data(), d_a.live.data(), d_b.live.data(), m, n,
                          k STREAM_ARGUMENT);
    };
    back = timed(backward_call, {&d_a, &d_b});
    note("da", judge({one.kept_d_out.data(), n, 1}, {one.kept_b.data(), 1, n}, d_a.taken, m, k, n));
    note("db", judge({one.kept_a.data(), 1, k}, {one.kept_d_out.data(), n, 1}, d_b.taken, k, n, m));
#endif
    if (ahead.left_work || back.left_work) fail("it leaves work on another stream after the call");
    const bool kept = same(one.a.read(), one.numbers.a) && same(one.b.read(), one.numbers.b) &&
                      same(one.d_out.read(), one.numbers.d_out);
    if (!kept) fail("it changes its inputs");
    return {ahead.seconds, back.seconds};
  }

  void measure(bool fresh) {
    auto used = std::make_unique<Case>(shape_, draw(0));
    for (int number = -kWarmUps; number < kRepeats; ++number) {
      auto next = std::make_unique<Case>(shape_, draw(number + kWarmUps + 1));
      if (fresh) used.swap(next);
      const auto [ahead, back] = call(*used);
      if (number < 0) continue;
      forward.push_back(ahead);
      backward.push_back(back);
    }
    used->become(draw(-1));  // what was kept under an address is now wrong
    call(*used);
  }

  // Whether numbers that it has seen are answered sooner than new ones: the fastest of several of either kind, three
  // looks, since a busy machine only adds time.
  void look_for_memory() {
    const Case seen(shape_, draw(0));
    double ratio = INFINITY;
    for (int look = 0; look < 3 && ratio > kRemembers; ++look) {
      double best_new = INFINITY, best_seen = INFINITY;
      for (int repeat = 0; repeat < kRepeats; ++repeat) {
        const Case drawn_now(shape_, draw(1 + look * kRepeats + repeat));
        best_new = std::min(best_new, whole(call(drawn_now)));
        const Case unused(shape_, draw(0));  // drawn, and not used: the memory is as warm
        best_seen = std::min(best_seen, whole(call(seen)));
      }
      ratio = std::min(ratio, best_new / best_seen);
    }
    if (ratio > kRemembers) fail("new numbers take " + std::to_string(ratio) + " times as long as those it has seen");
  }

  std::string problem;
  std::map<std::string, double> snr;
  std::vector<double> forward, backward;

 private:
  static double whole(const std::pair<double, double>& seconds) {
    return seconds.first + (std::isnan(seconds.second) ? 0 : seconds.second);
  }
  void fail(const std::string& what) {
    if (problem.empty()) problem = what;
  }
  void note(const char* name, const Verdict& verdict) {
    const auto at = snr.emplace(name, INFINITY).first;
    at->second = std::min(at->second, verdict.snr_db());
    if (verdict.bad > 0) fail(std::string(name) + ": " + std::to_string(verdict.bad) + " elements are wrong or not written");
  }

  Shape shape_;
  std::string key_;
};

// --- test and benchmark ----------------------------------------------------------------------------------------------

std::string text_of(const Shape& s) {
  return std::to_string(s.m) + " x " + std::to_string(s.n) + " x " + std::to_string(s.k);
}

int test() {
  std::vector<Shape> shapes = kEdgeShapes;
  Shape largest = kShapes.begin()->second;
  for (const auto& [label, shape] : kShapes) {
    shapes.push_back(shape);
    if (shape.flop() > largest.flop()) largest = shape;
  }
  int passed = 0, failed = 0;
  const auto count = [&](const std::string& what, const Run& run) {
    if (!run.problem.empty()) std::printf("%s: %s\n", what.c_str(), run.problem.c_str());
    ++(run.problem.empty() ? passed : failed);
  };
  const std::string seed = std::to_string(std::random_device{}());
  for (const Shape& shape : shapes) {
    Run run(shape, seed);
    for (const int number : {0, 1}) run.call(Case(shape, run.draw(number)));
    count(text_of(shape), run);
  }
  if (failed == 0) {
    Run run(largest, seed + "/seen");
    run.look_for_memory();
    count(text_of(largest) + ", seen before", run);
  }
  std::printf("passed=%d failed=%d\n", passed, failed);
  return failed == 0 ? 0 : 1;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Population standard deviation of the rates, in TFLOPS.
double deviation(const std::vector<double>& times, double flop) {
  double mean = 0, square = 0;
  for (const double time : times) mean += flop / time / 1e12 / static_cast<double>(times.size());
  for (const double time : times) square += std::pow(flop / time / 1e12 - mean, 2);
  return std::sqrt(square / static_cast<double>(times.size()));
}

int bench(const char* path, const std::string& labels, const std::string& seed, bool fresh) {
  std::ofstream table(path);
  table << "label,B,M,N,K,Check,Forward TFLOPS,Forward TFLOPS_stddev,Backward TFLOPS,Backward TFLOPS_stddev,"
           "Forward Time (ms),Backward Time (ms),out_snr,da_snr,db_snr\r\n";
  table.precision(9);
  bool good = true;
  std::istringstream list(labels);
  for (std::string label; std::getline(list, label, ',');) {
    const auto found = kShapes.find(label);
    if (found == kShapes.end()) {
      std::fprintf(stderr, "no shape %s\n", label.c_str());
      return 2;
    }
    const Shape shape = found->second;
    Run run(shape, seed + "/" + label);
    run.measure(fresh);
    if (!run.problem.empty()) std::fprintf(stderr, "%s: %s\n", label.c_str(), run.problem.c_str());
    good = good && run.problem.empty();
    const double ahead = median(run.forward), back = median(run.backward);
    const auto snr = [&](const char* name) { return run.snr.count(name) != 0 ? run.snr[name] : NAN; };
    table << label << ",1," << shape.m << ',' << shape.n << ',' << shape.k << ',' << (run.problem.empty() ? "PASS" : "FAIL")
          << ',' << shape.flop() / ahead / 1e12 << ',' << deviation(run.forward, shape.flop()) << ','
          << 2 * shape.flop() / back / 1e12 << ',' << deviation(run.backward, 2 * shape.flop()) << ',' << ahead * 1e3
          << ',' << back * 1e3 << ',' << snr("out") << ',' << snr("da") << ',' << snr("db") << "\r\n";
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 1 && words[0] == "test") return test();
  if (words.size() >= 3 && words[0] == "bench") {
    std::string seed = "0";
    bool fresh = false;
    for (std::size_t i = 3; i < words.size(); ++i) {
      if (words[i] == "--fresh") fresh = true;
      if (words[i] == "--seed" && i + 1 < words.size()) seed = words[++i];
    }
    return bench(words[1].c_str(), words[2], seed, fresh);
  }
  std::fprintf(stderr, "usage: quick_test_bench test | bench CSV SHAPES [--seed N] [--fresh]\n");
  return 2;
}
