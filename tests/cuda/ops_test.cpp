// Every operator x every CUDA implementation x every case, through the dispatcher: poisoned outputs, guard bytes, fp64
// references, odd strides and unaligned bases. Then graphs, the public entry point, and what a call costs the host.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

#include "cuda/gpu_operands.h"
#include "device/cuda/graph.h"
#include "device/cuda/plan.h"
#include "dispatch/choose.h"
#include "dispatch/launch.h"
#include "ops/cuda/kernels.h"
#include "ops/described_kernel.h"
#include "ridge/ops/gemm.h"
#include "ridge/ops/rope.h"

namespace ridge::testing {
namespace {

namespace gpu = device::cuda;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

const gpu::Device& the_device() {
  static const gpu::Device* const device = *gpu::Device::open(0);
  return *device;
}

// The operators' own edge cases, and sizes around the tiles of the GPU kernels.
std::vector<ops::Problem> gpu_problems(const ops::Operator& op) {
  std::vector<ops::Problem> problems = check_problems(op);
  const auto add = [&](const std::string& words) {
    problems.push_back(*op.bind(*record::parse_case(op.name + " " + words)));
  };
  if (op.name == "gemm_fp8") {
    for (const char* size : {"m=128 n=128 k=512", "m=256 n=192 k=1024", "m=132 n=144 k=528"}) {
      for (const char* scaling : {"tensor", "row", "block", "vector"}) {
        for (const char* more : {"sums=promoted", "sums=fast", "out=f32 accumulate=1", "dtype=e5m2_e4m3fn out=f16"}) {
          add(fmt::format("{} scaling={} {}", size, scaling, more));
        }
      }
    }
    // Rows of scales, of operands or of all that do not start on 16 bytes.
    for (const char* size : {"m=126 n=128 k=512", "m=257 n=190 k=1024", "m=128 n=144 k=523", "m=131 n=67 k=1025"}) {
      for (const char* scaling : {"tensor", "row", "block", "vector"}) {
        for (const char* more : {"", "out=f32 accumulate=1"}) add(fmt::format("{} scaling={} {}", size, scaling, more));
      }
    }
  }
  if (op.name == "quantize" || op.name == "dequantize") {
    for (const char* size : {"rows=256 cols=512", "rows=300 cols=528", "rows=1 cols=4096", "rows=2056 cols=8"}) {
      for (const char* scaling : {"tensor", "row", "1x128", "128x128", "mx"}) {
        add(fmt::format("{} scaling={}{}", size, scaling, op.name == "quantize" ? " copies=both" : ""));
      }
    }
  }
  if (op.name == "grouped_quantize") {
    // Whole tiles and parts of them, rows that start on 16 bytes and others; fewer, as many and more groups than a warp
    // has lanes, with rows and without.
    for (const char* size :
         {"rows=1000 groups=5 cols=512", "rows=300 groups=32 cols=264", "rows=2056 groups=33 cols=8",
          "rows=700 groups=130 cols=132", "rows=140 groups=2 cols=67", "rows=10 groups=70 cols=4096"}) {
      for (const char* form :
           {"scaling=1x128 copies=both", "scaling=1x128 copies=row align=16 offsets=i64",
            "scaling=1x128 copies=column format=e5m2", "scaling=mx copies=both align=32",
            "scaling=128x128 copies=both offsets=i64", "scaling=row align=64", "scaling=row copies=both",
            "scaling=row copies=column offsets=i64 format=e5m2", "scaling=tensor copies=both align=16",
            "scaling=tensor amax=given copies=both align=32", "scaling=1x128 copies=both rounding=stochastic",
            "copies=both own_rows=1 offsets=i64", "copies=both own_rows=1 scaling=mx"}) {
        for (const char* dtype : {"f32", "bf16", "f16"}) add(fmt::format("{} dtype={} {}", size, dtype, form));
      }
    }
    for (const char* size : {"rows=1000 groups=5 cols=512", "rows=300 groups=32 cols=264", "rows=2056 groups=33 cols=8",
                             "rows=700 groups=130 cols=132", "rows=10 groups=70 cols=4096"}) {
      for (const char* of : {"swiglu", "swiglu_backward probs=1"}) {
        for (const char* form : {"own_rows=1", "own_rows=1 scaling=mx offsets=i64", "scaling=row",
                                 "scaling=tensor align=16 format=e5m2", "scaling=128x128", "rounding=stochastic"}) {
          for (const char* dtype : {"f32", "bf16", "f16"}) {
            add(fmt::format("{} dtype={} of={} copies=both {}", size, dtype, of, form));
          }
        }
      }
    }
  }
  if (op.name == "rmsnorm_quantize") {
    for (const char* size : {"rows=256 cols=512", "rows=300 cols=528", "rows=1 cols=4096", "rows=2056 cols=8",
                             "rows=130 cols=8200", "rows=70 cols=4097"}) {
      for (const char* scaling : {"tensor", "tensor amax=given", "row", "1x128", "128x128", "mx"}) {
        for (const char* more : {"dtype=bf16 residual=1", "dtype=f32", "dtype=f16 weight=f32 zero_centred=1"}) {
          add(fmt::format("{} scaling={} copies=both {}", size, scaling, more));
        }
      }
    }
  }
  if (op.name.starts_with("activation_quantize")) {
    // Whole tiles and parts of them, in every granularity; each function in each dtype. Of gradients halves that meet
    // within tiles and within 8 elements.
    for (const char* size : {"rows=256 cols=512", "rows=300 cols=528", "rows=1 cols=4096", "rows=2056 cols=8",
                             "rows=140 cols=132", "rows=131 cols=67"}) {
      for (const char* scaling : {"tensor", "tensor amax=given", "row", "1x128", "128x128", "mx"}) {
        for (const char* more : {"dtype=bf16", "dtype=f32 gated=0 probs=1", "dtype=bf16 probs=1 mask=1"}) {
          add(fmt::format("{} scaling={} copies=both {}", size, scaling, more));
        }
      }
    }
  }
  if (op.name.starts_with("rmsnorm") || op.name.starts_with("layernorm")) {
    const char* const bias = op.name == "layernorm" ? " bias=1" : "";
    // More rows than there are teams, so that rings go round, and every number of blocks in a cluster.
    for (const char* size : {"rows=40000 cols=8", "rows=9000 cols=128", "rows=5000 cols=1000", "rows=4500 cols=1024",
                             "rows=2000 cols=4096", "rows=1500 cols=8200", "rows=700 cols=16384", "rows=300 cols=24576",
                             "rows=150 cols=40000", "rows=90 cols=65536"}) {
      for (const char* more : {"dtype=bf16", "dtype=bf16 residual=1 weight=f32"}) {
        add(fmt::format("{} {}{}", size, more, bias));
      }
    }
    for (const char* other : {"rows=600 cols=8192 dtype=f32", "rows=600 cols=8192 dtype=f16 zero_centred=1",
                              "rows=3000 cols=777 dtype=bf16"}) {
      add(fmt::format("{}{}", other, bias));
    }
  }
  if (op.name == "rope") {
    // Heads in chunks and by elements, numbers of heads that no block divides, several blocks of heads, an odd number
    // of chunks that are copied.
    for (const char* size :
         {"batch=2 length=301 heads=32 kv_heads=8 dim=128",
          "length=200 heads=64 kv_heads=8 dim=128 rows=500 positions=i64",
          "length=77 heads=13 kv_heads=5 dim=128 rotary=80 rows=90 positions=i32",
          "length=50 heads=7 kv_heads=3 dim=120 rotary=64", "length=3 heads=2100 kv_heads=1 dim=16",
          "length=40 heads=9 kv_heads=0 dim=64 rotary=48 inverse=1", "batch=5 length=1 heads=32 kv_heads=32 dim=96",
          "length=9 heads=70 kv_heads=1 dim=1000 rotary=300"}) {
      for (const char* dtype : {"bf16", "f16", "f32"}) {
        for (const int interleaved : {0, 1}) add(fmt::format("{} dtype={} interleaved={}", size, dtype, interleaved));
      }
    }
  }
  if (op.name.starts_with("rope_norm")) {
    // Heads that add up by shuffles and in shared memory, groups that no block divides, several blocks of heads, an odd
    // number of chunks that are not turned, tokens for many turns of every block.
    for (const char* size :
         {"batch=2 length=301 heads=32 kv_heads=8 dim=128", "length=3000 heads=32 kv_heads=4 dim=128",
          "length=200 heads=64 kv_heads=8 dim=128 rows=500 positions=i64 weight=f32",
          "length=77 heads=13 kv_heads=5 dim=128 rotary=80 rows=90 positions=i32 zero_centred=1",
          "length=50 heads=7 kv_heads=3 dim=120 rotary=64 weight=f32 zero_centred=1",
          "length=3 heads=2100 kv_heads=1 dim=16", "length=900 heads=9 kv_heads=0 dim=64 rotary=48 weight=none",
          "batch=5 length=1 heads=32 kv_heads=32 dim=96", "length=9 heads=70 kv_heads=1 dim=1000 rotary=300",
          "length=400 heads=8 kv_heads=4 dim=256 weight=f32"}) {
      for (const char* dtype : {"bf16", "f16", "f32"}) {
        for (const int interleaved : {0, 1}) add(fmt::format("{} dtype={} interleaved={}", size, dtype, interleaved));
      }
    }
  }
  if (op.name.starts_with("activation")) {
    // Teams of every size, rows of several pieces, a matrix that is one row, odd rows; each function in each dtype.
    for (const char* size : {"rows=40000 cols=8", "rows=9000 cols=128", "rows=2000 cols=1000", "rows=1500 cols=1024",
                             "rows=90 cols=16384", "rows=3 cols=300000", "rows=1500 cols=777", "rows=5 cols=70001"}) {
      for (const char* more : {"dtype=bf16", "dtype=bf16 probs=1", "dtype=f32 probs=1 mask=1"}) {
        add(fmt::format("{} {}", size, more));
      }
    }
    for (const char* function : {"silu", "gelu", "gelu_tanh", "relu", "relu2", "clamped_silu"}) {
      for (const char* more : {"dtype=bf16", "dtype=f16 gated=0", "dtype=f32 gated=0", "dtype=f32 probs=1"}) {
        const char* const copies = op.name.starts_with("activation_quantize") ? " copies=both" : "";
        add(fmt::format("rows=300 cols=1000 function={} {}{}", function, more, copies));
      }
    }
  }
  if (op.name == "adamw") {
    for (const char* count : {"count=262144", "count=250003"}) {
      for (const char* dtype : {"f32", "bf16", "f16"}) {
        for (const char* more : {"", "state=bf16", "master=1", "master=1 wide_grad=1 factor=1 skip=1",
                                 "master=1 state=bf16 factor=1 maximize=1"}) {
          add(fmt::format("{} dtype={} {}", count, dtype, more));
        }
      }
    }
  }
  if (op.name == "adamw_quantize") {
    // Whole tiles and parts of them, rows that start on 16 bytes and others, in every granularity and form of the step.
    for (const char* size : {"rows=256 cols=512", "rows=300 cols=528", "rows=1 cols=4096", "rows=2056 cols=8",
                             "rows=140 cols=132", "rows=131 cols=67"}) {
      for (const char* scaling : {"tensor", "tensor amax=given", "row", "1x128", "128x128", "mx"}) {
        for (const char* more : {"dtype=f32", "dtype=bf16 state=bf16", "dtype=bf16 master=1 factor=1 skip=1",
                                 "dtype=f16 master=1 wide_grad=1 maximize=1", "dtype=f16 factor=1 skip=1"}) {
          add(fmt::format("{} scaling={} copies=both {}", size, scaling, more));
        }
      }
    }
  }
  if (op.name == "cross_entropy" || op.name == "cross_entropy_backward") {
    // Teams from a warp to eight blocks on both sides of their boundaries, rows that are read twice, odd lengths; more
    // rows than there are teams, and of the first sizes so many that every ring goes round.
    const bool forward = op.name == "cross_entropy";
    for (const char* size :
         {"tokens=20000 vocabulary=64", "tokens=4000 vocabulary=1000", "tokens=1200 vocabulary=4096",
          "tokens=600 vocabulary=4104", "tokens=300 vocabulary=16384", "tokens=150 vocabulary=16392",
          "tokens=280 vocabulary=32000", "tokens=140 vocabulary=50304", "tokens=140 vocabulary=128256",
          "tokens=40 vocabulary=152064", "tokens=20 vocabulary=256000", "tokens=10 vocabulary=400000",
          "tokens=60 vocabulary=50257", "tokens=20 vocabulary=90001"}) {
      add(fmt::format("{}{}", size, forward ? " dlogits=1 grad=1" : ""));
    }
    for (const char* size : {"tokens=2000 vocabulary=1000", "tokens=140 vocabulary=32000", "tokens=70 vocabulary=50304",
                             "tokens=20 vocabulary=50257"}) {
      add(fmt::format("{} index=i32", size));
    }
    for (const char* more : {"soft_cap=1", "shard=1", "dtype=f16", "dtype=f32 index=i32"}) {
      for (const char* size :
           {"tokens=140 vocabulary=32000", "tokens=20 vocabulary=128256", "tokens=20 vocabulary=50257"}) {
        const bool gradient = forward && std::string_view(more) != "shard=1";
        add(fmt::format("{} {}{}", size, more, gradient ? " dlogits=1" : ""));
      }
    }
  }
  if (op.name == "softmax" || op.name == "softmax_backward") {
    // Teams from a lane to eight blocks on both sides of their boundaries, rows that are read twice, odd lengths; of
    // the first sizes so many rows that every ring goes round.
    for (const char* size :
         {"rows=40000 cols=8", "rows=9000 cols=64", "rows=9000 cols=256", "rows=6000 cols=264", "rows=5000 cols=520",
          "rows=3000 cols=1024", "rows=2000 cols=1032", "rows=2000 cols=4096", "rows=700 cols=16384",
          "rows=300 cols=16392", "rows=300 cols=32768", "rows=150 cols=32776", "rows=90 cols=65544",
          "rows=400 cols=131072", "rows=20 cols=131080", "rows=600 cols=4097", "rows=20 cols=50257"}) {
      for (const char* form : {"softmax", "log_softmax", "logsumexp"}) add(fmt::format("{} form={}", size, form));
    }
    for (const char* size : {"rows=5000 cols=64", "rows=2000 cols=1000", "rows=600 cols=8192", "rows=90 cols=65536",
                             "rows=60 cols=3001"}) {
      for (const char* more : {"dtype=f32", "dtype=f32 form=log_softmax", "dtype=f16", "dtype=f16 out=f32",
                               "out=f32 form=log_softmax", "dtype=f32 form=logsumexp"}) {
        add(fmt::format("{} {}", size, more));
      }
    }
  }
  if (op.name == "embedding_backward") {
    // Rows of no, one, some, many tokens; one and several pieces of a row; more rows than blocks.
    for (const char* size : {"tokens=3000 vocabulary=5000 cols=64", "tokens=3000 vocabulary=40 cols=1000",
                             "tokens=20000 vocabulary=9 cols=24", "tokens=400 vocabulary=900 cols=4104",
                             "tokens=50 vocabulary=3000 cols=333"}) {
      for (const char* more :
           {"dtype=bf16", "dtype=f16 index=i32", "dtype=f32", "dtype=bf16 out=f32", "dtype=bf16 accumulate=1"}) {
        add(fmt::format("{} {}", size, more));
      }
    }
  }
  if (op.name.starts_with("combine_rows")) {
    // One to more sources than are in flight; teams of a warp, of a block, pieces of a row; rows by elements.
    for (const char* size :
         {"rows=3000 sources=900 cols=8", "rows=900 sources=3000 cols=1000", "rows=300 sources=500 cols=4104",
          "rows=70 sources=90 cols=20000", "rows=500 sources=700 cols=333"}) {
      for (const char* more : {"top=1", "top=2 dtype=f16", "top=5 dtype=f32 index=i64", "top=8", "top=19"}) {
        add(fmt::format("{} {}", size, more));
        if (op.name == "combine_rows") add(fmt::format("{} {} weights=1", size, more));
      }
    }
  }
  if (op.name.starts_with("route")) {
    // Parts of a warp of every width, 8 to 32 experts of a lane, and rows in shared memory.
    for (const char* size :
         {"tokens=500 experts=256 top=8", "tokens=3000 experts=8 top=2", "tokens=90 experts=500 top=8",
          "tokens=40 experts=1024 top=64", "tokens=9 experts=4096 top=9"}) {
      for (const char* more :
           {"renormalize=1", "dtype=f32", "score=sigmoid dtype=f16 renormalize=1", "order=top_first"}) {
        add(fmt::format("{} {}", size, more));
        if (op.name == "route") add(fmt::format("{} {} bias=1", size, more));
      }
    }
  }
  if (op.name == "route") {
    // Groups of one lane, of several, of as many experts as no lane holds, and more groups than a warp has lanes.
    for (const char* size :
         {"tokens=300 experts=256 top=8 groups=8 group_top=4", "tokens=90 experts=160 top=6 groups=8 group_top=3",
          "tokens=40 experts=512 top=8 groups=8 group_top=3", "tokens=40 experts=120 top=5 groups=3 group_top=2",
          "tokens=9 experts=512 top=8 groups=64 group_top=5"}) {
      for (const char* more : {"score=sigmoid bias=1 renormalize=1", "dtype=f32", "order=top_first dtype=f16"}) {
        add(fmt::format("{} {}", size, more));
      }
    }
  }
  if (op.name == "expert_order") {
    // One run and many, few experts with very many choices, more experts than threads.
    for (const char* size : {"tokens=20000 experts=256 top=8", "tokens=70000 experts=3 top=1",
                             "tokens=9000 experts=4096 top=2", "tokens=2000 experts=700 top=11"}) {
      for (const char* more : {"align=1", "align=128"}) add(fmt::format("{} {}", size, more));
    }
  }
  if (op.name == "grouped_gemm") {
    // Around tiles and stages, groups of all sizes, more tiles than multiprocessors.
    for (const char* size :
         {"rows=700 groups=3 n=264", "rows=900 groups=9 n=520", "rows=1500 groups=24 n=72", "rows=64 groups=8 n=64"}) {
      for (const char* more :
           {"k=192 layout=nt", "k=136 layout=nn", "m=200 layout=tn", "k=520 layout=nt out=f32",
            "m=264 layout=tn out=f32 accumulate=1", "k=72 layout=nn dtype=f16 offsets=i64", "m=136 layout=tn dtype=f16",
            "m=200 layout=tn accumulate=1", "m=72 layout=tn dtype=f16 accumulate=1 offsets=i64"}) {
        add(fmt::format("{} {}", size, more));
      }
    }
    add("rows=4000 groups=5 n=1536 k=64 layout=nt");
    add("rows=700 groups=130 n=64 m=136 layout=tn");
    // The same with rows that are found by index, of fewer and of more sources.
    for (const char* size : {"rows=700 groups=3 n=264 sources=100", "rows=900 groups=9 n=520 sources=2000",
                             "rows=64 groups=8 n=64 sources=1"}) {
      for (const char* more :
           {"k=192 layout=nt gather=a", "k=136 layout=nn gather=a out=f32", "m=200 layout=tn gather=b",
            "m=136 layout=tn gather=a dtype=f16", "m=264 layout=tn out=f32 accumulate=1 gather=b",
            "m=72 layout=tn out=f32 accumulate=1 gather=a offsets=i64", "m=136 layout=tn accumulate=1 gather=b"}) {
        add(fmt::format("{} {}", size, more));
      }
    }
    add("rows=4000 groups=5 n=1536 k=64 layout=nt gather=a sources=2000");
    add("rows=700 groups=130 n=64 m=136 layout=tn gather=b sources=350");
  }
  if (op.name == "grouped_gemm_fp8") {
    // Around tiles, stages and blocks of scales, groups of all sizes that begin at any row, more tiles than
    // multiprocessors.
    for (const char* size :
         {"rows=700 groups=3 n=264", "rows=900 groups=9 n=520", "rows=1500 groups=24 n=72", "rows=64 groups=8 n=64"}) {
      for (const char* more : {"k=208", "k=528 dtype=e5m2_e4m3fn out=f32", "k=128 out=f16 offsets=i64"}) {
        add(fmt::format("{} {}", size, more));
      }
    }
    for (const char* size : {"rows=1408 groups=3 n=264", "rows=2304 groups=9 n=136", "rows=3072 groups=40 n=72"}) {
      for (const char* more : {"m=200", "m=264 out=f32 accumulate=1", "m=136 dtype=e4m3fn_e5m2 out=f16 offsets=i64"}) {
        add(fmt::format("{} {} along=sums", size, more));
      }
    }
    add("rows=4000 groups=5 n=1536 k=64");
    add("rows=1408 groups=130 n=64 m=136 along=sums");
    add("rows=1536 groups=24 n=520 m=520 along=sums");
    // Scales of rows and of groups, which lie at any address: also numbers of rows, and of m, that are odd, and one
    // row.
    for (const char* scaling : {"scaling=row", "scaling=tensor"}) {
      for (const char* size : {"rows=701 groups=3 n=264", "rows=900 groups=9 n=520 load=skewed",
                               "rows=1500 groups=24 n=72", "rows=64 groups=8 n=64", "rows=1 groups=3 n=136"}) {
        for (const char* more : {"k=208", "k=528 dtype=e5m2_e4m3fn out=f32", "k=128 out=f16 offsets=i64"}) {
          add(fmt::format("{} {} {}", size, more, scaling));
        }
      }
      for (const char* size : {"rows=1408 groups=3 n=264", "rows=2304 groups=9 n=136 load=skewed",
                               "rows=3072 groups=40 n=72", "rows=128 groups=4 n=520"}) {
        for (const char* more : {"m=200", "m=263 out=f32 accumulate=1", "m=1 dtype=e4m3fn_e5m2 out=f16 offsets=i64"}) {
          add(fmt::format("{} {} along=sums {}", size, more, scaling));
        }
      }
      add(fmt::format("rows=4000 groups=5 n=1536 k=64 {}", scaling));
      add(fmt::format("rows=1536 groups=24 n=520 m=520 along=sums {}", scaling));
    }
  }
  if (op.name == "symmetric_product") {
    // Around tiles and slabs of both heights, rows that end within a tile, more tiles than multiprocessors, batches.
    for (const char* size : {"n=64 k=64", "n=72 k=136", "n=128 k=128", "n=136 k=72", "n=264 k=192", "n=520 k=1032",
                             "n=200 k=8 batch=3", "n=392 k=40 batch=2"}) {
      for (const char* more : {"", "layout=t", "residual=1", "residual=1 layout=t dtype=f16", "out=f32",
                               "residual=1 out=f32 layout=t", "dtype=f32 residual=1"}) {
        add(fmt::format("{} {}", size, more));
      }
    }
    add("n=2600 k=64 residual=1");
    add("n=2200 k=72 layout=t batch=2");
  }
  if (op.name == "attention" || op.name == "attention_backward") {
    // More tiles than multiprocessors, then sizes that a sanitizer ends with.
    add("heads=40 kv_heads=8 q_len=600 k_len=600 dim=64 mask=causal keys_left=129 sinks=1");
    add("heads=40 kv_heads=8 q_len=600 k_len=600 dim=128 mask=causal keys_left=129 softcap=1");
    add("heads=40 kv_heads=8 q_len=600 k_len=600 dim=64 mask=causal alibi=1");
    add("heads=40 kv_heads=8 q_len=600 k_len=600 dim=128 alibi=1");
    add("heads=2 kv_heads=1 q_len=130 k_len=130 dim=64 mask=causal sinks=1");
    add("heads=2 kv_heads=1 q_len=130 k_len=130 dim=128 mask=causal softcap=1");
    add("heads=2 kv_heads=1 q_len=130 k_len=130 dim=256 mask=causal documents=2 softcap=1 sinks=1");
    add("heads=2 kv_heads=1 q_len=130 k_len=130 dim=128 mask=causal alibi=1");
    add("heads=2 kv_heads=1 q_len=130 k_len=130 dim=192 v_dim=128 alibi=1");
  }
  if (op.name != "gemm") return problems;
  // What is added, in tiles of which a warp has more slabs than buffers, and more tiles than multiprocessors.
  for (const char* more :
       {"layout=tn dtype=bf16 accumulate=1", "layout=nt dtype=f16 residual=1",
        "layout=nn dtype=bf16 out=f32 residual=1 bias=1", "layout=nt dtype=bf16 activation=silu residual=1"}) {
    for (const char* size : {"m=520 n=1032 k=72", "m=1920 n=2056 k=64"}) {
      problems.push_back(*op.bind(*record::parse_case(fmt::format("gemm {} {}", size, more))));
    }
  }
  const char* const sizes[] = {"m=128 n=128 k=64", "m=129 n=127 k=65",   "m=256 n=192 k=128", "m=255 n=200 k=72",
                               "m=8 n=1024 k=512", "m=1024 n=8 k=512",   "m=640 n=384 k=96",  "m=512 n=512 k=2048",
                               "m=1 n=512 k=512",  "m=264 n=520 k=1032", "m=300 n=511 k=1031"};
  for (const char* size : sizes) {
    for (const char* layout : {"nn", "nt", "tn", "tt"}) {
      for (const char* more :
           {"dtype=bf16", "dtype=f16", "dtype=bf16 out=f32 accumulate=1", "dtype=f32", "dtype=bf16 accumulate=1"}) {
        problems.push_back(*op.bind(*record::parse_case(fmt::format("gemm {} layout={} {}", size, layout, more))));
      }
    }
  }
  return problems;
}

std::string check_on_gpu(const ops::Operator& op, const ops::Implementation& implementation, ops::Problem problem,
                         const Layout& layout, std::uint64_t seed, const gpu::Stream& stream, bool& ran,
                         int multiprocessors = 0) {
  ridge::Stream share = stream.view();
  share.multiprocessors = multiprocessors;
  const Operands before = make_operands(problem, layout, seed);
  Operands after = make_operands(problem, layout, seed);
  const auto device = GpuOperands::upload(the_device(), after, stream.handle());
  if (!device) return device.error().text();
  problem.alignment = ops::alignments(device->views());
  if (const auto refusal = ops::why_not(implementation, problem, ops::device_info(stream.view()))) {
    return refusal->size() > 10 ? "" : "a refusal without a reason";
  }
  ran = true;
  if (const Status status = implementation.run(problem, {device->views(), after.scalars}, share); !status) {
    return status.error().text();
  }
  if (const Status status = device->download(after, stream.handle()); !status) return status.error().text();
  return judge(op, problem, before, after, seed);
}

struct Row {
  const ops::Operator* op = nullptr;
  const ops::Implementation* implementation = nullptr;
};
std::vector<Row> rows() {
  std::vector<Row> all;
  for (const ops::Operator* op : all_operators()) {
    for (const ops::Implementation& one : op->implementations) {
      if (one.backend == Backend::kCuda) all.push_back({op, &one});
    }
  }
  return all;
}

// Of operators of rows those with many rows come in every configuration of the kernel.
std::vector<ops::Problem> gpu_problems_in_configurations(const Row& row, const gpu::Stream& stream) {
  std::vector<ops::Problem> problems = gpu_problems(*row.op);
  // Operators whose kernels have forms that only their configurations reach.
  const auto begins = [&](const char* name) { return row.op->name.starts_with(name); };
  const bool in_all = begins("rmsnorm") || begins("cross_entropy") || begins("rope") || begins("grouped_gemm") ||
                      begins("layernorm") || begins("activation") || begins("adamw") || begins("softmax") ||
                      begins("embedding") || begins("symmetric") || begins("combine") || begins("expert_order");
  if (!in_all || !row.implementation->promising) return problems;
  const std::size_t all = problems.size();
  for (std::size_t i = check_problems(*row.op).size(); i < all; ++i) {
    for (const int one : row.implementation->promising(problems[i], ops::device_info(stream.view()))) {
      ops::Problem problem = problems[i];
      problem.configuration = one;
      problems.push_back(std::move(problem));
    }
  }
  return problems;
}

class CudaConformance : public ::testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(Table, CudaConformance, ::testing::ValuesIn(rows()),
                         [](const auto& row) { return row.param.op->name + "_" + row.param.implementation->name; });

TEST_P(CudaConformance, MatchesTheReferenceOnEveryCase) {
  const Row row = GetParam();
  const auto own_stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(own_stream);
  const std::vector<ops::Problem> problems = gpu_problems_in_configurations(row, *own_stream);
  std::atomic<std::size_t> next{0}, ran{0};
  std::mutex mutex;
  std::vector<std::string> failures;
  const auto work = [&] {  // one stream per thread, so that kernels compile side by side and streams are mixed
    const auto stream = gpu::Stream::create(the_device());
    for (std::size_t i = next++; stream && i < 2 * problems.size(); i = next++) {
      const ops::Problem& problem = problems[i / 2];
      const Layout& layout = i % 2 == 0 ? kPacked : kAwkward;
      if (i % 2 != 0 && problem.configuration >= 0) continue;  // the form for any address has no configurations
      bool did_run = false;
      const std::string wrong = check_on_gpu(*row.op, *row.implementation, problem, layout, i + 1, *stream, did_run);
      ran += did_run ? 1 : 0;
      if (wrong.empty()) continue;
      const std::scoped_lock lock(mutex);
      const std::string in = problem.configuration < 0
                                 ? "its own configuration"
                                 : row.implementation->configurations[static_cast<std::size_t>(problem.configuration)];
      failures.push_back(fmt::format("{} ({}, {}): {}", problem.problem_case.text(), layout.name, in, wrong));
    }
  };
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < std::clamp(std::thread::hardware_concurrency(), 2u, 16u); ++t) threads.emplace_back(work);
  threads.clear();
  EXPECT_EQ(failures.size(), 0u);
  for (std::size_t i = 0; i < std::min<std::size_t>(failures.size(), 12); ++i) ADD_FAILURE() << failures[i];
  EXPECT_GT(ran.load(), 0u) << "an implementation that runs no case";
  const ops::KernelStatistics kernels = ops::kernel_statistics();
  std::printf("%zu runs checked; so far %lld kernels compiled, %lld from the cache\n", ran.load(),
              static_cast<long long>(kernels.compiled), static_cast<long long>(kernels.from_cache));
}

// A tile and a bit of every kind of case, few enough that compute-sanitizer, a hundred times slower, ends within a
// minute.
TEST_P(CudaConformance, HoldsOnTinyCasesForSanitizers) {
  const Row row = GetParam();
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const std::vector<ops::Problem> problems = gpu_problems(*row.op);
  const std::size_t step = std::max<std::size_t>(1, problems.size() / 8);
  for (std::size_t i = 0; i < problems.size(); i += step) {
    const auto small = row.op->bind(row.op->vary(problems[i], ops::Variation::kReduced, i));
    ASSERT_TRUE(small);
    for (const Layout& layout : {kPacked, kAwkward}) {
      bool ran = false;
      EXPECT_EQ(check_on_gpu(*row.op, *row.implementation, *small, layout, i, *stream, ran), "")
          << small->problem_case.text() << " (" << layout.name << ")";
    }
  }
  for (std::size_t i = problems.size() - std::min<std::size_t>(problems.size(), 3); i < problems.size(); ++i) {
    bool ran = false;  // sizes that the matrix unit and vector loads take
    EXPECT_EQ(check_on_gpu(*row.op, *row.implementation, problems[i], kPacked, i, *stream, ran), "");
  }
}

// Every seventh case on as few multiprocessors as there can be, on some, and beside others.
TEST_P(CudaConformance, HoldsInAShareOfTheMultiprocessors) {
  const Row row = GetParam();
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const std::vector<ops::Problem> problems = gpu_problems(*row.op);
  for (std::size_t i = 3; i < problems.size(); i += 7) {
    for (const int share : {1, 37, -16}) {
      bool ran = false;
      EXPECT_EQ(check_on_gpu(*row.op, *row.implementation, problems[i], kPacked, i, *stream, ran, share), "")
          << problems[i].problem_case.text() << " on " << share;
    }
  }
}

TEST_P(CudaConformance, GivesTheSameBitsInTenRuns) {
  const Row row = GetParam();
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const std::vector<ops::Problem> problems = gpu_problems(*row.op);
  for (std::size_t p = 0; p < problems.size(); p += 23) {
    ops::Problem problem = problems[p];
    if (ops::why_not(*row.implementation, problem, ops::device_info(stream->view()))) continue;
    std::vector<std::vector<double>> first;
    for (int run = 0; run < 10; ++run) {
      Operands host = make_operands(problem, kPacked, 77);
      const auto device = GpuOperands::upload(the_device(), host, stream->handle());
      ASSERT_TRUE(device);
      const Status status = row.implementation->run(problem, {device->views(), host.scalars}, stream->view());
      ASSERT_TRUE(status) << problem.problem_case.text() << ": " << status.error().text();
      ASSERT_TRUE(device->download(host, stream->handle()));
      for (std::size_t i = 0; i < host.all.size(); ++i) {
        if (run == 0) first.push_back(host.all[i].values());
        ASSERT_EQ(host.all[i].values(), first[i]) << problem.problem_case.text() << ", run " << run;
      }
    }
  }
}

TEST_P(CudaConformance, CarriesNanAndInfThrough) {
  const Row row = GetParam();
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<ops::Problem> problems = check_problems(*row.op);
  for (std::size_t p = 0; p < problems.size(); p += 7) {
    ops::Problem problem = problems[p];
    if (ops::why_not(*row.implementation, problem, ops::device_info(stream->view()))) continue;
    for (const double special : {nan, inf, -inf}) {
      Operands before = make_operands(problem, kPacked, 5), after = make_operands(problem, kPacked, 5);
      if (before.all[0].view().element_count() == 0) continue;
      for (Operands* operands : {&before, &after}) {
        std::vector<double> values = operands->all[0].values();
        values[values.size() / 2] = special;
        operands->all[0].assign(values);
      }
      const auto device = GpuOperands::upload(the_device(), after, stream->handle());
      ASSERT_TRUE(device);
      const auto expected = row.op->reference(problem, {before.views(), before.scalars});
      ASSERT_TRUE(expected);
      ASSERT_TRUE(row.implementation->run(problem, {device->views(), after.scalars}, stream->view()));
      ASSERT_TRUE(device->download(after, stream->handle()));
      std::size_t output = 0;
      for (const Operand& operand : after.all) {
        if (!operand.spec().output) continue;
        EXPECT_EQ(compare(operand.values(), (*expected)[output++], operand.spec().dtype), "")
            << problem.problem_case.text() << " with " << special;
      }
    }
  }
}

// ---- The public entry point

struct GemmOnGpu {
  GemmOnGpu(const char* words, const gpu::Stream& on) : stream(&on) {
    const ops::Operator& op = **ops::find_operator("gemm");
    problem = *op.bind(*record::parse_case(std::string("gemm ") + words));
    before = make_operands(problem, kPacked, 3);
    after = make_operands(problem, kPacked, 3);
    auto uploaded = GpuOperands::upload(the_device(), after, on.handle());
    device.emplace(std::move(*uploaded));
    args.a = device->views()[0];
    args.b = device->views()[1];
    args.c = device->views()[2];
    args.trans_a = problem.values[5] >= 2;
    args.trans_b = problem.values[5] % 2 == 1;
  }
  std::string judge_now() {
    if (const Status status = device->download(after, stream->handle()); !status) return status.error().text();
    return judge(**ops::find_operator("gemm"), problem, before, after, 3);
  }
  const gpu::Stream* stream;
  ops::Problem problem;
  Operands before, after;
  std::optional<GpuOperands> device;
  GemmArgs args;
};

class CudaGemm : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = gpu::Stream::create(the_device());
    ASSERT_TRUE(made);
    stream_.emplace(std::move(*made));
  }
  void TearDown() override { dispatch::unforce("gemm"); }
  std::optional<gpu::Stream> stream_;
};

TEST_F(CudaGemm, RunsOnTheBestImplementationOfTheDevice) {
  GemmOnGpu bf16("m=256 n=256 k=256 dtype=bf16 layout=nt", *stream_);
  ASSERT_TRUE(gemm(bf16.args, stream_->view()));
  EXPECT_EQ(bf16.judge_now(), "");
  const bool hopper = ops::device_info(stream_->view()).has("wgmma");
  EXPECT_EQ(dispatch::last_used("gemm"), hopper ? "cuda_wgmma" : "cuda_cublaslt");
  GemmOnGpu odd("m=33 n=35 k=37 dtype=bf16 layout=nt", *stream_);
  ASSERT_TRUE(gemm(odd.args, stream_->view()));
  EXPECT_EQ(odd.judge_now(), "");
  EXPECT_NE(dispatch::last_used("gemm"), "cuda_wgmma");
}

TEST_F(CudaGemm, RunsTheForcedOneOrSaysWhyNot) {
  GemmOnGpu call("m=64 n=64 k=64 dtype=bf16", *stream_);
  for (const char* name : {"cuda_simt", "cuda_cublaslt", "cuda_reference"}) {
    ASSERT_TRUE(dispatch::force("gemm", name));
    const Status status = gemm(call.args, stream_->view());
    ASSERT_TRUE(status) << status.error().text();
    EXPECT_EQ(dispatch::last_used("gemm"), name);
    EXPECT_EQ(call.judge_now(), "") << name;
  }
  ASSERT_TRUE(dispatch::force("gemm", "cpu_simd"));
  const Status wrong = gemm(call.args, stream_->view());
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().text(), HasSubstr("runs on cpu, the stream is cuda"));
}

TEST_F(CudaGemm, OperandsInHostMemoryAreAnErrorThatLeavesTheDeviceUsable) {
  GemmOnGpu call("m=80 n=112 k=48 dtype=bf16 layout=nt", *stream_);
  GemmArgs wrong = call.args;
  wrong.b.data = call.after.all[1].view().data;
  const Status status = gemm(wrong, stream_->view());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.error().text(), HasSubstr("operand b: the address"));
  EXPECT_THAT(status.error().text(), HasSubstr("copy the operand to the GPU, or call on Stream::cpu()"));
  ASSERT_TRUE(gemm(call.args, stream_->view()));
  EXPECT_EQ(call.judge_now(), "");
}

TEST_F(CudaGemm, ASingleRowMayHaveAnyStride) {
  GemmOnGpu call("m=1 n=128 k=63 dtype=bf16 layout=nn", *stream_);
  ASSERT_TRUE(gemm(call.args, stream_->view()));
  EXPECT_EQ(call.judge_now(), "");
}

TEST_F(CudaGemm, IsCapturedByAGraphOnceItWasCalled) {
  GemmOnGpu call("m=192 n=320 k=448 dtype=bf16 layout=nt", *stream_);
  const auto capture = [&] {
    return gpu::Graph::capture(the_device(),
                               [&](gpu::StreamHandle handle) { return gemm(call.args, Stream::cuda(handle)); });
  };
  std::thread([&] {  // a thread that has never called: nothing is prepared
    const auto cold = capture();
    ASSERT_FALSE(cold);
    EXPECT_THAT(cold.error().text(), HasSubstr("call it once with the same shapes and strides before the capture"));
  })
      .join();
  ASSERT_TRUE(gemm(call.args, stream_->view()));
  ASSERT_EQ(call.judge_now(), "");
  ASSERT_TRUE(gpu::fill_bytes(call.args.c.data, 0xff, 192 * 320 * 2, stream_->handle()));
  const auto warm = capture();
  ASSERT_TRUE(warm) << warm.error().text();
  EXPECT_EQ(warm->nodes(), 1u);
  ASSERT_TRUE(warm->launch(stream_->handle()));
  ASSERT_TRUE(stream_->synchronize());
  EXPECT_EQ(call.judge_now(), "");
}

// The copies of a captured call are in memory of the graph.
TEST_F(CudaGemm, OfCopiedRowsIsCapturedByAGraphToo) {
  GemmOnGpu call("m=192 n=320 k=447 dtype=bf16 layout=nt", *stream_);
  const ops::Implementation& padded = **ops::find_implementation(**ops::find_operator("gemm"), "cuda_wgmma_padded");
  if (const auto why = ops::why_not(padded, call.problem, ops::device_info(stream_->view()))) GTEST_SKIP() << *why;
  ASSERT_TRUE(dispatch::force("gemm", "cuda_wgmma_padded"));
  ASSERT_TRUE(gemm(call.args, stream_->view()));
  ASSERT_EQ(call.judge_now(), "");
  ASSERT_TRUE(gpu::fill_bytes(call.args.c.data, 0xff, 192 * 320 * 2, stream_->handle()));
  const auto graph = gpu::Graph::capture(
      the_device(), [&](gpu::StreamHandle handle) { return gemm(call.args, Stream::cuda(handle)); });
  ASSERT_TRUE(graph) << graph.error().text();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(graph->launch(stream_->handle()));
    ASSERT_TRUE(stream_->synchronize());
    EXPECT_EQ(call.judge_now(), "");
  }
}

// A workspace that two graphs shared would show here: each writes parts of sums into it while the other one runs.
TEST_F(CudaGemm, TwoGraphsOfOneStreamRunSideBySide) {
  const ops::Implementation& vendor = **ops::find_implementation(**ops::find_operator("gemm"), "cuda_cublaslt");
  GemmOnGpu first("m=64 n=64 k=65536 dtype=bf16 out=f32 layout=nt", *stream_);
  GemmOnGpu second("m=64 n=128 k=65536 dtype=bf16 out=f32 layout=nt", *stream_);
  if (const auto why = ops::why_not(vendor, first.problem, ops::device_info(stream_->view()))) GTEST_SKIP() << *why;
  ASSERT_TRUE(dispatch::force("gemm", "cuda_cublaslt"));
  const auto other = gpu::Stream::create(the_device());
  ASSERT_TRUE(other);
  std::vector<gpu::Graph> graphs;
  std::vector<std::vector<double>> alone;
  for (GemmOnGpu* const call : {&first, &second}) {
    ASSERT_TRUE(gemm(call->args, stream_->view()));  // prepared, from the pool of the stream
    ASSERT_EQ(call->judge_now(), "");
    alone.push_back(call->after.all.back().values());
    auto graph = gpu::Graph::capture(the_device(),
                                     [&](gpu::StreamHandle handle) { return gemm(call->args, Stream::cuda(handle)); });
    ASSERT_TRUE(graph) << graph.error().text();
    graphs.push_back(std::move(*graph));
  }
  constexpr int kTimes = 10000, kLooks = 100;
  for (int i = 0; i < kTimes; ++i) {
    ASSERT_TRUE(graphs[0].launch(stream_->handle()));
    ASSERT_TRUE(graphs[1].launch(other->handle()));
    if (i % (kTimes / kLooks) != 0) continue;
    ASSERT_TRUE(stream_->synchronize());
    ASSERT_TRUE(other->synchronize());
    for (std::size_t g = 0; g < 2; ++g) {
      GemmOnGpu& call = g == 0 ? first : second;
      ASSERT_TRUE(call.device->download(call.after, stream_->handle()));
      ASSERT_EQ(call.after.all.back().values(), alone[g]) << "graph " << g << ", launch " << i;
    }
  }
}

TEST_F(CudaGemm, GradientsRunOnTheDeviceToo) {
  GemmOnGpu forward("m=96 n=160 k=128 dtype=bf16 layout=nt", *stream_);
  GemmOnGpu grad_a("m=96 n=128 k=160 dtype=bf16 layout=nn", *stream_);  // dA = dC * B
  GemmGradArgs args;
  args.forward = forward.args;
  args.forward.b = grad_a.args.b;
  args.grad_c = grad_a.args.a;
  args.grad = grad_a.args.c;
  ASSERT_TRUE(gemm_grad_a(args, stream_->view()));
  EXPECT_EQ(grad_a.judge_now(), "");
}

// Median over batches of the host time of one call, while the device keeps up.
double host_seconds(const gpu::Stream& stream, const std::function<Status()>& call) {
  constexpr int kBatch = 200, kBatches = 40;
  std::vector<double> each;
  for (int b = 0; b < kBatches; ++b) {
    EXPECT_TRUE(stream.synchronize());
    const auto start = Clock::now();
    for (int i = 0; i < kBatch; ++i) EXPECT_TRUE(call());
    each.push_back(std::chrono::duration<double>(Clock::now() - start).count() / kBatch);
  }
  std::sort(each.begin(), each.end());
  return each[each.size() / 2];
}

TEST_F(CudaGemm, AWarmCallCostsTheHostAFewMicrosecondsOverTheBareLaunch) {
  GemmOnGpu call("m=128 n=128 k=64 dtype=bf16 layout=nt", *stream_);
  const ops::KernelRequest probe{"ops/matmul/cuda_simt.cu",
                                 {"RIDGE_TYPE_A=kBf16", "RIDGE_TYPE_B=kBf16", "RIDGE_TYPE_C=kBf16", "RIDGE_MAJOR_A=kK",
                                  "RIDGE_MAJOR_B=kK", "RIDGE_STORE=kOverwrite"},
                                 "ridge_gemm_simt"};
  const auto kernel = ops::device_kernel(the_device(), probe);
  ASSERT_TRUE(kernel) << kernel.error().text();
  // The same kernel bare: its parameters are laid out once, the call is the launch alone.
  void *a = call.args.a.data, *b = call.args.b.data;
  std::int64_t row = 64, k = 64;
  struct {
    void* data;
    std::int64_t stride;
    std::uint32_t rows, cols;
  } output{call.args.c.data, 128, 128, 128};
  std::array<std::int64_t, 4> scales{}, extra{};
  const std::array<void*, 8> arguments = {&a, &b, &row, &row, &k, &output, &scales, &extra};
  gpu::LaunchShape shape;
  shape.block.x = 256;
  const double bare = host_seconds(*stream_, [&] { return kernel->launch(shape, arguments, stream_->handle()); });
  for (const char* name : {"cuda_simt", "cuda_wgmma", "cuda_cublaslt"}) {
    ASSERT_TRUE(dispatch::force("gemm", name));
    if (!gemm(call.args, stream_->view())) continue;
    const double whole = host_seconds(*stream_, [&] { return gemm(call.args, stream_->view()); });
    std::printf("host time of one warm call: %s %.2f us, bare launch %.2f us, difference %.2f us\n", name, whole * 1e6,
                bare * 1e6, (whole - bare) * 1e6);
    if (std::string_view(name) != "cuda_cublaslt") {
      EXPECT_LT(whole - bare, 3e-6) << name;
    }
  }
}

// A described kernel's plan is prepared once; a warm call writes addresses, scalars and tensor maps into it, which take
// about a microsecond each.
TEST(CudaOps, AWarmCallOfADescribedKernelCostsLittleOverItsLaunches) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  struct Described {
    const char *text, *source;
    double limit;
  };
  for (const Described& one : {Described{"quantize scaling=1x128 copies=both", "ops/quantize/cuda_quantize.cu", 2e-6},
                               Described{"quantize scaling=row copies=both", "ops/quantize/cuda_quantize.cu", 2e-6},
                               Described{"dequantize scaling=1x128", "ops/dequantize/cuda_dequantize.cu", 2e-6},
                               Described{"attention dim=64", "ops/attention/cuda_attention.cu", 6e-6}}) {
    const record::Case requested = *record::parse_case(one.text);
    const ops::Operator& op = **ops::find_operator(requested.op);
    const ops::Problem problem = *op.bind(requested);
    const ops::Implementation& own = **ops::find_implementation(op, "cuda_" + requested.op);
    if (ops::why_not(own, problem, ops::device_info(stream->view()))) continue;
    const Operands host = make_operands(problem, kPacked, 3);
    const auto operands = GpuOperands::upload(the_device(), host, stream->handle());
    ASSERT_TRUE(operands);
    const ops::DescribedKernel& kernel = ops::described_kernel(one.source);
    record::PlanFacts facts = ops::plan_facts(problem, operands->views());
    facts.values["sm_count"] = the_device().info().multiprocessors;
    const ops::KernelBuild build = *kernel.build(0, facts);
    const auto prepared = gpu::PreparedPlan::prepare(
        [&](const record::ResolvedKernel& planned) {
          return ops::device_kernel(the_device(), {build.source, build.defines, planned.symbol, planned.shared_bytes});
        },
        *kernel.resolve(0, facts), the_device().info());
    ASSERT_TRUE(prepared) << prepared.error().text();
    std::vector<void*> addresses;
    for (const TensorView& view : operands->views()) addresses.push_back(view.data);
    const auto bound = prepared->bind(addresses, {});
    ASSERT_TRUE(bound) << bound.error().text();
    ASSERT_TRUE(own.run(problem, operands->views(), stream->view()));
    const double bare = host_seconds(*stream, [&] { return bound->launch(stream->handle()); });
    const double whole = host_seconds(*stream, [&] { return own.run(problem, operands->views(), stream->view()); });
    std::printf("host time of one warm call: %s %.2f us, its launches %.2f us, difference %.2f us\n", one.text,
                whole * 1e6, bare * 1e6, (whole - bare) * 1e6);
    EXPECT_LT(whole - bare, one.limit) << one.text;
  }
}

// One prepared launch serves every scale and every softcap.
TEST(CudaOps, AScalarIsOfItsCallAlone) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const ops::Operator& op = **ops::find_operator("attention");
  const ops::Implementation& own = **ops::find_implementation(op, "cuda_attention");
  const auto check = [&](const char* words, const std::vector<std::vector<double>>& calls) {
    const ops::Problem problem = *op.bind(*record::parse_case(words));
    if (ops::why_not(own, problem, ops::device_info(stream->view()))) return false;
    for (const std::vector<double>& scalars : calls) {
      Operands before = make_operands(problem, kPacked, 7), after = make_operands(problem, kPacked, 7);
      for (const double one : scalars) after.scalars.push_back(record::Scalar::f64(one));
      before.scalars = after.scalars;
      const auto operands = GpuOperands::upload(the_device(), after, stream->handle());
      EXPECT_TRUE(operands);
      EXPECT_TRUE(own.run(problem, {operands->views(), after.scalars}, stream->view()));
      EXPECT_TRUE(operands->download(after, stream->handle()));
      EXPECT_EQ(judge(op, problem, before, after, 7), "") << words << " " << scalars.front() << " " << scalars.back();
    }
    return true;
  };
  if (!check("attention q_len=200 k_len=300 dim=64", {{0.125}, {0.25}, {0.05}, {0.125}})) GTEST_SKIP() << "no kernel";
  // Among them caps that every score is beyond, and one that none is near.
  check("attention q_len=200 k_len=300 dim=64 softcap=1", {{0.125, 30}, {0.25, 0.01}, {0.125, 300}, {0.125, 30}});
  // Scales beside which slopes are far more than scores, and no number over them.
  check("attention q_len=200 k_len=300 dim=64 alibi=1", {{0.125}, {1e-37}, {0.125}});
}

// Packed [batch, length, q heads and k heads and others, dim] and the table of the positions below `rows`, on the
// device.
struct PackedRope {
  static constexpr std::int64_t kBatch = 2, kLength = 37, kHeads = 5, kKvHeads = 2, kAll = 9, kDim = 128, kRotary = 96,
                                kRows = 40;
  std::vector<float> before = std::vector<float>(kBatch * kLength * kAll * kDim);
  std::vector<float> table = std::vector<float>(kRows * kRotary);  // cos, then sin
  std::vector<gpu::Buffer> memory;
  RopeArgs args;

  explicit PackedRope(const gpu::Stream& stream) {
    for (std::size_t i = 0; i < before.size(); ++i) before[i] = static_cast<float>(i % 1009) / 500 - 1;
    TensorView cos = TensorView::contiguous(table.data(), DType::kF32, {kRows, kRotary / 2}), sin = cos;
    sin.data = table.data() + kRows * kRotary / 2;
    EXPECT_TRUE(rope_table({}, cos, sin));
    for (const std::vector<float>* one : {&before, &before, &table}) {
      auto buffer = gpu::Buffer::allocate(the_device(), one->size() * sizeof(float));
      EXPECT_TRUE(buffer);
      memory.push_back(std::move(*buffer));
      EXPECT_TRUE(gpu::copy_to_device(memory.back().data(), one->data(), one->size() * sizeof(float), stream.handle()));
    }
    args.cos = TensorView::contiguous(memory[2].data(), DType::kF32, {kRows, kRotary / 2});
    args.sin = args.cos;
    args.sin.data = static_cast<float*>(memory[2].data()) + kRows * kRotary / 2;
    args.q = part(0, 0, kHeads), args.q_out = part(1, 0, kHeads);
    args.k = part(0, kHeads, kKvHeads), args.k_out = part(1, kHeads, kKvHeads);
    args.offset = 3;
  }
  TensorView part(std::size_t at, std::int64_t first, std::int64_t count) {
    float* const start = static_cast<float*>(memory[at].data()) + first * kDim;
    TensorView view = TensorView::contiguous(start, DType::kF32, {kBatch, kLength, count, kDim});
    view.stride = {kLength * kAll * kDim, kAll * kDim, kDim, 1};
    return view;
  }
  std::vector<float> read(std::size_t at, const gpu::Stream& stream) const {
    std::vector<float> values(before.size());
    EXPECT_TRUE(gpu::copy_to_host(values.data(), memory[at].data(), values.size() * sizeof(float), stream.handle()));
    EXPECT_TRUE(stream.synchronize());
    return values;
  }
};

TEST(CudaRope, TurnsPartsOfAPackedTensorWhereTheyLieAsItDoesApart) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  PackedRope call(*stream);
  ASSERT_TRUE(rope(call.args, stream->view()));
  const std::vector<float> apart = call.read(1, *stream);
  call.args.q_out = call.args.q, call.args.k_out = call.args.k;
  ASSERT_TRUE(rope(call.args, stream->view()));
  EXPECT_EQ(call.read(0, *stream), apart);
  EXPECT_NE(apart, call.before);
  for (std::size_t i = 0; i < apart.size(); ++i) {
    const std::int64_t element = static_cast<std::int64_t>(i) % PackedRope::kDim;
    const std::int64_t head = static_cast<std::int64_t>(i) / PackedRope::kDim % PackedRope::kAll;
    if (element < PackedRope::kRotary && head < PackedRope::kHeads + PackedRope::kKvHeads) continue;
    ASSERT_EQ(apart[i], call.before[i]) << i;
  }
}

TEST(CudaRope, APositionOutsideOfTheTableMakesItsTokenNoNumber) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  PackedRope call(*stream);
  std::vector<std::int64_t> positions(PackedRope::kLength, 4);  // the same for both sequences
  const std::vector<std::pair<std::size_t, std::int64_t>> outside = {
      {3, -1}, {4, PackedRope::kRows}, {20, std::int64_t{1} << 62}, {36, -(std::int64_t{1} << 62)}};
  for (const auto& [token, position] : outside) positions[token] = position;
  const auto memory = gpu::Buffer::allocate(the_device(), positions.size() * sizeof(std::int64_t));
  ASSERT_TRUE(memory);
  ASSERT_TRUE(gpu::copy_to_device(memory->data(), positions.data(), positions.size() * 8, stream->handle()));
  call.args.positions = TensorView::contiguous(memory->data(), DType::kI64, {PackedRope::kBatch, PackedRope::kLength});
  call.args.positions.stride[0] = 0;
  ASSERT_TRUE(rope(call.args, stream->view()));
  const std::vector<float> found = call.read(1, *stream);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::int64_t element = static_cast<std::int64_t>(i) % PackedRope::kDim;
    const std::int64_t head = static_cast<std::int64_t>(i) / PackedRope::kDim % PackedRope::kAll;
    const std::size_t token = i / (PackedRope::kDim * PackedRope::kAll) % PackedRope::kLength;
    const bool turned = element < PackedRope::kRotary && head < PackedRope::kHeads + PackedRope::kKvHeads;
    const bool wrong = std::ranges::any_of(outside, [&](const auto& one) { return one.first == token; });
    ASSERT_EQ(std::isnan(found[i]), turned && wrong) << i;
  }
}

constexpr Layout kApart{"rows on 16 bytes, apart", 8, 8};

// Heads of every size, rows with space between them that nothing may write, several tiles for a block.
TEST(CudaAttention, LeavesWhatLiesBetweenRowsAlone) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const ops::Operator& op = **ops::find_operator("attention");
  const ops::Implementation& own = **ops::find_implementation(op, "cuda_attention");
  int runs = 0;
  for (const ops::Problem& problem : check_problems(op)) {
    for (const int share : {0, 1}) {
      bool ran = false;
      EXPECT_EQ(check_on_gpu(op, own, problem, kApart, 5, *stream, ran, share), "")
          << problem.problem_case.text() << " on " << share;
      runs += ran ? 1 : 0;
    }
  }
  const bool takes_all = ops::device_info(stream->view()).has("wgmma");
  EXPECT_GT(runs, takes_all ? 60 : -1);
}

// Offsets of documents that fall or leave the rows are those of the nearest that are possible, forward and backward,
// and nothing outside is written.
TEST(CudaAttention, TakesWrongOffsetsForTheNearest) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  using Offsets = std::vector<double>;
  const std::pair<Offsets, Offsets> of_queries[] = {{{-5, 90, 20, 200, 1000, 60}, {0, 90, 90, 200, 300, 300}},
                                                    {{40, 0, 1e9, 3, 7, 9}, {40, 40, 300, 300, 300, 300}}};
  const std::pair<Offsets, Offsets> of_keys[] = {{{10, 150, 149, -1e9, 260, 999}, {10, 150, 150, 150, 260, 270}},
                                                 {{-1, 100, 100, 5, 2e9, 0}, {0, 100, 100, 100, 270, 270}}};
  for (const char* entry : {"attention", "attention_backward"}) {
    const ops::Operator& op = **ops::find_operator(entry);
    const ops::Implementation& own = **ops::find_implementation(op, std::string("cuda_") + entry);
    for (const char* words : {"dim=64 mask=causal", "dim=128", "dim=128 keys_left=70 keys_right=9"}) {
      const ops::Problem problem = *op.bind(
          *record::parse_case(fmt::format("{} heads=4 kv_heads=2 q_len=300 k_len=270 documents=5 {}", entry, words)));
      if (const auto why = ops::why_not(own, problem, ops::device_info(stream->view()))) GTEST_SKIP() << *why;
      const std::size_t at = *problem.position("q_offsets");
      for (std::size_t i = 0; i < std::size(of_queries); ++i) {
        Operands right = make_operands(problem, kApart, 3), after = make_operands(problem, kApart, 3);
        right.all[at].assign(of_queries[i].second), right.all[at + 1].assign(of_keys[i].second);
        after.all[at].assign(of_queries[i].first), after.all[at + 1].assign(of_keys[i].first);
        const auto device = GpuOperands::upload(the_device(), after, stream->handle());
        ASSERT_TRUE(device);
        const Status status = own.run(problem, {device->views(), after.scalars}, stream->view());
        ASSERT_TRUE(status) << problem.problem_case.text() << ": " << status.error().text();
        ASSERT_TRUE(device->download(after, stream->handle()));
        after.all[at].assign(of_queries[i].second), after.all[at + 1].assign(of_keys[i].second);
        EXPECT_EQ(judge(op, problem, right, after, 3), "") << problem.problem_case.text() << " " << i;
      }
    }
  }
}

// A softcap makes numbers of the scores of an infinite key, so its gradients are numbers, also where the queries end
// within a block: what lies behind them is zeros, whose score with that key is none.
TEST(CudaAttention, AnInfiniteKeyUnderASoftcapHasAGradient) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const ops::Operator& op = **ops::find_operator("attention_backward");
  for (const auto& [kernel, dims] :
       {std::pair{"cuda_attention_backward", "dim=64"}, std::pair{"cuda_attention_backward", "dim=128"},
        std::pair{"cuda_attention_backward_wide", "dim=192 v_dim=128"},
        std::pair{"cuda_attention_backward_wide", "dim=256"}}) {
    const ops::Implementation& own = **ops::find_implementation(op, kernel);
    for (const char* mask : {"causal", "full"}) {
      const ops::Problem problem = *op.bind(*record::parse_case(
          fmt::format("attention_backward heads=2 kv_heads=1 q_len=300 k_len=300 softcap=1 mask={} {}", mask, dims)));
      if (const auto why = ops::why_not(own, problem, ops::device_info(stream->view()))) GTEST_SKIP() << *why;
      Operands before = make_operands(problem, kPacked, 7), after = make_operands(problem, kPacked, 7);
      for (Operands* operands : {&before, &after}) {
        Operand& keys = operands->all[*problem.position("k")];
        std::vector<double> values = keys.values();
        values[values.size() / 2] = std::numeric_limits<double>::infinity();
        keys.assign(values);
      }
      const auto device = GpuOperands::upload(the_device(), after, stream->handle());
      ASSERT_TRUE(device);
      const auto expected = op.reference(problem, {before.views(), before.scalars});
      ASSERT_TRUE(expected);
      const Status status = own.run(problem, {device->views(), after.scalars}, stream->view());
      ASSERT_TRUE(status) << status.error().text();
      ASSERT_TRUE(device->download(after, stream->handle()));
      std::size_t output = 0;
      for (const Operand& operand : after.all) {
        if (!operand.spec().output) continue;
        const ops::ReferenceOutput& want = (*expected)[output++];
        if (operand.spec().name == "d_q") continue;  // a zero times that key
        EXPECT_TRUE(std::ranges::all_of(want.value, [](double value) { return std::isfinite(value); }));
        EXPECT_EQ(compare(operand.values(), want, operand.spec().dtype), "")
            << problem.problem_case.text() << " " << operand.spec().name;
      }
    }
  }
}

// Offsets that fall or leave the rows are those of the nearest that are possible, and nothing else is written.
TEST(CudaGroupedQuantize, TakesWrongOffsetsForTheNearest) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const ops::Operator& op = **ops::find_operator("grouped_quantize");
  const std::vector<double> wrong[] = {
      {-5, 40, 20, 90, 1000, 60}, {500, 0, 50, 100, 100, 100}, {0, 1e9, -1e9, 7, 3, 2}};
  const std::vector<double> nearest[] = {
      {0, 40, 40, 90, 300, 300}, {300, 300, 300, 300, 300, 300}, {0, 300, 300, 300, 300, 300}};
  for (const char* form :
       {"copies=both", "copies=both offsets=i64 scaling=mx align=32", "scaling=row align=16", "scaling=row copies=both",
        "copies=both own_rows=1", "scaling=tensor copies=both align=16"}) {
    const ops::Problem problem =
        *op.bind(*record::parse_case(fmt::format("grouped_quantize rows=300 cols=136 groups=5 {}", form)));
    for (std::size_t i = 0; i < std::size(wrong); ++i) {
      Operands right = make_operands(problem, kAwkward, 3), after = make_operands(problem, kAwkward, 3);
      right.all[1].assign(nearest[i]), after.all[1].assign(wrong[i]);
      ASSERT_TRUE((*ops::find_implementation(op, "cpu_panels"))->run(problem, right.views(), Stream::cpu()).ok());
      const auto device = GpuOperands::upload(the_device(), after, stream->handle());
      ASSERT_TRUE(device);
      ASSERT_TRUE(
          (*ops::find_implementation(op, "cuda_grouped_quantize"))->run(problem, device->views(), stream->view()).ok());
      ASSERT_TRUE(device->download(after, stream->handle()).ok());
      for (std::size_t k = 2; k < after.all.size(); ++k) {
        EXPECT_EQ(after.all[k].guard_damage(), "") << form << " " << i;
        const std::vector<double> found = after.all[k].values(), expected = right.all[k].values();
        std::size_t differ = 0;
        for (std::size_t e = 0; e < found.size(); ++e) {
          differ += std::abs(found[e] - expected[e]) <= 0.13 * std::abs(expected[e]) ? 0 : 1;
        }
        EXPECT_EQ(differ, 0u) << form << " " << i << " " << problem.operands[k].name;
      }
    }
  }
}

// The same, and along sums every offset is taken for the multiple of 128 below it.
TEST(CudaGroupedGemmFp8, TakesWrongOffsetsForTheNearest) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const ops::Operator& op = **ops::find_operator("grouped_gemm_fp8");
  const ops::Implementation& own = **ops::find_implementation(op, "cuda_groups_fp8");
  struct Offsets {
    const char* words;
    std::vector<double> wrong, nearest;
  };
  const Offsets all[] = {{"rows=300 k=144", {-5, 40, 20, 90, 1000, 60}, {0, 40, 40, 90, 300, 300}},
                         {"rows=300 k=144", {500, 0, 50, 100, 100, 100}, {300, 300, 300, 300, 300, 300}},
                         {"rows=300 k=144", {7, 1e9, -1e9, 7, 3, 2}, {7, 300, 300, 300, 300, 300}},
                         {"rows=656 m=40 along=sums", {-9, 255, 130, 400, 1e9, 5}, {0, 128, 128, 384, 640, 640}},
                         {"rows=656 m=40 along=sums", {130, 129, 128, 127, 639, 656}, {128, 128, 128, 128, 512, 640}}};
  for (const Offsets& one : all) {
    for (const char* form : {"offsets=i32", "offsets=i64", "scaling=row", "scaling=tensor"}) {
      const ops::Problem problem =
          *op.bind(*record::parse_case(fmt::format("grouped_gemm_fp8 groups=5 n=72 {} {}", form, one.words)));
      if (const auto why = ops::why_not(own, problem, ops::device_info(stream->view()))) GTEST_SKIP() << *why;
      constexpr std::size_t kOffsets = 4;
      Operands right = make_operands(problem, kPacked, 3), after = make_operands(problem, kPacked, 3);
      right.all[kOffsets].assign(one.nearest), after.all[kOffsets].assign(one.wrong);
      const auto device = GpuOperands::upload(the_device(), after, stream->handle());
      ASSERT_TRUE(device);
      ASSERT_TRUE(own.run(problem, {device->views(), after.scalars}, stream->view()));
      ASSERT_TRUE(device->download(after, stream->handle()));
      after.all[kOffsets].assign(one.nearest);
      EXPECT_EQ(judge(op, problem, right, after, 3), "") << problem.problem_case.text();
    }
  }
}

// Scales of rows and of groups that are no numbers: of a group with rows, of one without, and of rows of no group.
TEST(CudaGroupedGemmFp8, ScalesThatAreNoNumbersAreOfTheirGroupAlone) {
  const auto stream = gpu::Stream::create(the_device());
  ASSERT_TRUE(stream);
  const ops::Operator& op = **ops::find_operator("grouped_gemm_fp8");
  const ops::Implementation& own = **ops::find_implementation(op, "cuda_groups_fp8");
  constexpr std::size_t kScaleA = 2, kScaleB = 3, kOffsets = 4, kC = 5, kGroups = 5, kBad = 2, kEmpty = 1;
  struct Form {
    const char* words;
    std::vector<double> offsets;
    bool along_sums, rows_of_a;  // whether scale_a has a number for each row of the call
  };
  const std::vector<double> rows = {7, 40, 40, 90, 200, 280}, sums = {0, 128, 128, 384, 384, 640};
  for (const Form& form : {Form{"rows=300 k=144 scaling=row", rows, false, true},
                           Form{"rows=300 k=144 scaling=tensor", rows, false, false},
                           Form{"rows=640 m=40 along=sums scaling=row", sums, true, false},
                           Form{"rows=640 m=40 along=sums scaling=tensor", sums, true, false}}) {
    const ops::Problem problem =
        *op.bind(*record::parse_case(fmt::format("grouped_gemm_fp8 groups={} n=72 out=f32 {}", kGroups, form.words)));
    if (const auto why = ops::why_not(own, problem, ops::device_info(stream->view()))) GTEST_SKIP() << *why;
    const auto result = [&](bool marked) {
      Operands host = make_operands(problem, kPacked, 3);
      host.all[kOffsets].assign(form.offsets);
      for (const std::size_t operand : {kScaleA, kScaleB}) {
        std::vector<double> scales = host.all[operand].values();
        for (std::size_t i = 0; marked && i < scales.size(); ++i) {
          const auto at = static_cast<double>(i);
          const std::size_t group = i * kGroups / scales.size();
          const bool bad = operand == kScaleA && form.rows_of_a
                               ? at < form.offsets[0] || at >= form.offsets[kGroups] ||
                                     (at >= form.offsets[kBad] && at < form.offsets[kBad + 1])
                               : group == kBad || group == kEmpty;
          if (bad) scales[i] = std::numeric_limits<double>::quiet_NaN();
        }
        host.all[operand].assign(scales);
      }
      const auto device = GpuOperands::upload(the_device(), host, stream->handle());
      EXPECT_TRUE(device && own.run(problem, {device->views(), host.scalars}, stream->view()).ok() &&
                  device->download(host, stream->handle()).ok());
      return host.all[kC].values();
    };
    const std::vector<double> clean = result(false), marked = result(true);
    ASSERT_EQ(clean.size(), marked.size());
    const std::size_t columns = 72, matrix = columns * (form.along_sums ? 40 : 1);
    std::size_t differ = 0;
    for (std::size_t i = 0; i < clean.size(); ++i) {
      const auto row = static_cast<double>(i / matrix);
      const bool bad = form.along_sums ? i / matrix == kBad : row >= form.offsets[kBad] && row < form.offsets[kBad + 1];
      differ += (bad ? std::isnan(marked[i]) && !std::isnan(clean[i]) : marked[i] == clean[i]) ? 0 : 1;
    }
    EXPECT_EQ(differ, 0u) << form.words;
  }
}

// A call makes its device's context current, and leaves the caller's as it found it.
TEST(CudaOps, TheCallersContextComesBack) {
  const ops::Operator& op = **ops::find_operator("gemm");
  const ops::Problem problem = *op.bind(*record::parse_case("gemm m=64 n=64 k=64 dtype=bf16 layout=nt"));
  const auto buffer = gpu::Buffer::allocate(the_device(), 3 * 64 * 64 * 2);
  ASSERT_TRUE(buffer) << buffer.error().text();
  char* const start = static_cast<char*>(buffer->data());
  GemmArgs args;
  args.a = TensorView::contiguous(start, DType::kBf16, {64, 64});
  args.b = TensorView::contiguous(start + 8192, DType::kBf16, {64, 64});
  args.c = TensorView::contiguous(start + 16384, DType::kBf16, {64, 64});
  args.trans_b = true;
  gpu::set_current_context(nullptr);
  for (int again = 0; again < 2; ++again) {
    ASSERT_TRUE(gemm(args, Stream::cuda(nullptr)));
    EXPECT_EQ(gpu::current_context().value(), nullptr);
  }
  ASSERT_TRUE(the_device().make_current());
  const auto own = gpu::current_context();
  ASSERT_TRUE(gemm(args, Stream::cuda(nullptr)));
  EXPECT_EQ(gpu::current_context(), own);
  EXPECT_TRUE(the_device().synchronize());
}

}  // namespace
}  // namespace ridge::testing
