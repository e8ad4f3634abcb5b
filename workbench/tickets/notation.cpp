#include "workbench/tickets/notation.hpp"

#include "core/error.hpp"
#include "core/nearest.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace stagger::tickets {
namespace {

constexpr std::int32_t kUnnamed = -1;

std::string_view take_line(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return taken;
}

/// Takes a number off the front; nullopt if there is none.
std::optional<std::int32_t> take_number(std::string_view& rest) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc{}) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return value;
}

/// Takes a letter off the front if it is this one.
bool take(std::string_view& rest, char letter) {
  if (!rest.starts_with(letter)) return false;
  rest.remove_prefix(1);
  return true;
}

/// Takes `h1.`, say; the fallback if the front begins with another letter.
std::optional<std::int32_t> take_prefix(std::string_view& rest, char letter,
                                        std::int32_t fallback) {
  if (!take(rest, letter)) return fallback;
  const auto number = take_number(rest);
  if (!number || !take(rest, '.')) return std::nullopt;
  return number;
}

/// A step whose semaphore is kUnnamed where the word names none.
std::optional<Step> step_of(std::string_view word, std::int32_t program_kv) {
  Step step{.semaphore = Semaphore{kUnnamed}, .reduces = !take(word, '(')};
  const auto head = take_prefix(word, 'h', 0);
  const auto kv = take_prefix(word, 'k', program_kv);
  if (!head || !kv || !take(word, 'q')) return std::nullopt;
  const auto q = take_number(word);
  if (!q) return std::nullopt;
  step.task = {Head{*head}, KvTile{*kv}, QTile{*q}};
  step.chain = chain_of(step.task);
  if (take(word, '[')) {
    const auto semaphore = take_number(word);
    if (!semaphore || *semaphore < 0 || !take(word, ']')) return std::nullopt;
    step.semaphore = Semaphore{*semaphore};
  }
  if (take(word, '@')) {
    const auto wait = take_number(word);
    if (!wait) return std::nullopt;
    step.wait = *wait;
  } else {
    step.reduces = false;
  }
  if (take(word, '+')) step.add = take_number(word).value_or(1);
  if (take(word, '!')) step.reduces = true;
  take(word, ')');
  return word.empty() && step.add >= 0 ? std::optional(step) : std::nullopt;
}

std::int32_t q_tiles_of(const Tickets& tickets) {
  std::int32_t q_tiles = 1;
  for (const Step& step : tickets.steps)
    q_tiles = std::max(q_tiles, step.task.q.value + 1);
  return q_tiles;
}

/// Gives steps without a named semaphore that of their (head, q).
void name_semaphores(Tickets& tickets) {
  const std::int32_t q_tiles = q_tiles_of(tickets);
  std::int32_t semaphores = 0;
  for (Step& step : tickets.steps) {
    if (step.semaphore.value == kUnnamed) {
      step.semaphore.value = step.task.head.value * q_tiles + step.task.q.value;
    }
    semaphores = std::max(semaphores, step.semaphore.value + 1);
  }
  tickets.initial.assign(semaphores, 0);
}

std::string step_text(const Step& step, KvTile program_kv, std::int32_t q_tiles) {
  std::string text = step.waits() && !step.reduces ? "(" : "";
  if (step.task.head.value != 0) text += "h" + std::to_string(step.task.head.value) + ".";
  if (step.task.kv != program_kv) text += "k" + std::to_string(step.task.kv.value) + ".";
  text += "q" + std::to_string(step.task.q.value);
  if (step.semaphore.value != std::int64_t{step.task.head.value} * q_tiles + step.task.q.value) {
    text += "[" + std::to_string(step.semaphore.value) + "]";
  }
  if (step.waits()) text += "@" + std::to_string(step.wait);
  if (step.add != 1 || !step.waits()) text += "+" + std::to_string(step.add);
  if (!step.waits() && step.add == 1) text.pop_back();
  if (!step.waits() && step.reduces) text += "!";
  return step.waits() && !step.reduces ? text + ")" : text;
}

}  // namespace

Tickets read_notation(std::string_view text) {
  Tickets tickets;
  for (int line = 1; !text.empty(); ++line) {
    std::string_view row = take_line(text, '\n');
    const auto reject = [&](std::string_view word) {
      throw Error(ErrorKind::invalid_input, "line " + std::to_string(line) + ": " +
                                                in_quotes(word) +
                                                " is no step like q0@1, (q0@1), q0@1+2 or q0+");
    };
    if (row.find_first_not_of(' ') == std::string_view::npos) continue;
    std::string_view label = take_line(row, ':');
    const std::string_view whole = label;
    const auto kv = take(label, 'P') ? take_number(label) : std::nullopt;
    if (!kv || !label.empty()) reject(whole);
    while (!row.empty()) {
      const std::string_view word = take_line(row, ' ');
      if (word.empty()) continue;
      const std::optional<Step> step = step_of(word, *kv);
      if (!step) reject(word);
      tickets.steps.push_back(*step);
    }
    tickets.end_program();
  }
  name_semaphores(tickets);
  return tickets;
}

std::string notation(const Tickets& tickets, const Step& step, KvTile program_kv) {
  return step_text(step, program_kv, q_tiles_of(tickets));
}

std::string notation(const Tickets& tickets, std::int32_t most_programs, std::int64_t most_steps) {
  const std::int32_t q_tiles = q_tiles_of(tickets);
  std::string text;
  for (Program program{0}; program.value < std::min(tickets.programs(), most_programs); ++program) {
    const std::span<const Step> steps = tickets.program(program);
    const KvTile kv = steps.empty() ? KvTile{program.value} : steps.front().task.kv;
    text += "P" + std::to_string(kv.value) + ":";
    const std::int64_t shown = std::min<std::int64_t>(std::ssize(steps), most_steps);
    for (const Step& step : steps.first(at(shown)))
      text += " " + step_text(step, kv, q_tiles);
    if (shown < std::ssize(steps)) {
      text += " … " + std::to_string(std::ssize(steps) - shown) + " more";
    }
    text += "\n";
  }
  if (most_programs < tickets.programs()) {
    text += "… " + std::to_string(tickets.programs() - most_programs) + " more\n";
  }
  return text;
}

}  // namespace stagger::tickets
