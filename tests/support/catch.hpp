#pragma once

// Catch2 v3 where there is one (Ubuntu 24.04), else v2 (Debian 12).
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
