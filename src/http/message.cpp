#include "http/message.h"

#include <fmt/format.h>

#include "http/url.h"

namespace ridge::http {
namespace {

template <class Values>
const std::string& value_or_empty(const Values& values, const std::string& name) {
  static const std::string empty;
  const auto found = values.find(name);
  return found == values.end() ? empty : found->second;
}

}  // namespace

const std::string& Request::header(const std::string& lower_case_name) const {
  return value_or_empty(headers, lower_case_name);
}
const std::string& Request::parameter(const std::string& name) const { return value_or_empty(query, name); }

std::vector<std::string> Request::parameters(const std::string& name) const {
  std::vector<std::string> values;
  for (auto [at, end] = query.equal_range(name); at != end; ++at) values.push_back(at->second);
  return values;
}

Response text_response(int status, std::string_view text) {
  Response response;
  response.status = status;
  response.body = fmt::format("{}\n", text);
  return response;
}

Response json_response(std::string body, int status) {
  Response response;
  response.status = status;
  response.type = "application/json";
  response.body = std::move(body);
  return response;
}

Response see_other(std::string_view path) {
  // One slash at the start: two would name another server.
  while (path.starts_with("//")) path.remove_prefix(1);
  Response response = text_response(303, "see the address in Location");
  response.headers["Location"] = encoded_path(path);
  return response;
}

}  // namespace ridge::http
