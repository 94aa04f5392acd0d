#include "src/store/counts.h"

namespace rung {

ActivityCounts sum_of(const CountBatch& batch) {
  ActivityCounts sum;
  for (const CountBatch::Change& change : batch.changes) sum += change.activity;
  return sum;
}

}  // namespace rung
