#pragma once

#include "workbench/tickets/tickets.hpp"

#include <string>
#include <string_view>

namespace stagger::tickets {

// Tickets as people write them down, a program a line, in launch order:
//
//     P0: q0@0 q1@0
//     P1: q0@1+2 (q1@1) q2+
//
// The number behind P is the KV tile. `q0@1` waits until the semaphore of q 0 shows 1, reduces, and
// adds 1; `+2` adds 2; in parentheses it does not reduce; `q2+` adds without a wait and without a
// reduction, `q2!` with one. `h1.` before q names another head than 0, `k5.` another KV tile than
// the program's, `[5]` behind it another semaphore than that of its (head, q).

/// Reads the notation. Throws Error{invalid_input} with the line and the word that is none of it.
[[nodiscard]] Tickets read_notation(std::string_view text);

/// One step: `q0@1+2`; `program_kv` is the KV tile that needs no name.
[[nodiscard]] std::string notation(const Tickets& tickets, const Step& step, KvTile program_kv);

/// All programs, a line each; at most so many lines and so many steps on each, and how many more.
[[nodiscard]] std::string notation(const Tickets& tickets, std::int32_t most_programs = 64,
                                   std::int64_t most_steps = 64);

}  // namespace stagger::tickets
