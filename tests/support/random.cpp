#include "tests/support/random.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <numeric>

namespace stagger::test {
namespace {

std::vector<std::string> random_rows(Random& random, std::int64_t most) {
  const std::int64_t q_tiles = random.between(1, most);
  std::vector<std::string> rows(at(random.between(1, most)));
  for (std::string& row : rows) {
    for (std::int64_t q = 0; q < q_tiles; ++q)
      row += ".fp"[random.between(0, 2)];
  }
  return rows;
}

using Counts = std::vector<std::int32_t>;

/// The lanes with their chains in random order, ranks not yet given.
Table deal_chains(Random& random, const Problem& problem, Dispatch dispatch) {
  Table table;
  table.name = "random";
  table.problem = problem;
  table.dispatch = dispatch;
  std::vector<std::vector<Slot>> chains;
  for (std::int32_t first = 0; first < problem.heads; first += problem.span) {
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      std::vector<Slot> chain;
      for (Head head{first}; head.value < first + problem.span; ++head) {
        for (const QTile q : problem.grid_of(head).live_q(kv))
          chain.push_back({{head, kv, q}, 0});
      }
      random.shuffle(chain);
      if (!chain.empty()) chains.push_back(chain);
    }
  }
  random.shuffle(chains);
  const std::int64_t lanes =
      dispatch == Dispatch::static_ ? problem.sms : random.between(1, std::ssize(chains) + 1);
  std::vector<std::vector<Slot>> dealt(at(lanes));
  for (const auto& chain : chains) {
    auto& lane = dealt[at(random.between(0, lanes - 1))];
    lane.insert(lane.end(), chain.begin(), chain.end());
  }
  for (const auto& lane : dealt) {
    table.slots.insert(table.slots.end(), lane.begin(), lane.end());
    table.end_lane();
  }
  return table;
}

std::size_t lock_of(const Problem& problem, const Task& task) {
  return at(std::int64_t{task.head.value} * problem.q_tiles() + task.q.value);
}

}  // namespace

std::uint32_t seed(std::uint32_t own) {
  const char* turned = std::getenv("STAGGER_TEST_SEED");
  if (turned == nullptr) return own;
  std::cout << "STAGGER_TEST_SEED=" << turned << "\n";
  return own + 1'000U * static_cast<std::uint32_t>(std::strtoul(turned, nullptr, 10));
}

Table drawn_table(Random& random, std::int64_t most, const std::function<bool()>& live,
                  std::int32_t most_of_group) {
  Problem problem = random_problem(random, most);
  if (random.chance(2)) problem = with_random_groups(random, std::move(problem), most_of_group);
  const Dispatch dispatch = random.chance(2) ? Dispatch::static_ : Dispatch::in_order;
  return live() ? random_live_table(random, problem, dispatch)
                : random_table(random, problem, dispatch);
}

void perhaps_shuffle_dkv_ranks(Random& random, Table& table) {
  if (table.problem.combine == Combine::ordered && random.chance(2)) {
    shuffle_dkv_ranks(random, table);
  }
}

void break_slot(Random& random, Table& table) {
  Slot& slot = table.slots[random.between(0, std::ssize(table.slots) - 1)];
  switch (random.between(0, 3)) {
    case 0:
      slot.rank += random.chance(2) ? 1 : -1;
      break;
    case 1:
      slot.task.q.value += random.chance(2) ? 1 : -1;
      break;
    case 2:
      slot.task.kv.value += random.chance(2) ? 1 : -1;
      break;
    default:
      slot.task.head.value += 1;
  }
}

void break_lane(Random& random, Table& table) {
  const std::int64_t slot = random.between(0, std::ssize(table.slots) - 1);
  const bool lost = random.chance(2);
  if (lost) {
    table.slots.erase(table.slots.begin() + slot);
  } else {
    table.slots.insert(table.slots.begin() + slot, Slot(table.slots[slot]));
  }
  for (std::int64_t& begin : table.lane_begin) {
    if (begin > slot) begin += lost ? -1 : 1;
  }
}

Problem tiles_problem(const std::vector<std::string>& rows, std::int32_t heads, std::int32_t sms) {
  const Lengths tiles{.q = rows.empty() ? 0 : std::ssize(rows.front()), .kv = std::ssize(rows)};
  return make_problem(make_mask("tiles", {{"rows", rows}}), tiles, {}, heads, sms);
}

Problem random_problem(Random& random, std::int64_t most) {
  const std::int64_t heads = random.between(1, std::min<std::int64_t>(most, 4));
  const std::int64_t sms = random.between(1, most + 1);
  const std::int64_t kind = random.between(0, 3);
  if (kind > 1) {
    return tiles_problem(random_rows(random, most), static_cast<std::int32_t>(heads),
                         static_cast<std::int32_t>(sms));
  }
  // Several Q tiles a KV tile now and then, and ragged last tiles.
  const std::int64_t ratio = random.between(1, 3);
  const Lengths lengths{.q = random.between(1, most * ratio),
                        .kv = random.between(1, most * ratio)};
  return make_problem(make_mask(kind == 0 ? "full" : "causal"), lengths, {.q = 1, .kv = ratio},
                      heads, sms);
}

Problem random_problem_by_head(Random& random, std::int64_t most) {
  const Problem like = random_problem(random, most);
  const std::int64_t heads = random.between(2, 4);
  std::vector<Mask> masks;
  std::vector<std::int64_t> of_head;
  for (std::int64_t count = random.between(2, 3); count > 0; --count) {
    std::vector<std::string> rows(at(like.kv_tiles()));
    for (std::string& row : rows) {
      for (QTile q{0}; q.value < like.q_tiles(); ++q)
        row += ".fp"[random.between(0, 2)];
    }
    masks.push_back(make_mask("tiles", {{"rows", std::move(rows)}}));
  }
  if (random.chance(2)) masks.back() = like.mask;
  for (std::int64_t head = 0; head < heads; ++head)
    of_head.push_back(random.between(0, std::ssize(masks) - 1));
  return make_problem(make_mask("heads", {{"of", masks}, {"heads", of_head}}), like.lengths,
                      like.shape, heads, like.sms);
}

Problem any_problem(Random& random, std::int64_t most) {
  return random.chance(3) ? random_problem_by_head(random, most) : random_problem(random, most);
}

Problem with_random_groups(Random& random, Problem problem, std::int32_t most) {
  const auto group = static_cast<std::int32_t>(random.between(1, most));
  problem.heads_kv = problem.heads;
  problem.heads *= group;
  std::int64_t span = random.between(1, group);
  while (group % span != 0)
    --span;
  const Combine combine = random.chance(2) ? Combine::partials : Combine::ordered;
  if (problem.grids.all_alike()) return with_span(std::move(problem), span, combine);
  std::vector<std::int64_t> of_head;  // the heads of a part have one mask
  for (std::int64_t part = 0; part < problem.heads / span; ++part) {
    const std::int64_t place = random.between(0, std::ssize(problem.mask.masks("of")) - 1);
    of_head.insert(of_head.end(), at(span), place);
  }
  Mask mask = make_mask("heads", {{"of", problem.mask.masks("of")}, {"heads", of_head}});
  return make_problem(std::move(mask), problem.lengths, problem.shape, problem.heads, problem.sms,
                      {.heads_kv = problem.heads_kv, .span = span, .combine = combine});
}

Timing random_timing(Random& random, const Problem& problem) {
  Timing timing;
  timing.model = random.chance(2) ? Model::chain : Model::overlap;
  timing.compute = random.between(0, 6);
  if (random.chance(3)) timing.compute_partial = random.between(0, 9);
  timing.reduce = random.between(timing.shortest_compute() == 0 ? 1 : 0, 5);
  if (random.chance(2)) {
    timing.latency = random.between(0, 3);
    timing.launch = random.between(0, 2);
    timing.epilogue = random.between(0, 2);
  }
  if (timing.model == Model::overlap && timing.epilogue == 1) {
    timing.next_lane = 3 * timing.latency + timing.launch;  // from 0 to far beyond the epilogue
  }
  if (random.chance(3)) timing.release = Release::delayed;
  if (random.chance(3)) {
    timing.residency = static_cast<std::int32_t>(random.between(1, problem.sms));
  }
  return timing;
}

Timing with_random_combination(Random& random, Timing timing) {
  timing.reduce_kv = random.between(0, 9);
  timing.reduce_kv_async = random.chance(3);
  return timing;
}

void shuffle_dkv_ranks(Random& random, Table& table) {
  const Problem& problem = table.problem;
  const std::int32_t parts = problem.group_parts();
  table.dkv_ranks.assign(problem.chains(), -1);
  for (std::int32_t kv_head = 0; kv_head < problem.heads_kv; ++kv_head) {
    for (KvTile kv{0}; kv.value < problem.kv_tiles(); ++kv) {
      std::vector<Part> live;  // the last first
      for (Part part{(kv_head + 1) * parts - 1}; part.value >= kv_head * parts; --part.value) {
        if (problem.grid_of(part).chain_length(kv) > 0) live.push_back(part);
      }
      std::vector<std::int32_t> ranks(live.size());
      std::iota(ranks.begin(), ranks.end(), 0);
      random.shuffle(ranks);
      for (std::size_t place = 0; place < live.size(); ++place)
        table.dkv_ranks[problem.chain_place(live[place], kv)] = ranks[place];
    }
  }
}

Table random_table(Random& random, const Problem& problem, Dispatch dispatch) {
  Table table = deal_chains(random, problem, dispatch);
  std::vector<std::vector<std::int32_t>> ranks(at(std::int64_t{problem.heads} * problem.q_tiles()));
  for (const Slot& slot : table.slots) {
    auto& tile = ranks[lock_of(problem, slot.task)];
    tile.push_back(static_cast<std::int32_t>(tile.size()));
  }
  for (auto& tile : ranks)
    random.shuffle(tile);
  for (Slot& slot : table.slots) {
    auto& tile = ranks[lock_of(problem, slot.task)];
    slot.rank = tile.back();
    tile.pop_back();
  }
  return table;
}

Table random_live_table(Random& random, const Problem& problem, Dispatch dispatch) {
  Table table = deal_chains(random, problem, dispatch);
  std::vector<std::int32_t> next_rank(at(std::int64_t{problem.heads} * problem.q_tiles()), 0);
  std::vector<std::int64_t> next(table.lane_begin.begin(), table.lane_begin.end() - 1);
  std::map<std::int64_t, std::int32_t> next_part;
  if (problem.combine == Combine::ordered) table.dkv_ranks.assign(problem.chains(), -1);
  std::vector<std::size_t> open;
  for (std::size_t lane = 0; lane < next.size(); ++lane)
    open.push_back(lane);
  while (!open.empty()) {
    const std::size_t pick = at(random.between(0, std::ssize(open) - 1));
    const std::size_t lane = open[pick];
    if (next[lane] == table.lane_begin[lane + 1]) {
      open.erase(open.begin() + std::ptrdiff_t(pick));
      continue;
    }
    const std::int64_t index = next[lane]++;
    Slot& slot = table.slots[index];
    slot.rank = next_rank[lock_of(problem, slot.task)]++;
    const bool ends = table.ends_chain(Lane{static_cast<std::int32_t>(lane)}, index);
    if (!ends || problem.combine != Combine::ordered) continue;
    table.dkv_ranks[problem.chain_place(slot.task)] = next_part[problem.dkv_place(slot.task)]++;
  }
  return table;
}

}  // namespace stagger::test
