#pragma once

#include "schedules/schedule.hpp"

#include <string_view>
#include <vector>

namespace stagger::test {

/// The registered schedules that kept texts (tests/golden) speak of, in their order. One that is
/// registered later changes no such text: a line in kept.cpp has it kept from then on.
[[nodiscard]] std::vector<const schedules::Schedule*> kept_schedules();

/// Whether kept texts speak of the schedule that a table or a phase of a search is named by, with
/// its parameters or without. What is named by no schedule is kept.
[[nodiscard]] bool is_kept(std::string_view name);

}  // namespace stagger::test
