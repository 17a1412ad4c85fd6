#include "cuda/gpu_problems.h"

#include <fmt/format.h>

#include "cuda/gpu_operands.h"
#include "ops/cuda/kernels.h"

namespace ridge::testing {

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
          "rows=700 groups=130 cols=132", "rows=140 groups=2 cols=67", "rows=10 groups=70 cols=264"}) {
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
                             "rows=700 groups=130 cols=132", "rows=10 groups=70 cols=256"}) {
      for (const char* of : {"swiglu", "swiglu_backward probs=1 dprobs=1"}) {
        for (const char* form : {"own_rows=1", "own_rows=1 scaling=mx offsets=i64", "scaling=row",
                                 "scaling=tensor align=16 format=e5m2", "scaling=128x128", "rounding=stochastic"}) {
          for (const char* dtype : {"f32", "bf16", "f16"}) {
            add(fmt::format("{} dtype={} of={} copies=both {}", size, dtype, of, form));
          }
        }
      }
    }
    for (const char* size : {"rows=1000 groups=5 cols=512 sources=300", "rows=300 groups=32 cols=264 sources=40",
                             "rows=700 groups=130 cols=132 sources=1", "rows=140 groups=2 cols=67 sources=200"}) {
      for (const char* form : {"own_rows=1", "own_rows=1 scaling=mx offsets=i64", "scaling=row", "scaling=128x128",
                               "scaling=tensor align=16 format=e5m2", "rounding=stochastic"}) {
        for (const char* dtype : {"f32", "bf16"}) {
          add(fmt::format("{} dtype={} gather=1 copies=both {}", size, dtype, form));
        }
      }
    }
    // The last ones, which the sanitizers see as they are: blocks that walk, and make both gradients together.
    for (const char* form : {"gather=1 sources=50 own_rows=1", "of=swiglu probs=1 own_rows=1",
                             "of=swiglu_backward probs=1 dprobs=1 own_rows=1", "of=swiglu_backward scaling=128x128"}) {
      add(fmt::format("rows=150 groups=3 cols=256 copies=both {}", form));
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
  if (op.name == "activation_quantize_backward") {
    // Both gradients of one copy, of each function; the last ones, which the sanitizers see as they are, of few
    // columns.
    for (const char* function : {"silu", "gelu", "gelu_tanh", "relu", "relu2", "clamped_silu"}) {
      for (const char* more : {"dtype=bf16 scaling=1x128", "dtype=f16 scaling=128x128 probs=1 mask=1"}) {
        add(fmt::format("rows=300 cols=1024 copies=both function={} {}", function, more));
      }
    }
    for (const char* form :
         {"scaling=1x128 probs=1 mask=1", "scaling=128x128", "scaling=1x128 gated=0 function=gelu"}) {
      add(fmt::format("rows=150 cols=256 copies=both {}", form));
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
    // Several tiles for each block, so that rings go on from tile to tile.
    for (const char* more :
         {"m=520 layout=tn accumulate=1", "m=520 layout=tn gather=b sources=1500",
          "m=520 layout=tn accumulate=1 gather=a sources=1500", "k=1000 layout=nt gather=a sources=1500"}) {
      add(fmt::format("rows=3000 groups=40 n=520 {}", more));
    }
    // SwiGLU and its gradients: columns that end within a tile and a slab, some tiles for each block. The last ones are
    // what sanitizers look at.
    for (const char* size : {"rows=700 groups=3 n=528", "rows=900 groups=9 n=272 probs=1", "rows=64 groups=8 n=64",
                             "rows=3000 groups=40 n=1040 probs=1", "rows=1500 groups=24 n=144 probs=1"}) {
      for (const char* more :
           {"k=136 layout=nn epilogue=swiglu dtype=f16",
            "k=136 layout=nt epilogue=swiglu_backward dtype=f16 offsets=i64",
            "k=200 layout=nn epilogue=swiglu_backward gather=a sources=300", "k=192 layout=nt epilogue=swiglu",
            "k=192 layout=nn epilogue=swiglu_backward", "k=200 layout=nt epilogue=swiglu gather=a sources=300"}) {
        add(fmt::format("{} {}", size, more));
      }
    }
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
      for (const char* more : {"m=200", "m=264 out=f32 accumulate=1", "m=136 dtype=e4m3fn_e5m2 out=f16 offsets=i64",
                               "m=264 accumulate=1", "m=200 out=f16 accumulate=1"}) {
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
        for (const char* more : {"m=200", "m=263 out=f32 accumulate=1", "m=1 dtype=e4m3fn_e5m2 out=f16 offsets=i64",
                                 "m=263 accumulate=1"}) {
          add(fmt::format("{} {} along=sums {}", size, more, scaling));
        }
      }
      add(fmt::format("rows=4000 groups=5 n=1536 k=64 {}", scaling));
      add(fmt::format("rows=1536 groups=24 n=520 m=520 along=sums {}", scaling));
    }
    // Rows by index: of fewer rows than there are of groups and of more, in numbers that scales of blocks in place
    // refuse.
    for (const char* scaling : {"scaling=block", "scaling=row", "scaling=tensor"}) {
      for (const char* size :
           {"rows=701 groups=3 n=264 sources=350", "rows=900 groups=9 n=520 sources=1501 load=skewed",
            "rows=1500 groups=24 n=72 sources=33", "rows=1 groups=3 n=136 sources=5"}) {
        for (const char* more : {"k=208", "k=528 dtype=e5m2_e4m3fn out=f32", "k=128 out=f16 offsets=i64"}) {
          add(fmt::format("{} {} gather=1 {}", size, more, scaling));
        }
      }
      add(fmt::format("rows=4000 groups=5 n=1536 k=1088 gather=1 sources=2000 {}", scaling));
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
                         const Layout& layout, std::uint64_t seed, const device::cuda::Stream& stream, bool& ran,
                         int multiprocessors) {
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

}  // namespace ridge::testing
