#include "planned_failures.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "explain.hpp"

namespace verbena::provider {
namespace {

constexpr std::array<std::pair<std::string_view, int>, 22> kErrors{{
    {"EACCES", EACCES},     {"EAGAIN", EAGAIN},
    {"EBADF", EBADF},       {"EBUSY", EBUSY},
    {"EEXIST", EEXIST},     {"EFAULT", EFAULT},
    {"EINTR", EINTR},       {"EINVAL", EINVAL},
    {"EIO", EIO},           {"EMFILE", EMFILE},
    {"EMSGSIZE", EMSGSIZE}, {"ENFILE", ENFILE},
    {"ENODEV", ENODEV},     {"ENOENT", ENOENT},
    {"ENOMEM", ENOMEM},     {"ENOSPC", ENOSPC},
    {"ENOSYS", ENOSYS},     {"EOPNOTSUPP", EOPNOTSUPP},
    {"EPERM", EPERM},       {"EPROTONOSUPPORT", EPROTONOSUPPORT},
    {"ERANGE", ERANGE},     {"ETIMEDOUT", ETIMEDOUT},
}};

// What is asked of one verb.
struct Plan {
  const char* verb = "";
  std::string_view error_name;
  int error = 0;
  std::uint64_t first = 1;
  std::uint64_t last = ~std::uint64_t{0};
  std::atomic<std::uint64_t> calls{0};

  int next() noexcept {
    const std::uint64_t call = calls.fetch_add(1, std::memory_order_relaxed) + 1;
    if (call < first || call > last) return 0;
    return refusal(error, "%s: call %llu of this process fails with %.*s, as VERBENA_FAIL asks",
                   verb, static_cast<unsigned long long>(call), static_cast<int>(error_name.size()),
                   error_name.data());
  }
};

// What verbs that post say more than an errno: which request it was.
void name_culprit(...) noexcept {}
template <typename Object, typename Request>
void name_culprit(Object*, Request* request, Request** bad) noexcept {
  *bad = request;
}

template <auto Member, typename F>
struct Failing;
template <auto Member, typename Result, typename... Arguments>
struct Failing<Member, Result (*)(Arguments...) noexcept> {
  static inline Plan plan;
  static inline Result (*original)(Arguments...) noexcept = nullptr;

  // By the conventions of guard.hpp.
  static Result call(Arguments... arguments) noexcept {
    if (const int error = plan.next(); error != 0) {
      name_culprit(arguments...);
      if constexpr (std::is_pointer_v<Result>) {
        errno = error;
        return nullptr;
      } else {
        constexpr bool counts = (std::is_same_v<Arguments, ibv_wc*> || ...);
        return counts ? -error : error;
      }
    }
    return original(arguments...);
  }
};

[[noreturn]] void complain(std::string_view item, const std::string& what) {
  throw std::invalid_argument("VERBENA_FAIL: " + std::string(item) + ": " + what);
}

template <auto Member>
void put_before(abi::Ops& ops, const char* verb, const Plan& wanted) {
  using F = std::remove_reference_t<decltype(ops.*Member)>;
  using Wrapped = Failing<Member, F>;
  Plan& plan = Wrapped::plan;
  plan.verb = verb;
  plan.error_name = wanted.error_name;
  plan.error = wanted.error;
  plan.first = wanted.first;
  plan.last = wanted.last;
  if (ops.*Member == &Wrapped::call) return;
  Wrapped::original = ops.*Member;
  ops.*Member = &Wrapped::call;
}

// Whether an answer of this verb can be an errno. Of those that are never offered none can.
template <typename Result>
constexpr bool can_fail(std::string_view name) {
  if (name == "query_qp_data_in_order") return false;
  return std::is_pointer_v<Result> || std::is_same_v<Result, int>;
}

bool plan_for(abi::Ops& ops, std::string_view verb, const Plan& wanted) {
#define VERBENA_PLAN(name, result, arguments, since, until)                \
  if constexpr (can_fail<result>(#name)) {                                 \
    if (verb == "ibv_" #name && ops.name != nullptr) {                     \
      return put_before<&abi::Ops::name>(ops, "ibv_" #name, wanted), true; \
    }                                                                      \
  }
  VERBENA_VERBS_OPS(VERBENA_PLAN)
#undef VERBENA_PLAN
  return false;
}

std::string names_of_errors() {
  std::string names;
  for (const auto& [name, value] : kErrors) names += (names.empty() ? "" : " ") + std::string(name);
  return names;
}

std::uint64_t number_in(std::string_view item, std::string_view digits) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number == 0) {
    complain(item, "behind the @ belongs the number of a call, the first is 1");
  }
  return number;
}

void read_item(abi::Ops& ops, std::string_view item) {
  const std::size_t equals = item.find('=');
  if (equals == item.npos) complain(item, "write VERB=ERROR, as ibv_reg_mr=ENOMEM");
  const std::string_view verb = item.substr(0, equals);
  std::string_view error = item.substr(equals + 1);
  Plan plan;
  if (const std::size_t at = error.find('@'); at != error.npos) {
    std::string_view call = error.substr(at + 1);
    error = error.substr(0, at);
    const bool onwards = call.ends_with('+');
    if (onwards) call.remove_suffix(1);
    plan.first = number_in(item, call);
    if (!onwards) plan.last = plan.first;
  }
  for (const auto& [name, value] : kErrors) {
    if (name != error) continue;
    plan.error_name = name;
    plan.error = value;
  }
  if (plan.error == 0) complain(item, "the error is none of " + names_of_errors());
  if (!plan_for(ops, verb, plan)) {
    complain(item,
             "no verb of that name that can fail; it is the name of libibverbs' function, as "
             "ibv_create_qp, or of its newer form, as ibv_create_qp_ex");
  }
}

}  // namespace

void plan_failures(abi::Ops& ops, const char* list) {
  std::string_view rest = list;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    if (comma != 0) read_item(ops, rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
}

}  // namespace verbena::provider
