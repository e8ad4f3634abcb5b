#pragma once

#include "gpu/check/program.hpp"
#include "schedules/schedule.hpp"
#include "workbench/designs/plan.hpp"
#include "workbench/time_model.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stagger::designs {

/// What a design is asked to do.
struct Request {
  Problem problem;
  workbench::TimeModel model = {};
  std::int64_t head_dim = 64;
  std::int64_t element_bytes = 4;                               ///< of inputs and gradients
  schedules::Parameters parameters = {};                        ///< the design's
  std::optional<schedules::Selection> schedule = std::nullopt;  ///< absent: the design's choice
};

/// How heads' dK and dV come together in a design that runs by free lanes.
using gpu::HeadSums;

/// A way to sum dQ, dK and dV without atomics: a row each, in a file of its own.
struct Design {
  const char* name;
  const char* summary;
  const char* who;              ///< whose kernels are of it
  bool plays_schedule = false;  ///< it plays a schedule's table, perhaps of another problem
  bool needs_schedule = false;  ///< and chooses none itself
  bool is_table = false;        ///< its lanes are a table of the problem, which can be verified
  bool runs = false;            ///< `run` executes it
  bool by_memory = false;       ///< without a rate of device memory its time is a bound alone
  HeadSums head_sums = HeadSums::none;  ///< where heads share K and V
  std::span<const schedules::Parameter> parameters = {};
  /// Why the design does not apply; nullptr: it applies to every problem.
  std::optional<std::string> (*unsupported)(const Request&) = nullptr;
  /// Requires a problem that it applies to. Throws Error{limit} if numbers are too large.
  Plan (*plan)(const Request&) = nullptr;
};

/// Every design, in the order in which they are printed.
[[nodiscard]] std::span<const Design* const> all();

/// A design with its parameters.
struct Selection {
  const Design* design = nullptr;
  schedules::Parameters parameters;
  std::string text;  ///< as it was given
};

/// Reads `name` or `name:key=value,key=value`. Throws Error{usage}, naming what is known.
[[nodiscard]] Selection select(std::string_view text);

/// Why a design does not apply to what is asked; nullopt if it does.
[[nodiscard]] std::optional<std::string> why_unsupported(const Selection& selection,
                                                         const Request& request);

/// What a design does of a problem. `request.parameters` are the selection's. Throws
/// Error{unsupported} with the reason if it does not apply, Error{limit} if numbers are too large.
[[nodiscard]] Plan plan(const Selection& selection, Request request);

}  // namespace stagger::designs
