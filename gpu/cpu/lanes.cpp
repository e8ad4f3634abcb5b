#include "gpu/cpu/lanes.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace stagger::gpu::cpu {
Lanes::Lanes(std::int32_t lanes, std::int32_t sms, std::size_t tiles, const Semaphores& semaphores,
             const BackwardOptions& options)
    : semaphores_(semaphores),
      timeout_(options.timeout),
      perturbation_(options.perturb),
      first_parked_(tiles, -1),
      parked_(at(lanes)),
      sms_(at(lanes), Sm{-1}) {
  for (Sm sm{0}; sm.value < std::min(sms, lanes); ++sm)
    launch_next(sm);
}

std::optional<Lanes::Turn> Lanes::take() {
  std::unique_lock lock(mutex_);
  while (!stopped_) {
    if (overdue()) {
      stop(Outcome::timeout);
    } else if (!ready_.empty()) {
      return pick();
    } else if (ended_ == std::ssize(sms_)) {
      stop(Outcome::finished);
    } else if (playing_ == 0) {
      stop(Outcome::deadlock);
    } else {
      wait(lock);
    }
  }
  return std::nullopt;
}

void Lanes::go_on(Lane lane) {
  const std::lock_guard lock(mutex_);
  --playing_;
  make_ready(lane.value);
}

void Lanes::end(Lane lane) {
  const std::lock_guard lock(mutex_);
  --playing_;
  ++ended_;
  if (launched_ < std::ssize(sms_)) launch_next(sms_[at(lane)]);
}

void Lanes::park(Lane lane, std::size_t tile, std::int32_t rank) {
  const std::lock_guard lock(mutex_);
  --playing_;
  // A release since the worker looked has called wake() already, or will when it gets the mutex.
  if (semaphores_.shows(tile, rank)) return make_ready(lane.value);
  parked_[at(lane)] = {.rank = rank, .next = first_parked_[tile], .ticket = ++tickets_};
  first_parked_[tile] = lane.value;
  if (timeout_.count() > 0) {
    deadlines_.push_back({Clock::now() + timeout_, lane.value, tickets_});
  }
}

void Lanes::wake(std::size_t tile) {
  const std::lock_guard lock(mutex_);
  std::int32_t* link = &first_parked_[tile];
  while (*link >= 0) {
    const std::int32_t lane = *link;
    Parked& parked = parked_[at(lane)];
    if (!semaphores_.shows(tile, parked.rank)) {
      link = &parked.next;
      continue;
    }
    *link = parked.next;
    parked.ticket = -1;
    make_ready(lane);
  }
}

void Lanes::launch_next(Sm sm) {
  sms_[at(launched_)] = sm;
  make_ready(launched_++);
}

void Lanes::make_ready(std::int32_t lane) {
  ready_.push_back(lane);
  changed_.notify_one();
}

void Lanes::stop(Outcome outcome) {
  stopped_ = true;
  outcome_ = outcome;
  changed_.notify_all();
}

Lanes::Turn Lanes::pick() {
  const auto picked =
      ready_.begin() + static_cast<std::ptrdiff_t>(perturbation_.pick(ready_.size(), ++picks_));
  const Lane lane{*picked};
  ready_.erase(picked);
  ++playing_;
  return {lane, sms_[at(lane)]};
}

bool Lanes::overdue() {
  while (!deadlines_.empty() &&
         parked_[at(deadlines_.front().lane)].ticket != deadlines_.front().ticket) {
    deadlines_.pop_front();
  }
  return !deadlines_.empty() && Clock::now() >= deadlines_.front().time;
}

void Lanes::wait(std::unique_lock<std::mutex>& lock) {
  if (deadlines_.empty()) return changed_.wait(lock);
  // A copy: wait_until looks at it again afterwards, when it may have left the queue.
  const Clock::time_point time = deadlines_.front().time;
  changed_.wait_until(lock, time);
}

}  // namespace stagger::gpu::cpu
