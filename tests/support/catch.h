// tests/support/catch.h -- the one place that knows where Catch2's header lives (v2 here, v3 elsewhere).
#pragma once
#include <catch2/catch.hpp>
