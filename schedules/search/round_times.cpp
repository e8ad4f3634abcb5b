#include "schedules/search/round_times.hpp"

#include "core/error.hpp"
#include "schedules/search/chain.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

namespace stagger::search {
namespace {

[[noreturn]] void reject(const std::string& source, const Task& task, const std::string& what) {
  throw Error(ErrorKind::invalid_input, source + ": task (head " + std::to_string(task.head.value) +
                                            ", kv " + std::to_string(task.kv.value) + ", q " +
                                            std::to_string(task.q.value) + ") " + what);
}

using TimedChain = std::vector<RoundTime>;

/// The chains, by their first round.
std::vector<TimedChain> chains_by_start(const Problem& problem, RoundTimes times,
                                        const std::string& source) {
  const auto key = [&](const RoundTime& time) {
    return std::tuple(problem.part_of(time.task.head), time.task.kv, time.round);
  };
  std::sort(times.begin(), times.end(),
            [&](const RoundTime& left, const RoundTime& right) { return key(left) < key(right); });
  std::vector<TimedChain> chains;
  for (const RoundTime& time : times) {
    const Task& task = time.task;
    if (!problem.contains(task)) reject(source, task, "is not in the problem");
    if (!problem.live(task)) reject(source, task, "is not live");
    if (time.round < 0) reject(source, task, "has a round below 0");
    const Task* last = chains.empty() ? nullptr : &chains.back().back().task;
    if (last == nullptr || !problem.same_chain(*last, task)) {
      chains.emplace_back();
    } else if (time.round != chains.back().back().round + 1) {
      reject(source, task, "does not follow its chain's task before, round by round");
    }
    chains.back().push_back(time);
  }
  std::stable_sort(chains.begin(), chains.end(),
                   [](const TimedChain& left, const TimedChain& right) {
                     return left.front().round < right.front().round;
                   });
  return chains;
}

void check_tasks(const Problem& problem, const std::vector<TimedChain>& chains,
                 const std::string& source) {
  std::vector<Task> tasks;
  for (const TimedChain& chain : chains) {
    for (const RoundTime& time : chain)
      tasks.push_back(time.task);
  }
  std::sort(tasks.begin(), tasks.end());
  const auto twice = std::adjacent_find(tasks.begin(), tasks.end());
  if (twice != tasks.end()) reject(source, *twice, "has two rounds");
  if (std::ssize(tasks) == problem.tasks()) return;
  for (const Chain& chain : chains_of(problem)) {
    for (const Task& task : tasks_of(problem, chain)) {
      if (!std::binary_search(tasks.begin(), tasks.end(), task))
        reject(source, task, "has no round");
    }
  }
}

/// Each chain's rank among those that are added to one dK and dV in turn: by their ends. Empty
/// unless parts are combined in order.
IndexVector<std::int64_t, std::int32_t> dkv_ranks_of(const Problem& problem,
                                                     std::vector<TimedChain> chains,
                                                     const std::string& source) {
  if (problem.combine != Combine::ordered) return {};
  IndexVector<std::int64_t, std::int32_t> ranks(problem.chains(), -1);
  std::stable_sort(chains.begin(), chains.end(),
                   [](const TimedChain& left, const TimedChain& right) {
                     return left.back().round < right.back().round;
                   });
  std::map<std::int64_t, std::pair<std::int32_t, std::int64_t>> last;  // ranks, round
  for (const TimedChain& chain : chains) {
    const auto& [task, round] = chain.back();
    auto& [added, before] = last.try_emplace(problem.dkv_place(task), 0, -1).first->second;
    if (before == round) reject(source, task, "ends its chain with another one of its KV tile");
    before = round;
    ranks[problem.chain_place(task)] = added++;
  }
  return ranks;
}

}  // namespace

Table table_of(const Problem& problem, RoundTimes times, const std::string& source) {
  const std::vector<TimedChain> chains = chains_by_start(problem, std::move(times), source);
  check_tasks(problem, chains, source);
  std::vector<std::vector<Slot>> lanes(static_cast<std::size_t>(problem.sms));
  using Free = std::pair<std::int64_t, std::size_t>;  // when, which SM
  std::priority_queue<Free, std::vector<Free>, std::greater<>> free;
  for (std::size_t sm = 0; sm < lanes.size(); ++sm)
    free.emplace(0, sm);
  struct Place {
    std::int64_t round;
    std::size_t sm;
    std::size_t index;
  };
  std::vector<Place> places;
  for (const TimedChain& chain : chains) {
    const auto [when, sm] = free.top();
    if (when > chain.front().round) {
      reject(source, chain.front().task,
             "has no free SM: " + std::to_string(problem.sms) + " chains run already");
    }
    free.pop();
    free.emplace(chain.back().round + 1, sm);
    for (const RoundTime& time : chain) {
      places.push_back({time.round, sm, lanes[sm].size()});
      lanes[sm].push_back({time.task, 0});
    }
  }
  std::sort(places.begin(), places.end(), [](const Place& left, const Place& right) {
    return std::tie(left.round, left.sm) < std::tie(right.round, right.sm);
  });
  std::map<std::pair<Head, QTile>, std::pair<std::int32_t, std::int64_t>> last;  // ranks, round
  for (const auto& [time, sm, index] : places) {
    Slot& slot = lanes[sm][index];
    auto& [ranks, before] = last.try_emplace({slot.task.head, slot.task.q}, 0, -1).first->second;
    if (before == time)
      reject(source, slot.task, "shares its round with another task of its dQ tile");
    before = time;
    slot.rank = ranks++;
  }
  Table table = table_of(problem, lanes);
  table.dkv_ranks = dkv_ranks_of(problem, chains, source);
  return table;
}

}  // namespace stagger::search
