#include "core/error.hpp"
#include "core/limits.hpp"
#include "workbench/tickets/files.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace stagger::tickets {
namespace {

constexpr const char* kSchema = "stagger.tickets/1";
constexpr std::size_t kNumbers = 7;  ///< of a step

Step read_step(const JsonValue& step, std::int64_t semaphores) {
  if (step.size() != kNumbers) {
    step.reject("a step is [sem, wait, add, reduce, head, kv, q]: 7 numbers, not " +
                std::to_string(step.size()));
  }
  const auto number = [&](std::size_t index, std::int64_t least, std::int64_t most) {
    return static_cast<std::int32_t>(step.item(index).integer(least, most));
  };
  Step read;
  read.semaphore = Semaphore{number(0, 0, semaphores - 1)};
  if (const JsonValue wait = step.item(1); wait.is_integer()) {
    read.wait = number(1, -kAnyIndex, kAnyIndex);
  } else if (!wait.is_null()) {
    wait.reject("must be an integer, or null for no wait");
  }
  read.add = number(2, 0, kAnyIndex);
  read.reduces = number(3, 0, 1) == 1;
  read.task = {Head{number(4, 0, kMaxHeads)}, KvTile{number(5, 0, kMaxTiles)},
               QTile{number(6, -1, kMaxTiles)}};
  read.chain = chain_of(read.task);
  return read;
}

/// One number for all semaphores, or one for each.
void read_initial(const JsonValue& initial, Tickets& tickets) {
  if (initial.is_integer()) {
    std::fill(tickets.initial.begin(), tickets.initial.end(),
              initial.integer(-kAnyIndex, kAnyIndex));
    return;
  }
  if (std::ssize(tickets.initial) != static_cast<std::ptrdiff_t>(initial.size())) {
    initial.reject("must be one number, or one for each of the " +
                   std::to_string(tickets.semaphores()) + " semaphores, not " +
                   std::to_string(initial.size()));
  }
  for (std::size_t index = 0; index < initial.size(); ++index)
    tickets.initial[Semaphore{static_cast<std::int32_t>(index)}] =
        initial.item(index).integer(-kAnyIndex, kAnyIndex);
}

}  // namespace

Tickets read_tickets(const JsonValue& root) {
  root.expect_schema(kSchema);
  root.expect_keys(
      {"schema", "name", "dispatch", "residency", "release", "initial", "semaphores", "programs"});
  Tickets tickets;
  if (root.has("name")) tickets.name = root.at("name").string();
  if (root.has("dispatch")) {
    tickets.dispatch = static_cast<Dispatch>(root.at("dispatch").word("dispatch", kDispatchNames));
  }
  if (root.has("release")) {
    tickets.release = static_cast<Release>(root.at("release").word("release", kReleaseNames));
  }
  if (root.has("residency")) {
    tickets.residency = static_cast<std::int32_t>(root.at("residency").integer(1, kMaxPrograms));
  }
  const std::int64_t semaphores = root.at("semaphores").integer(0, kMaxSemaphores);
  tickets.initial.assign(semaphores, 0);
  if (root.has("initial")) read_initial(root.at("initial"), tickets);
  const JsonValue programs = root.at("programs");
  for (std::size_t program = 0; program < programs.size(); ++program) {
    const JsonValue steps = programs.item(program);
    for (std::size_t step = 0; step < steps.size(); ++step)
      tickets.steps.push_back(read_step(steps.item(step), semaphores));
    tickets.end_program();
  }
  return tickets;
}

std::string write_tickets_json(const Tickets& tickets) {
  std::string text = std::string("{\"schema\": \"") + kSchema +
                     "\", \"name\": " + json_quote(tickets.name) + ", \"dispatch\": \"" +
                     dispatch_name(tickets.dispatch) + "\"";
  if (tickets.residency > 0) text += ", \"residency\": " + std::to_string(tickets.residency);
  text += std::string(", \"release\": \"") + release_name(tickets.release) + "\", \"initial\": ";
  const bool same = std::adjacent_find(tickets.initial.begin(), tickets.initial.end(),
                                       std::not_equal_to<>()) == tickets.initial.end();
  if (same) {
    text += std::to_string(tickets.initial.empty() ? 0 : tickets.initial.front());
  } else {
    const char* separator = "[";
    for (const std::int64_t value : tickets.initial) {
      text += separator + std::to_string(value);
      separator = ",";
    }
    text += "]";
  }
  text += ",\n \"semaphores\": " + std::to_string(tickets.semaphores()) + ", \"programs\": [";
  for (Program program{0}; program.value < tickets.programs(); ++program) {
    text += program.value == 0 ? "\n  [" : ",\n  [";
    const char* separator = "[";
    for (const Step& step : tickets.program(program)) {
      text += separator + std::to_string(step.semaphore.value) + "," +
              (step.waits() ? std::to_string(step.wait) : "null") + "," + std::to_string(step.add) +
              (step.reduces ? ",1," : ",0,") + std::to_string(step.task.head.value) + "," +
              std::to_string(step.task.kv.value) + "," + std::to_string(step.task.q.value) + "]";
      separator = ",[";
    }
    text += "]";
  }
  return text + "]}\n";
}

}  // namespace stagger::tickets
