// Conditions of `query`: precedence, units, text, and messages that say where.
#include "io/expression.hpp"

#include <catch2/catch.hpp>

#include "tessera/error.hpp"

using namespace tessera;

namespace {

const std::vector<Symbol> kSymbols{{"split", false, 0}, {"memory_bytes", false, 1}, {"mfu", false, 2}, {"schedule", true, 3, {"1f1b", "dualpipe"}}, {"name", true, 4}};

class Row : public RowValues {
 public:
  double number(int index) const override { return index == 0 ? 4 : index == 1 ? 150.0 * 1024 * 1024 * 1024 : 0.25; }
  std::string_view text(int) const override { return "1f1b"; }
};

bool holds(const std::string& text) { return Expression(text, kSymbols).matches(Row()); }

}  // namespace

TEST_CASE("conditions hold as they read", "[expression]") {
  CHECK(holds("split == 4"));
  CHECK_FALSE(holds("split != 4"));
  CHECK(holds("split == 4 && memory_bytes <= 150GiB"));
  CHECK_FALSE(holds("memory_bytes < 150 GiB"));
  CHECK(holds("memory_bytes < 162GB"));
  CHECK(holds("mfu == 25%"));
  CHECK(holds("schedule == '1f1b'"));
  CHECK(holds("schedule != \"dualpipe\""));
  CHECK(holds("!(split == 8) && !false"));
  CHECK(holds("1 + 2 * 3 == 7"));
  CHECK(holds("(1 + 2) * 3 == 9"));
  CHECK(holds("8 / 2 - 1 == 3"));
  CHECK(holds("-split == -4"));
  CHECK(holds("split == 8 || split == 4 && mfu > 0.2"));        // && binds tighter
  CHECK_FALSE(holds("(split == 8 || split == 4) && mfu > 0.3"));
  CHECK(holds("120ms == 0.12s && 2min == 120 && 1h == 3600 && 1d == 86400"));
  CHECK_FALSE(holds("0 / 0 == 0"));  // no number: no comparison holds
  CHECK_FALSE(holds("0 / 0"));
}

TEST_CASE("a condition knows the columns it needs", "[expression]") {
  CHECK(Expression("mfu > 0.1 && split == 2 || mfu < 0.05", kSymbols).used() == std::vector<int>{0, 2});
}

TEST_CASE("a bad condition says where and what to do", "[expression]") {
  CHECK_THROWS_WITH(holds("memroy_bytes < 1"), Catch::Contains("character 1") && Catch::Contains("'memory_bytes'"));
  CHECK_THROWS_WITH(holds("split = 4"), Catch::Contains("write =="));
  CHECK_THROWS_WITH(holds("split == 4 &&"), Catch::Contains("too early"));
  CHECK_THROWS_WITH(holds("(split == 4"), Catch::Contains("close it"));
  CHECK_THROWS_WITH(holds("mfu < 3 GIB"), Catch::Contains("'GiB'"));
  CHECK_THROWS_WITH(holds("schedule < 3"), Catch::Contains("text"));
  CHECK_THROWS_WITH(holds("schedule"), Catch::Contains("text"));
  CHECK_THROWS_WITH(holds("schedule == 'x"), Catch::Contains("quote"));
  CHECK_THROWS_WITH(holds("schedule == 'dualpip'"), Catch::Contains("schedule is never 'dualpip'") && Catch::Contains("'dualpipe'"));
  CHECK_THROWS_WITH(holds("'2f2b' != schedule"), Catch::Contains("never"));
  CHECK_FALSE(holds("name == 'anything'"));
  for (const char* text : {"", "4 4", ")", "split ==", "== 4", "1e999", "split $ 4", "!schedule"}) {
    INFO(text);
    CHECK_THROWS_AS(holds(text), InputError);
  }
  CHECK_THROWS_AS(holds(std::string(100000, '(')), InputError);
  CHECK_THROWS_AS(holds(std::string(100000, '!') + "1"), InputError);
}
