// Plans of a library for matrix products: by its heuristics, or measured. From the process's plan store.
#pragma once

#include <string>

#include "lib/blas.h"
#include "runtime/plan_store.h"
#include "runtime/settings.h"
#include "runtime/stream_context.h"

namespace cudaep::ops {

// Which plan of several serves.
struct ProductSearch {
  ProductSearch() = default;
  explicit ProductSearch(const Settings& settings)
      : use_measured(settings.measured_products),
        measure(settings.measure_products),
        most_ms(settings.most_measuring_ms),
        plan_file(settings.plan_file) {}
  bool use_measured = false, measure = false;
  int64_t most_ms = 0;
  std::string plan_file;
};

// A measured plan where `search` wants one, there is one or it may be made, and the problem is not deterministic (what
// is fastest differs from one measurement to the next); the library's first otherwise. Where the device has no room to
// measure in, the first serves, and the next to ask tries again; so it does where a plan that was measured with more
// room does not fit the limit. Measuring waits for the stream, which must not be captured then.
Result<PlanSlotPtr> FindProductPlan(StreamContext& stream, const ProductSearch& search,
                                    const blas::GemmProblem& problem, size_t workspace_limit_bytes);

}  // namespace cudaep::ops
