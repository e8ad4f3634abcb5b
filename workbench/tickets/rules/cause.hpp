#pragma once

#include "workbench/tickets/rules.hpp"

#include <string>

namespace stagger::tickets {

/// Why the values that a semaphore's steps wait for are no order: each cause is one rule's.
enum class Cause {
  rank_set,      ///< STG001: they are no ranks 0 … k-1
  window,        ///< STG002: numbers of KV tiles, the first of which a window has passed by
  initial,       ///< STG003: the semaphore does not begin at 0
  shared,        ///< STG004: several heads have one semaphore
  unit,          ///< STG005: they count CTAs, and additions clusters, or the other way round
  listed_twice,  ///< STG006: one tile is there twice
  gap,           ///< STG007: one in the middle is missing, or bridged by too much
  direction,     ///< STG008: a last KV block of fewer groups is not launched first
  tail,          ///< STG011: they count KV blocks that the last block does not have
  group,         ///< STG012: numbers of heads, one of which has nothing to add
  hole,          ///< STG014: numbers of KV tiles, one of which is skipped in the middle
  stale,         ///< STG015: they were made for other block lists
  empty,         ///< STG017: nobody reduces there
};
[[nodiscard]] Cause cause_of(const Facts& facts, const Broken& broken);

/// Adds a finding for every broken semaphore of this cause: what its steps wait for, who waits in
/// vain, and `why`.
void report_cause(const Rule& rule, Cause cause, const char* why, const Facts& facts,
                  Findings& findings);

/// `head 0, q 3 (semaphore 3)`, of the semaphore that a step is about.
[[nodiscard]] std::string place_name(const Facts& facts, std::int64_t step);

/// `kv 2`, or `head 1, kv 2`: who does a step.
[[nodiscard]] std::string doer_name(const Facts& facts, std::int64_t step);

/// `0, 1, 3`: the values that a semaphore's steps wait for; cut where they are many.
[[nodiscard]] std::string values_of(const Facts& facts, Semaphore semaphore);

}  // namespace stagger::tickets
