#include "gpu/check/program.hpp"

#include "gpu/numerics/rounding.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace stagger::gpu {
namespace {

/// Calls `visit(kernel, lane, stint)` for each stint, in the order of the program's text.
template <class Visit>
void each_stint(const Program& program, Visit visit) {
  for (std::size_t kernel = 0; kernel < program.kernels.size(); ++kernel) {
    const auto& lanes = program.kernels[kernel].lanes;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      for (const Stint& stint : lanes[lane])
        visit(kernel, lane, stint);
    }
  }
}

/// What two lanes must not both add to: (kernel, kind, buffer or 0, head or part, tile).
using Target = std::tuple<std::size_t, int, std::int32_t, std::int32_t, std::int32_t>;

class Soundness {
 public:
  explicit Soundness(const Program& program) : program_(program) {}

  std::optional<std::string> run() {
    each_stint(program_, [&](std::size_t kernel, std::size_t lane, const Stint& stint) {
      for (const Task& task : stint.tasks)
        add(kernel, lane, stint, task);
    });
    const std::int64_t tasks = program_.problem.tasks();
    if (fault_.empty() && std::ssize(dq_) != tasks) fault_ = "dQ lacks tasks";
    if (fault_.empty() && std::ssize(dkv_) != tasks) fault_ = "dK and dV lack tasks";
    if (fault_.empty()) return std::nullopt;
    return fault_;
  }

 private:
  void add(std::size_t kernel, std::size_t lane, const Stint& stint, const Task& task) {
    const Problem& problem = program_.problem;
    if (!problem.contains(task) || !problem.live(task)) {
      fault_ = describe(task) + " is no live tile";
      return;
    }
    if (stint.makes != Makes::dkv) {
      if (stint.buffer < 0 || stint.buffer >= program_.buffers) fault_ = "no such dQ buffer";
      if (!dq_.insert(task).second) fault_ = describe(task) + " is added to dQ twice";
      own({kernel, 0, stint.buffer, task.head.value, task.q.value}, lane);
    }
    if (stint.makes != Makes::dq) {
      if (!problem.same_chain(stint.tasks.front(), task)) fault_ = "a stint of two KV tiles";
      if (!dkv_.insert(task).second) fault_ = describe(task) + " is added to dK and dV twice";
      own({kernel, 1, 0, problem.part_of(task.head).value, task.kv.value}, lane);
    }
  }

  void own(const Target& target, std::size_t lane) {
    if (owners_.emplace(target, lane).first->second != lane) {
      fault_ = "two lanes add to one tile";
    }
  }

  const Program& program_;
  std::set<Task> dq_;
  std::set<Task> dkv_;
  std::map<Target, std::size_t> owners_;
  std::string fault_;
};

}  // namespace

std::optional<std::string> fault_of(const Program& program) {
  return Soundness(program).run();
}

ProgramOrder order_of(const Program& program) {
  const Problem& problem = program.problem;
  const TileGrid& grid = problem.common_grid();
  const std::int32_t q_tiles = grid.q_tiles();
  ProgramOrder order;
  for (KvTile kv{0}; kv.value < grid.kv_tiles(); ++kv) {
    for (QTile q{0}; q.value < q_tiles; ++q)
      order.place.push_back(grid.live(kv, q) ? order.head_tasks++ : -1);
  }
  order.added.resize(at(std::int64_t{program.buffers} * problem.heads * q_tiles));
  each_stint(program, [&](std::size_t, std::size_t, const Stint& stint) {
    if (stint.makes == Makes::dkv) return;
    for (const Task& task : stint.tasks) {
      const std::int64_t target =
          (std::int64_t{stint.buffer} * problem.heads + task.head.value) * q_tiles + task.q.value;
      order.added[at(target)].push_back(task.kv);
    }
  });
  return order;
}

std::vector<float> reaccumulate(const Program& program, const AttentionShape& shape,
                                const std::vector<float>& partials) {
  const Problem& problem = program.problem;
  const ProgramOrder order = order_of(program);
  const std::int32_t q_tiles = problem.q_tiles();
  std::vector<float> dq(shape.q_elements(), 0);
  if (problem.tasks() == 0) return dq;
  const std::size_t elements = partials.size() / at(problem.tasks());
  std::vector<float> sum(elements);
  for (std::size_t target = 0; target < order.added.size(); ++target) {
    const std::size_t tile = target % at(std::int64_t{problem.heads} * q_tiles);
    const Head head{static_cast<std::int32_t>(tile / at(q_tiles))};
    const QTile q{static_cast<std::int32_t>(tile % at(q_tiles))};
    std::ranges::fill(sum, 0.0F);
    for (const KvTile kv : order.added[target]) {
      const float* partial = &partials[at(order.place_of({head, kv, q}, q_tiles)) * elements];
      for (std::size_t index = 0; index < elements; ++index)
        sum[index] += partial[index];
    }
    const std::size_t first = shape.q_row(head, q.value * problem.shape.q) * shape.dim();
    const std::size_t end =
        std::min(first + elements, shape.q_row(Head{head.value + 1}, 0) * shape.dim());
    for (std::size_t index = first; index < end; ++index)
      dq[index] += sum[index - first];
  }
  return dq;
}

std::vector<float> sum_of_heads(const Program& program, const AttentionShape& shape,
                                const std::vector<float>& heads, float scale, Dtype dtype) {
  const bool before = program.head_sums == HeadSums::rounded;
  const std::size_t of_head = at(shape.seq_kv) * shape.dim();
  const std::size_t group = at(shape.group());
  std::vector<float> sums(shape.kv_elements(), 0);
  for (std::size_t index = 0; index < sums.size(); ++index) {
    float sum = 0;
    for (std::size_t member = 0; member < group; ++member) {
      const std::size_t head = index / of_head * group + member;
      const float value = heads[head * of_head + index % of_head];
      sum += before ? rounded(value * scale, dtype) : value;
    }
    sums[index] = rounded(before ? sum : sum * scale, dtype);
  }
  return sums;
}

std::int64_t partial_bytes(const Program& program, const AttentionShape& shape) {
  const double tile_q =
      static_cast<double>(std::min(program.problem.shape.q, program.problem.lengths.q));
  const double bytes = 4 * static_cast<double>(program.problem.tasks()) * tile_q * shape.head_dim;
  return static_cast<std::int64_t>(std::min(bytes, 0x1p60));
}

std::int64_t run_bytes(const Program& program, const AttentionShape& shape, bool partials) {
  const Problem& problem = program.problem;
  const auto q = static_cast<double>(shape.q_elements());
  const auto kv = static_cast<double>(shape.kv_elements());
  const auto tasks = static_cast<double>(problem.tasks());
  const double heads = program.head_sums == HeadSums::none ? 0 : 2 * 4 * kv * shape.group();
  const double bytes = 4 * (2 * q + 2 * kv) + 8 * (2 * q + 2 * kv) + 3 * 4 * (2 * q + 2 * kv) +
                       4.0 * q * program.buffers + 2 * heads +
                       // Contributions as they are listed, checked and witnessed.
                       tasks * 200;
  return static_cast<std::int64_t>(std::min(bytes, 0x1p60)) +
         (partials ? partial_bytes(program, shape) : 0);
}

}  // namespace stagger::gpu
