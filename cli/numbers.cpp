#include "cli/numbers.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <array>

namespace stagger::cli {
namespace {

using workbench::Analysis;

/// A number of the report.
struct Number {
  ExpectName name;
  Exact (*value)(const Analysis&);
};

Exact gap(const Analysis& analysis) {
  const Ticks bound = analysis.bounds.best.ticks;
  return exact(analysis.makespan - bound, std::max<Ticks>(bound, 1));
}

constexpr std::array kNumbers = {
    Number{{"makespan", "from the first task's start to the last one's end"},
           [](const Analysis& given) { return exact(given.makespan); }},
    Number{{"lower_bound", "that no table of the problem, its span and its dispatch is below"},
           [](const Analysis& given) { return exact(given.bounds.best.ticks); }},
    Number{{"gap", "makespan / lower_bound - 1"}, gap},
    Number{{"optimal", "1 if the makespan is that lower bound, else 0"},
           [](const Analysis& given) { return exact(given.optimal.value_or(false) ? 1 : 0); }},
    Number{{"bubble", "ticks of SMs that neither compute nor reduce"},
           [](const Analysis& given) { return exact(given.bubbles.total()); }},
    Number{{"violations", "dependency edges that decrease the depth"},
           [](const Analysis& given) { return exact(given.lemma1.violation_count); }},
    Number{
        {"co_residency", "CTAs that must be resident at once"},
        [](const Analysis& given) { return exact(given.verification.liveness.residency_needed); }},
    Number{{"tasks", "live tiles of all heads"},
           [](const Analysis& given) { return exact(given.table.problem.tasks()); }},
    Number{{"m", "heads"}, [](const Analysis& given) { return exact(given.table.problem.heads); }},
    Number{{"n", "KV tiles"},
           [](const Analysis& given) { return exact(given.table.problem.kv_tiles()); }},
    Number{{"n_kv", "KV tiles"},
           [](const Analysis& given) { return exact(given.table.problem.kv_tiles()); }},
    Number{{"n_q", "Q tiles"},
           [](const Analysis& given) { return exact(given.table.problem.q_tiles()); }},
    Number{{"s", "SMs"}, [](const Analysis& given) { return exact(given.table.problem.sms); }},
    Number{{"c", "compute"},
           [](const Analysis& given) { return exact(given.model.timing.compute); }},
    Number{{"r", "reduce"}, [](const Analysis& given) { return exact(given.model.timing.reduce); }},
};

}  // namespace

std::vector<ExpectName> number_names() {
  std::vector<ExpectName> names;
  names.reserve(std::size(kNumbers));
  for (const Number& number : kNumbers)
    names.push_back(number.name);
  return names;
}

Values numbers_of(const Analysis& analysis) {
  STAGGER_EXPECTS(analysis.ok());
  Values values;
  for (const Number& number : kNumbers)
    values.emplace(number.name.name, number.value(analysis));
  return values;
}

}  // namespace stagger::cli
