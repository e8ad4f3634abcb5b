#include "tests/support/drawn_kernels.hpp"

#include "core/index.hpp"

#include <algorithm>
#include <map>

namespace stagger::test {
namespace {

int q_tiles_in(const Live& live) {
  return static_cast<int>(live[0][0].size());
}

}  // namespace

Live drawn_live(Random& random, int heads, int kv_tiles, int q_tiles, bool all) {
  const int one_in = draw(random, 2, 5);
  Live live(at(heads));
  for (auto& head : live) {
    head.assign(at(kv_tiles), std::vector<bool>(at(q_tiles), true));
    for (auto& row : head) {
      for (std::size_t q = 0; q < row.size(); ++q)
        row[q] = all || !random.chance(one_in);
    }
  }
  return live;
}

Live window_live(int kv_tiles, int left) {
  const auto size = at(kv_tiles);
  Live live(1, std::vector<std::vector<bool>>(size, std::vector<bool>(size, false)));
  for (int kv = 0; kv < kv_tiles; ++kv) {
    for (int q = kv; q <= std::min(kv + left, kv_tiles - 1); ++q)
      live[0][at(kv)][at(q)] = true;
  }
  return live;
}

void draw_machine(Random& random, LockKernel& kernel, int least) {
  const int programs = static_cast<int>(kernel.programs.size());
  kernel.residency = draw(random, std::min(least, programs), std::max(programs, 1));
  kernel.delayed = random.chance(3);
}

LockKernel ranked(Random& random, const Live& live) {
  LockKernel kernel;
  const int heads = static_cast<int>(live.size());
  const int kv_tiles = static_cast<int>(live[0].size());
  const int q_tiles = q_tiles_in(live);
  const bool down = random.chance(2);
  const bool by_head = random.chance(2);
  kernel.initial.assign(at(heads * q_tiles), 0);
  std::map<int, int> rank;
  for (int place = 0; place < heads * kv_tiles; ++place) {
    const int head = by_head ? place / kv_tiles : place % heads;
    const int turn = by_head ? place % kv_tiles : place / heads;
    const int kv = down ? kv_tiles - 1 - turn : turn;
    std::vector<LockStep> steps;
    for (int q = 0; q < q_tiles; ++q) {
      if (!live[at(head)][at(kv)][at(q)]) continue;
      const int semaphore = head * q_tiles + q;
      steps.push_back(
          {.semaphore = semaphore, .wait = rank[semaphore]++, .head = head, .kv = kv, .q = q});
    }
    random.shuffle(steps);
    kernel.programs.push_back(steps);
  }
  draw_machine(random, kernel);
  return kernel;
}

LockKernel ranked_any(Random& random, int least) {
  return ranked(random, drawn_live(random, draw(random, 1, 2), draw(random, least, 6),
                                   draw(random, 1, 5), random.chance(3)));
}

LockKernel numbered(Random& random, const Live& live, Dead dead) {
  LockKernel kernel;
  const int kv_tiles = static_cast<int>(live[0].size());
  kernel.initial.assign(live[0][0].size(), 0);
  for (int kv = 0; kv < kv_tiles; ++kv) {
    std::vector<LockStep> steps;
    std::vector<LockStep> behind;
    for (int q = 0; q < q_tiles_in(live); ++q) {
      LockStep step{.semaphore = q, .wait = kv, .kv = kv, .q = q};
      step.reduces = live[0][at(kv)][at(q)];
      if (step.reduces || dead == Dead::turns) steps.push_back(step);
      step.wait = -1;
      if (!step.reduces && dead == Dead::passed && q > kv) behind.push_back(step);
    }
    steps.insert(steps.end(), behind.begin(), behind.end());
    kernel.programs.push_back(steps);
  }
  draw_machine(random, kernel, 2);
  return kernel;
}

LockKernel shift(Random& random, int size) {
  LockKernel kernel;
  kernel.initial.assign(at(size), 0);
  for (int kv = 0; kv < size; ++kv) {
    std::vector<LockStep> steps;
    for (int k = 0; k < size; ++k) {
      const int q = (kv + k) % size;
      steps.push_back({.semaphore = q, .wait = k, .kv = kv, .q = q});
    }
    kernel.programs.push_back(steps);
  }
  draw_machine(random, kernel);
  kernel.residency = size;
  kernel.delayed = false;
  kernel.cooperative = true;
  return kernel;
}

LockKernel in_blocks(Random& random, const Blocks& size, bool bridged, bool rounded) {
  const auto& [blocks, groups, own] = size;
  LockKernel kernel;
  const int q_tiles = draw(random, 1, 3);
  const int total = (blocks - 1) * groups + own;
  kernel.initial.assign(at(q_tiles), 0);
  for (int kv = total - 1; kv >= 0; --kv) {
    const int block = kv / groups;
    const int here = block == blocks - 1 ? own : groups;
    const int bridge = bridged && kv % groups == 0 ? groups - here : 0;
    const int lock = (blocks - 1 - block) * groups + here - 1 - kv % groups;
    std::vector<LockStep> steps;
    for (int q = 0; q < q_tiles; ++q) {
      steps.push_back({.semaphore = q,
                       .wait = rounded ? blocks * groups - 1 - kv : lock,
                       .add = 1 + bridge,
                       .kv = kv,
                       .q = q});
    }
    random.shuffle(steps);
    kernel.programs.push_back(steps);
  }
  draw_machine(random, kernel);
  return kernel;
}

Blocks drawn_blocks(Random& random) {
  const int groups = draw(random, 2, 4);
  return {draw(random, 2, 3), groups, draw(random, 1, groups - 1)};
}

LockKernel grouped(Random& random, int heads, int kv_tiles) {
  const int q_tiles = draw(random, 1, 3);
  const Live live = drawn_live(random, heads, kv_tiles, q_tiles, false);
  LockKernel kernel;
  kernel.initial.assign(at(heads * q_tiles + kv_tiles), 0);
  for (int kv = 0; kv < kv_tiles; ++kv) {
    for (int head = 0; head < heads; ++head) {
      std::vector<LockStep> steps;
      for (int q = 0; q < q_tiles; ++q) {
        const auto is_live = [&](int tile) { return live[at(head)][at(tile)][at(q)]; };
        if (!is_live(kv)) continue;
        int rank = 0;
        for (int before = 0; before < kv; ++before)
          rank += is_live(before) ? 1 : 0;
        steps.push_back(
            {.semaphore = head * q_tiles + q, .wait = rank, .head = head, .kv = kv, .q = q});
      }
      steps.push_back({.semaphore = heads * q_tiles + kv,
                       .wait = head,
                       .reduces = false,
                       .head = head,
                       .kv = kv,
                       .q = -1});
      kernel.programs.push_back(steps);
    }
  }
  draw_machine(random, kernel);
  return kernel;
}

}  // namespace stagger::test
