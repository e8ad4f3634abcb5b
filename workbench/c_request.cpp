#include "workbench/c_request.hpp"

#include "core/error.hpp"
#include "core/files.hpp"
#include "core/formats/mask_import.hpp"
#include "core/limits.hpp"
#include "gpu/cuda/device_state.hpp"
#include "workbench/builtin_machines.hpp"
#include "workbench/c_guard.hpp"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

namespace stagger::workbench::c {
namespace {

/// What an argument says: itself, or the content of the file behind an `@`.
std::string content(const char* argument) {
  if (argument[0] != '@') return argument;
  const std::string path = argument + 1;
  std::error_code unknown;
  if (path.empty()) throw Failure(STAGGER_E_USAGE, "no file's path stands behind an @");
  if (std::filesystem::is_directory(path, unknown)) {
    throw Error(ErrorKind::io, path + ": is a directory");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorKind::io, path + ": cannot open");
  std::string text;
  while (file) {  // in parts, since what is no plain file has no size
    constexpr std::size_t kPart = std::size_t{1} << 20;
    const std::size_t had = text.size();
    text.resize(had + kPart);
    file.read(text.data() + had, kPart);
    text.resize(had + static_cast<std::size_t>(file.gcount()));
    if (std::ssize(text) > kMaxFileBytes) {
      throw Error(ErrorKind::limit,
                  path + ": larger than " + std::to_string(kMaxFileBytes >> 20) + " MiB");
    }
  }
  if (file.bad()) throw Error(ErrorKind::io, path + ": cannot read");
  return text;
}

/// A mask from words, JSON, or a file in any format that the command reads.
Mask mask_of(const stagger_problem& problem) {
  const char* const argument = problem.mask;
  if (argument == nullptr) return make_mask("causal");
  const std::string text = content(argument);
  if (argument[0] == '@') {
    return formats::read_mask_file(text, "mask",
                                   {.lengths = {problem.seq_q, problem.seq_kv},
                                    .shape = {.q = problem.tile_q, .kv = problem.tile_kv}})
        .mask;
  }
  return text.starts_with('{') ? read_mask_json(text, "mask") : parse_mask(text);
}

/// A profile from JSON, a file, or a built-in name.
Machine machine_of(const char* argument) {
  const std::string_view said = argument;
  const std::size_t first = said.find_first_not_of(" \t\r\n");
  const bool named = first == std::string_view::npos || (said[first] != '{' && said[0] != '@');
  return named ? builtin_machine(said) : read_machine_json(content(argument), "machine");
}

PlanLaunch launch_of(std::int32_t launch) {
  switch (launch) {
    case STAGGER_LAUNCH_AUTO:
    case STAGGER_LAUNCH_COOPERATIVE:
      return PlanLaunch::cooperative;
    case STAGGER_LAUNCH_ELASTIC:
      return PlanLaunch::elastic;
    default:
      throw Failure(STAGGER_E_USAGE,
                    "launch is " + std::to_string(launch) + "; it is one of STAGGER_LAUNCH_*");
  }
}

/// What is said, else those that a table is for, else those of the device.
std::int32_t sms_of(const stagger_problem& problem, const std::optional<Table>& table) {
  if (problem.sms < 0) throw Failure(STAGGER_E_USAGE, "sms is negative");
  if (problem.sms > 0) return problem.sms;
  if (table) return table->problem.sms;
  const gpu::DeviceState state = gpu::device_state();
  if (state.device < 0) {
    throw Failure(STAGGER_E_NO_DEVICE,
                  "sms is 0, for those of the current device, and " + state.why_not);
  }
  return state.sms;
}

PlanRequest request_of(const stagger_problem& problem) {
  constexpr std::uint32_t kKnown = STAGGER_NO_VERIFY | STAGGER_INVARIANT;
  if ((problem.flags & ~kKnown) != 0)
    throw Failure(STAGGER_E_USAGE, "flags: an unknown one is set");
  if (problem.schedule != nullptr && problem.table != nullptr) {
    throw Failure(STAGGER_E_USAGE, "schedule and table exclude each other");
  }
  std::optional<Table> table;
  if (problem.table != nullptr) table = read_table_json(content(problem.table), "table");
  PlanRequest request{.mask = mask_of(problem),
                      .lengths = {problem.seq_q, problem.seq_kv},
                      .batch = problem.batch,
                      .heads_q = problem.heads_q,
                      .heads_kv = problem.heads_kv,
                      .span = problem.span,
                      .head_dim = problem.head_dim,
                      .dtype = dtype_of(problem.dtype, "dtype"),
                      .sms = sms_of(problem, table),
                      .tile_q = problem.tile_q,
                      .tile_kv = problem.tile_kv,
                      .launch = launch_of(problem.launch),
                      .verify = (problem.flags & STAGGER_NO_VERIFY) == 0,
                      .invariant = (problem.flags & STAGGER_INVARIANT) != 0};
  if (problem.schedule != nullptr) request.schedule = problem.schedule;
  request.table = std::move(table);
  if (problem.machine != nullptr) request.machine = machine_of(problem.machine);
  return request;
}

}  // namespace

gpu::Dtype dtype_of(std::int32_t dtype, const char* name) {
  switch (dtype) {
    case STAGGER_BF16:
      return gpu::Dtype::bf16;
    case STAGGER_FP16:
      return gpu::Dtype::fp16;
    case STAGGER_FP32:
      return gpu::Dtype::fp32;
    default:
      throw Failure(STAGGER_E_USAGE, std::string(name) + " is " + std::to_string(dtype) +
                                         "; it is STAGGER_BF16, STAGGER_FP16 or STAGGER_FP32");
  }
}

BackwardPlan plan_of(const stagger_problem& problem) {
  auto made = plan_backward(request_of(problem));
  if (const auto* broken = std::get_if<BrokenTable>(&made)) {
    throw Failure(broken->verdict == dag::Verdict::deadlock ? STAGGER_E_DEADLOCK : STAGGER_E_INPUT,
                  broken->message);
  }
  if (const auto* few = std::get_if<TooFewCtas>(&made)) {
    throw Failure(STAGGER_E_RESIDENCY, few->message);
  }
  return std::get<BackwardPlan>(std::move(made));
}

}  // namespace stagger::workbench::c
