// Which implementation runs: torch.ops.ridgeline.force and its relatives, behind ridgeline.torch.set_backend and
// explain.
#include "convert.h"
#include "operators.h"
#include "ridge/dispatch.h"

namespace ridge::torch_frontend {
namespace {

template <class T>
T value_of(Result<T> result) {
  if (!result) raise(result.error());
  return std::move(result).value();
}

Stream stream_on(const c10::Device& device) {
  if (device.is_cpu()) return Stream::cpu();
  TORCH_CHECK_VALUE(device.is_cuda(), "ridgeline: no operators on device ", device, "; use cpu or cuda");
  return Stream::cuda(nullptr, device.has_index() ? device.index() : 0);
}

void force(std::string_view op, std::string_view implementation) { check(dispatch::force(op, implementation)); }
void unforce(std::string_view op) { dispatch::unforce(op); }
void reset(bool tables) {
  if (tables) value_of(dispatch::remove_kept_tables());
  dispatch::reset();
}
void autotune(bool on) { dispatch::autotune(on); }

c10::List<std::string> listed(const std::vector<std::string>& names) {
  c10::List<std::string> list;
  for (const std::string& name : names) list.push_back(name);
  return list;
}

c10::List<std::string> operators() { return listed(dispatch::operators()); }
c10::List<std::string> implementations(std::string_view op) { return listed(value_of(dispatch::implementations(op))); }

std::string last_used(std::string_view op) {
  value_of(dispatch::implementations(op));  // an operator that there is not is an error
  return dispatch::last_used(op);
}

std::string explain(std::string_view case_text, c10::Device device) {
  return value_of(dispatch::explain_text(case_text, stream_on(device)));
}

// "version torch-version": what the Python package holds against what it finds.
std::string build_info() { return RIDGE_VERSION " " RIDGE_TORCH_VERSION; }

}  // namespace

void define_control(torch::Library& library) {
  library.def("force(str op, str implementation) -> ()", &force);
  library.def("unforce(str op) -> ()", &unforce);
  library.def("reset(bool tables) -> ()", &reset);
  library.def("last_used(str op) -> str", &last_used);
  library.def("autotune(bool on) -> ()", &autotune);
  library.def("set_sm_budget(int multiprocessors) -> ()", &set_sm_budget);
  library.def("sm_budget() -> int", [] { return static_cast<std::int64_t>(sm_budget()); });
  library.def("operators() -> str[]", &operators);
  library.def("implementations(str op) -> str[]", &implementations);
  library.def("explain(str case, Device device) -> str", &explain);
  library.def("build_info() -> str", &build_info);
}

}  // namespace ridge::torch_frontend
