// The ranks of the test: the context that main() made.
#pragma once
#include "search/context.hpp"

tessera::Context& world();
