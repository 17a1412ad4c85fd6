// Packed documents on a processor: their offsets, and the sequences that they make of a batch.
#include "base/error.h"
#include "ops/arguments.h"
#include "ops/attention/attention.h"
#include "ops/row_groups.h"

namespace ridge::ops::attention {

Status check_documents(std::string_view where, std::int64_t documents, std::int64_t batch) {
  if (documents < 0)
    return with_hint(invalid("{}: {} documents", where, documents), "give 0 for a batch that is not packed");
  if (documents == 0 || batch == 1) return ok_status();
  return with_hint(invalid("{}: packed documents in a batch of {}", where, batch),
                   "give documents of one sequence, [1, length, heads, dim]");
}

Status check_offsets(std::string_view op, const TensorView& q_offsets, const TensorView& k_offsets,
                     std::int64_t batch) {
  if (q_offsets.rank == 0 && k_offsets.rank == 0) return ok_status();
  for (const auto& [view, name] : {std::pair{&q_offsets, "q_offsets"}, {&k_offsets, "k_offsets"}}) {
    if (view->rank == 0) {
      return with_hint(invalid("{}: {} is missing", op, name), "give the offsets of queries and of keys, or neither");
    }
    RIDGE_CHECK_OK(check_layout(op, name, *view, 1, "give a contiguous vector"));
    if (view->dtype != DType::kI32) return with_hint(invalid("{}: {} is {}", op, name, view->describe()), "give i32");
  }
  const std::int64_t documents = q_offsets.shape[0] - 1;
  RIDGE_CHECK_OK(check_group_count(op, documents, q_offsets.shape[0]));
  if (k_offsets.shape[0] != q_offsets.shape[0]) {
    return with_hint(invalid("{}: {} q_offsets and {} k_offsets", op, q_offsets.shape[0], k_offsets.shape[0]),
                     "give as many: where each document begins, and where the last one ends");
  }
  return check_documents(op, documents, batch);
}

void add_offsets(Problem& problem) {
  const Shape s = shape_of(problem);
  if (s.documents == 0) return;
  for (const auto& [name, rows] : {std::pair{"q_offsets", s.q_len}, {"k_offsets", s.k_len}}) {
    OperandSpec offsets{name, DType::kI32, {s.documents + 1}};
    offsets.fill = {Fill::Rule::kOffsets, 0, static_cast<double>(rows - rows / 16)};
    problem.operands.push_back(std::move(offsets));
  }
}

Result<Documents> documents_of(const Problem& problem, const Arguments& arguments) {
  const Shape s = shape_of(problem);
  Documents made;
  if (s.documents == 0) return made;
  const auto read = [&](const char* name, std::int64_t rows, std::vector<std::int64_t>& to) {
    to = read_offsets(operand(problem, arguments.operands, name));
    return ops::check_offsets(fmt::format("{}: {}", problem.problem_case.op, name), to, rows);
  };
  RIDGE_CHECK_OK(read("q_offsets", s.q_len, made.q_offsets));
  RIDGE_CHECK_OK(read("k_offsets", s.k_len, made.k_offsets));
  return made;
}

std::vector<Sequence> sequences_of(const Shape& shape, const Documents& documents) {
  std::vector<Sequence> all;
  const auto add = [&](std::int64_t batch, Range queries, Range keys) {
    Sequence one{shape, batch, queries.begin, keys.begin};
    one.shape.q_len = queries.end - queries.begin;
    one.shape.k_len = keys.end - keys.begin;
    if (one.shape.q_len + one.shape.k_len > 0) all.push_back(one);
  };
  if (shape.documents == 0) {
    for (std::int64_t b = 0; b < shape.batch; ++b) add(b, {0, shape.q_len}, {0, shape.k_len});
    return all;
  }
  const std::vector<std::int64_t>&q = documents.q_offsets, &k = documents.k_offsets;
  add(0, {0, q.front()}, {});
  add(0, {}, {0, k.front()});
  for (std::size_t n = 0; n + 1 < q.size(); ++n) add(0, {q[n], q[n + 1]}, {k[n], k[n + 1]});
  add(0, {q.back(), shape.q_len}, {});
  add(0, {}, {k.back(), shape.k_len});
  return all;
}

}  // namespace ridge::ops::attention
