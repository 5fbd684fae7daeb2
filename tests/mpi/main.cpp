// One Catch session per rank; the exit code of every rank is the worst of all.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include <memory>

#include "search/mpi_context.hpp"
#include "world.hpp"

namespace {
std::unique_ptr<tessera::Context> context;
}

tessera::Context& world() { return *context; }

int main(int argc, char** argv) {
  context = tessera::make_context();
  const int mine = Catch::Session().run(argc, argv);
  const int worst = static_cast<int>(world().largest(mine));
  context.reset();
  return worst;
}
