#pragma once

#include "core/index.hpp"
#include "core/timing.hpp"
#include "sim/bit_set.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace stagger::sim {

/// Which of some actors is due first, at equal times the first of them: a calendar with a page for
/// each tick of the time to come and a bit on it for each actor. Who is due when all pages will
/// have been turned over is noted aside. Source: Brown 1988, Calendar queues, CACM 31(10), whose
/// pages are lists.
class Calendar {
 public:
  static constexpr std::int32_t kNobody = -1;

  /// For actors 0 … actors-1, none of which is due. An actor costs some steps where it is due
  /// within `usual` ticks when it is added and these are at most some thousand, a few more where
  /// not.
  Calendar(std::int32_t actors, Ticks usual)
      : page_(static_cast<int>(std::bit_width(at(std::max(actors, 1) - 1)))),
        pages_(std::clamp(std::bit_ceil(at(std::min(usual, kLongest)) + 1), kFewest,
                          std::max(kMostBits >> page_, kFewest))),
        actors_((std::size_t{1} << page_) - 1),
        due_(actors_ + 1),
        bits_(pages_ << page_) {}

  /// When the actor that was taken last was due; 0 at first.
  [[nodiscard]] Ticks now() const { return now_; }

  /// An actor that is not due is, from now on, at a time not before now().
  void add(std::int32_t actor, Ticks time) {
    if (time - now_ >= static_cast<Ticks>(pages_)) return add_later(actor, time);
    const std::size_t place = place_of(time, actor);
    bits_.insert(place);
    if (time == now_) from_ = std::min(from_, place);
  }

  /// The first to be due, who is not from now on; kNobody if nobody is.
  std::int32_t take() {
    std::size_t place = bits_.first_from(from_);
    if (place == bits_.size()) {
      place = bits_.first_from(0);
      if (place == bits_.size() && later_.empty()) return kNobody;
    }
    const std::size_t actor = place & actors_;
    const Ticks time = place == bits_.size() ? kNever : time_of(place >> page_);
    if (time >= soonest_later_) return take_later();
    bits_.erase(place);
    from_ = place;
    now_ = time;
    return static_cast<std::int32_t>(actor);
  }

 private:
  static constexpr Ticks kNever = INT64_MAX;
  static constexpr std::size_t kFewest = 64;                      ///< pages
  static constexpr std::size_t kMostBits = std::size_t{1} << 21;  ///< unless pages are too few
  static constexpr Ticks kLongest = kMostBits;                    ///< that is usual

  [[nodiscard]] std::size_t place_of(Ticks time, std::int32_t actor) const {
    return (at(time) & (pages_ - 1)) << page_ | at(actor);
  }

  /// The next time that a page is of.
  [[nodiscard]] Ticks time_of(std::size_t page) const {
    return now_ + static_cast<Ticks>((page - at(now_)) & (pages_ - 1));
  }

  /// Out of line, as take_later(): where they were not, the rest of a loop over take() took longer.
  [[gnu::noinline]] void add_later(std::int32_t actor, Ticks time) {
    due_[at(actor)] = time;
    later_.push_back(actor);
    soonest_later_ = std::min(soonest_later_, time);
  }

  /// Goes on to when the first of those noted aside is due, before whom nobody is, and enters all
  /// who are due by the page before that one again.
  [[gnu::noinline]] std::int32_t take_later() {
    now_ = std::exchange(soonest_later_, kNever);
    from_ = place_of(now_, 0);
    for (const std::int32_t actor : std::exchange(later_, {}))
      add(actor, due_[at(actor)]);
    return take();
  }

  int page_;            ///< 2^page_ bits of one
  std::size_t pages_;   ///< a power of two
  std::size_t actors_;  ///< that a page has room for, less one
  Ticks now_ = 0;
  std::size_t from_ = 0;    ///< no bit of now's page before it is set
  std::vector<Ticks> due_;  ///< by actor noted aside
  BitSet bits_;             ///< page after page; now's page is what now is modulo all
  std::vector<std::int32_t> later_;
  Ticks soonest_later_ = kNever;
};

}  // namespace stagger::sim
