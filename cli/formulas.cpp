#include "cli/commands.hpp"
#include "cli/files.hpp"
#include "cli/terminal.hpp"
#include "core/error.hpp"
#include "core/version.hpp"
#include "dag/longest_path.hpp"
#include "schedules/schedule.hpp"
#include "sim/simulate.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace stagger::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Range {
  std::int64_t first = 0;
  std::int64_t last = 0;
  [[nodiscard]] std::int64_t size() const { return last - first + 1; }
};

/// Reads `4` or `1..16`.
Range parse_range(const char* name, const std::string& text, std::int64_t least) {
  const std::size_t dots = text.find("..");
  const auto number = [&](std::string_view part) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || end != part.data() + part.size() || value < least ||
        value > 1'000'000) {
      throw Error(ErrorKind::usage, fmt::format("--{} '{}' is not a number or a range such as "
                                                "1..16, from {} on",
                                                name, text, least));
    }
    return value;
  };
  const std::string_view all = text;
  if (dots == std::string::npos) return {number(all), number(all)};
  const Range range{number(all.substr(0, dots)), number(all.substr(dots + 2))};
  if (range.last < range.first) {
    throw Error(ErrorKind::usage, fmt::format("--{} '{}' is empty", name, text));
  }
  return range;
}

/// One point of the ranges.
struct Case {
  std::int64_t n_kv = 0;
  std::int64_t n_q = 0;
  std::int64_t heads = 0;
  Ticks compute = 0;
  Ticks reduce = 0;
};

/// What happened to a formula inside or outside its domain.
struct Tally {
  std::int64_t checked = 0;
  std::int64_t holds = 0;
  struct Failure {
    Case at;
    Ticks twice_formula = 0;
    Ticks makespan = 0;
  };
  std::optional<Failure> first_failure;
};

struct FormulaResult {
  const schedules::Schedule* schedule = nullptr;
  const schedules::Formula* formula = nullptr;
  Tally inside;
  Tally outside;
};

/// The makespan by the graph and by the simulator, which must agree.
Ticks makespan_of(const Table& table, const Timing& timing) {
  const Ticks makespan = sim::simulate(table, timing).makespan;
  const auto graph = dag::build(table, timing);
  STAGGER_EXPECTS(graph.has_value());
  const auto times = dag::path_times(*graph);
  STAGGER_EXPECTS(times.has_value() && times->length == makespan);
  return makespan;
}

void check(const schedules::Selection& selection, const Case& at, const Problem& problem,
           FormulaResult& result) {
  Timing timing;
  timing.compute = at.compute;
  timing.reduce = at.reduce;
  Tally& tally = result.formula->in_domain(problem, timing) ? result.inside : result.outside;
  const Ticks makespan = makespan_of(schedules::build(selection, problem), timing);
  const Ticks twice = result.formula->twice_ticks(problem, timing);
  ++tally.checked;
  if (twice == 2 * makespan) {
    ++tally.holds;
  } else if (!tally.first_failure) {
    tally.first_failure = {at, twice, makespan};
  }
}

class Sweep {
 public:
  explicit Sweep(const Options& options)
      : n_(parse_range("n", options.n_range, 1)),
        heads_(parse_range("heads", options.heads_range, 1)),
        compute_(parse_range("compute", options.compute_range, 0)),
        reduce_(parse_range("reduce", options.reduce_range, 0)) {
    constexpr std::int64_t kMostCases = 10'000'000;
    const __int128 cases =
        __int128{n_.size()} * n_.size() * heads_.size() * compute_.size() * reduce_.size();
    if (cases > kMostCases) {
      throw Error(ErrorKind::limit, fmt::format("the ranges make more than {} cases", kMostCases));
    }
  }

  std::vector<FormulaResult> run() {
    std::vector<FormulaResult> results;
    Progress progress("checking formulas");
    for (const schedules::Schedule* schedule : schedules::all()) {
      for (const schedules::Formula& formula : schedule->formulas) {
        results.push_back({.schedule = schedule, .formula = &formula, .inside = {}, .outside = {}});
        sweep(results.back(), progress);
      }
    }
    return results;
  }

 private:
  /// Both of the paper's masks, at every n_kv and n_q; S = n_kv.
  void sweep(FormulaResult& result, Progress& progress) {
    const schedules::Selection selection = schedules::select(result.schedule->name);
    for (std::int64_t n_kv = n_.first; n_kv <= n_.last; ++n_kv) {
      progress.show(static_cast<double>(n_kv - n_.first) / static_cast<double>(n_.size()));
      for (std::int64_t n_q = n_.first; n_q <= n_.last; ++n_q) {
        for (std::int64_t heads = heads_.first; heads <= heads_.last; ++heads) {
          for (const char* mask : {"full", "causal"}) {
            const Problem problem = make_problem(make_mask(mask), {n_q, n_kv}, {}, heads, 0);
            if (!result.formula->shape(problem.grid)) continue;
            if (schedules::why_unsupported(selection, problem)) continue;
            sweep_costs(selection, problem, {n_kv, n_q, heads, 0, 0}, result);
            break;  // 1 x 1 is both
          }
        }
      }
    }
  }

  void sweep_costs(const schedules::Selection& selection, const Problem& problem, Case at,
                   FormulaResult& result) const {
    for (at.compute = compute_.first; at.compute <= compute_.last; ++at.compute) {
      for (at.reduce = reduce_.first; at.reduce <= reduce_.last; ++at.reduce) {
        if (at.compute + at.reduce > 0) check(selection, at, problem, result);
      }
    }
  }

  Range n_;
  Range heads_;
  Range compute_;
  Range reduce_;
};

std::string half(Ticks twice) {
  return fmt::format("{}{}", twice / 2, twice % 2 != 0 ? ".5" : "");
}

std::string describe(const Tally::Failure& failure) {
  return fmt::format("n_kv={} n_q={} m={} c={} r={}: formula {}, makespan {}", failure.at.n_kv,
                     failure.at.n_q, failure.at.heads, failure.at.compute, failure.at.reduce,
                     half(failure.twice_formula), failure.makespan);
}

std::string text_of(const std::vector<FormulaResult>& results) {
  std::string text;
  for (const FormulaResult& result : results) {
    const bool holds = result.inside.holds == result.inside.checked;
    text += fmt::format("{} = {}   ({}; {})\n", result.formula->name, result.formula->text,
                        result.schedule->name, result.formula->source);
    text += fmt::format("  domain: {}\n", result.formula->domain);
    text += fmt::format("  inside: {} of {} cases hold: {}\n", result.inside.holds,
                        result.inside.checked, holds ? "ok" : "FAILS");
    if (!holds) text += "    first: " + describe(*result.inside.first_failure) + "\n";
    if (result.outside.checked > 0) {
      text += fmt::format("  outside: {} of {} cases hold\n", result.outside.holds,
                          result.outside.checked);
    }
    if (result.outside.first_failure) {
      text += "    first that does not: " + describe(*result.outside.first_failure) + "\n";
    }
  }
  return text + "Every makespan is the simulator's and the graph's longest path.\n";
}

Json to_json(const Tally& tally) {
  Json json = {{"checked", tally.checked}, {"holds", tally.holds}, {"first_failure", nullptr}};
  if (tally.first_failure) {
    const auto& [at, twice, makespan] = *tally.first_failure;
    json["first_failure"] = {{"n_kv", at.n_kv},     {"n_q", at.n_q},  {"m", at.heads},
                             {"c", at.compute},     {"r", at.reduce}, {"twice_formula", twice},
                             {"makespan", makespan}};
  }
  return json;
}

Json json_of(const std::vector<FormulaResult>& results) {
  Json rows = Json::array();
  for (const FormulaResult& result : results) {
    rows.push_back({{"name", result.formula->name},
                    {"text", result.formula->text},
                    {"schedule", result.schedule->name},
                    {"source", result.formula->source},
                    {"domain", result.formula->domain},
                    {"holds", result.inside.holds == result.inside.checked},
                    {"inside", to_json(result.inside)},
                    {"outside", to_json(result.outside)}});
  }
  return {{"schema", "stagger.formulas/1"}, {"version", version()}, {"formulas", std::move(rows)}};
}

int run(const Options& options) {
  const std::vector<FormulaResult> results = Sweep(options).run();
  if (options.json) {
    write_stdout(json_of(results).dump(1) + "\n");
  } else {
    const Terminal terminal = terminal_of(options);
    write_text(wrapped(text_of(results), terminal.width, 6), terminal);
  }
  const bool all = std::all_of(results.begin(), results.end(), [](const FormulaResult& result) {
    return result.inside.holds == result.inside.checked;
  });
  return all ? kHolds : kViolated;
}

}  // namespace

extern const Command kFormulas;
const Command kFormulas{
    .name = "formulas",
    .summary = "Every closed form against the graph and the simulator over ranges",
    .examples =
        "  stagger formulas\n"
        "  stagger formulas --n 2..32 --heads 1..6 --compute 5 --reduce 1..5 --json\n",
    .run = run,
};

}  // namespace stagger::cli
