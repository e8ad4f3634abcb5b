#include "cli/commands.hpp"
#include "cli/drawing.hpp"
#include "cli/files.hpp"
#include "cli/report/duration.hpp"
#include "cli/report/json.hpp"
#include "cli/report/text.hpp"
#include "cli/requests.hpp"
#include "core/error.hpp"
#include "core/version.hpp"
#include "sim/gantt_text.hpp"
#include "workbench/analysis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <variant>
#include <vector>

namespace stagger::cli {
namespace {

using workbench::Analysis;
using workbench::Clock;
using workbench::FormulaCheck;
using workbench::Source;
using workbench::TimeModel;

/// A schedule that does not apply.
struct Unsupported {
  std::string schedule;
  std::string reason;
};
using Row = std::variant<Analysis, Unsupported>;

/// What is left of an analysis once it is a row: arrays by slot are only kept for the best.
void slim(Analysis& analysis) {
  analysis.table.slots = {};
  analysis.table.lane_begin = {0};
  analysis.simulation->reduce_start = {};
  analysis.simulation->lanes = {};
  analysis.critical_path.steps = {};
}

class Comparison {
 public:
  Comparison(const Options& options, const Problem& problem)
      : options_(options), problem_(problem), model_(time_model_of(options, problem)) {}

  void add_all() {
    Progress progress("comparing schedules");
    double done = 0;
    for (const schedules::Schedule* schedule : schedules::all()) {
      progress.show(done++ / static_cast<double>(schedules::all().size()));
      schedules::Selection selection = schedules::select(schedule->name);
      if (const auto reason = schedules::why_unsupported(selection, problem_)) {
        rows_.emplace_back(Unsupported{schedule->name, *reason});
        continue;
      }
      Table table = schedules::build(selection, problem_, model_.timing);
      if (options_.ranks == dag::LockValues::absolute) use_kv_index_ranks(table);
      add({std::move(table), model_, std::move(selection)});
    }
  }

  void add(Table table) { add({std::move(table), model_, std::nullopt}); }

  void add(Source source) {
    Analysis analysis = workbench::analyze(std::move(source), analysis_options(options_));
    if (analysis.ok()) {
      const Ticks makespan = analysis.makespan();
      if (!best_ || makespan < best_->makespan()) best_ = analysis;
      slim(analysis);
    }
    rows_.emplace_back(std::move(analysis));
  }

  /// A schedule that another one beats is not optimal.
  void refute_optimality() {
    for (Row& row : rows_) {
      auto* analysis = std::get_if<Analysis>(&row);
      if (analysis == nullptr || !analysis->ok() || analysis->optimal) continue;
      if (best_->makespan() < analysis->makespan()) analysis->optimal = false;
    }
  }

  [[nodiscard]] std::string json() const {
    std::string text = fmt::format(
        "{{\"schema\": \"stagger.compare/1\", \"version\": \"{}\",\n\"problem\": {},\n\"model\": "
        "{},\n\"best\": {},\n\"rows\": [",
        version(), cli::problem_json(problem_), model_json(problem_, model_),
        best_ ? fmt::format("\"{}\"", best_->table.name) : "null");
    const char* separator = "\n";
    for (const Row& row : rows_) {
      text += separator;
      separator = ",\n";
      if (const auto* analysis = std::get_if<Analysis>(&row)) {
        text += report_json(*analysis, false);
      } else {
        const auto& [schedule, reason] = std::get<Unsupported>(row);
        text += unsupported_json(schedule, reason);
      }
    }
    return text + "]}\n";
  }

  [[nodiscard]] std::string text(const Terminal& terminal) const {
    std::vector<Cells> lines = {
        {"schedule", "makespan", "bound", "gap", "why", "bubbles", "Lemma 1", "formula"}};
    for (const Row& row : rows_) {
      const auto* analysis = std::get_if<Analysis>(&row);
      if (analysis != nullptr && analysis->ok()) lines.push_back(cells(*analysis));
    }
    std::string text = problem_line(problem_) + "\n" + model_line(model_) + "\n";
    if (model_.clock == Clock::ns) text += machine_line(model_) + "\n";
    text = wrapped(text, terminal.width, 6);
    text += "\n";
    Widths widths = widths_of(lines);
    for (const schedules::Schedule* schedule : schedules::all())
      widths[0] = std::max(widths[0], std::string_view(schedule->name).size());
    text += line_of(lines.front(), widths);
    std::size_t next = 1;
    for (const Row& row : rows_) {
      const auto* analysis = std::get_if<Analysis>(&row);
      if (analysis != nullptr && analysis->ok()) {
        const bool best = analysis->makespan() == best_->makespan();
        const std::string line = line_of(lines[next++], widths);
        text += best && terminal.color ? "\033[1m" + line.substr(0, line.size() - 1) + "\033[0m\n"
                                       : line;
      } else if (analysis != nullptr) {
        text += fmt::format("{:<{}} {}\n", analysis->table.name, widths[0], failure(*analysis));
      } else {
        const auto& [schedule, reason] = std::get<Unsupported>(row);
        text += fmt::format("{:<{}} {}\n", schedule, widths[0], reason);
      }
    }
    return text + legend() + drawing(terminal);
  }

  [[nodiscard]] int exit_code() const {
    int code = kHolds;
    for (const Row& row : rows_) {
      const auto* analysis = std::get_if<Analysis>(&row);
      if (analysis == nullptr) continue;
      if (analysis->verification.verdict == dag::Verdict::deadlock) return kDeadlock;
      const bool formula = !analysis->formula || analysis->formula->holds;
      if (!analysis->ok() || !formula) code = kViolated;
    }
    return code;
  }

 private:
  static constexpr std::size_t kColumns = 8;
  using Cells = std::array<std::string, kColumns>;
  using Widths = std::array<std::size_t, kColumns>;

  /// Columns as narrow as what is in them, so that a line fits a terminal of 80.
  [[nodiscard]] static Widths widths_of(const std::vector<Cells>& lines) {
    Widths widths{};
    for (const Cells& cells : lines) {
      for (std::size_t column = 0; column < kColumns; ++column)
        widths[column] = std::max(widths[column], cells[column].size());
    }
    return widths;
  }

  [[nodiscard]] static std::string line_of(const Cells& cells, const Widths& widths) {
    constexpr std::array kLeft = {true, false, false, false, true, false, false, true};
    std::string line;
    for (std::size_t column = 0; column < kColumns; ++column) {
      line += fmt::format(fmt::runtime(kLeft[column] ? "{:<{}} " : "{:>{}} "), cells[column],
                          widths[column]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
  }

  [[nodiscard]] Cells cells(const Analysis& analysis) const {
    const Ticks bound = analysis.bounds.best.ticks;
    const Ticks makespan = analysis.makespan();
    const Ticks all = std::max<Ticks>(analysis.bubbles.total() + analysis.bubbles.busy, 1);
    return {analysis.table.name,
            short_duration(makespan, model_.clock),
            short_duration(bound, model_.clock),
            analysis.optimal.value_or(false) ? "optimal"
                                             : percent(makespan - bound, std::max<Ticks>(bound, 1)),
            why(analysis),
            percent(analysis.bubbles.total(), all),
            lemma1(analysis.lemma1),
            formula(analysis.formula)};
  }

  [[nodiscard]] static std::string failure(const Analysis& analysis) {
    const dag::Verification& verification = analysis.verification;
    const auto& liveness = verification.liveness;
    std::string text = dag::verdict_name(verification.verdict);
    if (liveness && liveness->residency_needed > liveness->residency_available) {
      return text + fmt::format(": needs {} CTAs resident, there are {}",
                                liveness->residency_needed, liveness->residency_available);
    }
    return verification.findings.empty() ? text
                                         : text + ": " + verification.findings.back().message;
  }

  /// What most of the gap is due to, on the SM that ends last.
  [[nodiscard]] static const char* why(const Analysis& analysis) {
    const sim::LastSm& last = analysis.bubbles.last;
    const Ticks packing = last.busy - analysis.bounds.best.ticks;
    if (analysis.makespan() == analysis.bounds.best.ticks) return "";
    const Ticks memory = analysis.makespan() - analysis.simulation->makespan;
    if (memory > std::max({packing, last.order, last.startup})) return "memory";
    if (packing >= std::max(last.order, last.startup)) return "packing";
    return last.order >= last.startup ? "contention" : "startup";
  }

  [[nodiscard]] static std::string lemma1(const dag::Lemma1& lemma) {
    if (!lemma.premise) return "-";
    return lemma.monotone ? "holds" : fmt::format("{} viol.", lemma.violation_count);
  }

  [[nodiscard]] static std::string formula(const std::optional<FormulaCheck>& check) {
    if (!check) return "";
    return check->holds ? check->formula->name
                        : fmt::format("{} FAILS: {}", check->formula->name, check->ticks);
  }

  [[nodiscard]] std::string legend() const {
    std::string text = "\n";
    if (best_) {
      text += fmt::format("bound: {} ({}); optimal: reached\n", best_->bounds.best.by,
                          best_->bounds.best.why);
    }
    return text +
           "why: most of the gap on the SM that ends last: its load (packing), waits for a\n"
           "  turn (contention), waits before its first reduction (startup), the\n"
           "  L2 cache and device memory (memory)\n"
           "Lemma 1: depth-monotone dependency edges, or how many violate it (-: chains\n"
           "  are not isomorphic)\n"
           "formula: named where the schedule claims one for this case and it holds\n";
  }

  [[nodiscard]] std::string drawing(const Terminal& terminal) const {
    constexpr std::int64_t kDrawn = 200'000;
    if (!best_ || problem_.tasks() == 0 || problem_.tasks() > kDrawn) return "";
    return "\nbest: " + best_->table.name + "\n" +
           sim::gantt_text(timeline_of(*best_), {.width = terminal.width,
                                                 .unicode = terminal.unicode,
                                                 .color = terminal.color,
                                                 .max_rows = 16});
  }

  const Options& options_;
  const Problem& problem_;
  TimeModel model_;
  std::vector<Row> rows_;
  std::optional<Analysis> best_;
};

bool is_same(const Problem& left, const Problem& right) {
  return left.grid == right.grid && left.heads == right.heads && left.sms == right.sms;
}

int run(const Options& options) {
  std::vector<Table> own;
  for (const std::string& path : options.tables)
    own.push_back(read_table(path, options));
  const bool described = options.problem_given || own.empty();
  const Problem problem = described ? problem_of(options) : own.front().problem;
  for (std::size_t index = 0; index < own.size(); ++index) {
    if (is_same(own[index].problem, problem)) continue;
    throw Error(ErrorKind::usage, options.tables[index] + ": its problem is another than " +
                                      (described ? "the options'" : "that of the first table"));
  }
  Comparison comparison(options, problem);
  comparison.add_all();
  for (Table& table : own)
    comparison.add(std::move(table));
  comparison.refute_optimality();
  if (options.json) {
    write_stdout(comparison.json());
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(comparison.text(terminal), terminal);
  }
  return comparison.exit_code();
}

}  // namespace

extern const Command kCompare;
const Command kCompare{
    .name = "compare",
    .summary = "Every schedule on one problem: the main job",
    .examples =
        "  stagger compare --mask causal --n 8 --heads 4\n"
        "  stagger compare --mask full --seq 16384 --tile-q 128 --tile-kv 128 \\\n"
        "      --heads 16 --sms 132 --model overlap --latency 2\n"
        "  stagger compare --table mine.table.json\n",
    .run = run,
};

}  // namespace stagger::cli
