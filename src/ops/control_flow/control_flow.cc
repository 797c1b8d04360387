// If, Loop and Scan. The host runs them, and their subgraphs as graphs of their own; these rows say which values it has
// in which memory. What it needs done on the device is in abi/control_flow.cc.
//
// Strings, sequences and optional values stay with the CPU, and so does Scan 8: the host has no kernel of it to lend.
#include "ops/registry.h"

namespace cudaep::ops {
namespace {

const RegisterRows kRows({
    {.kind = RowKind::kIf,
     .op = "If",
     .since = 1,
     .until = 25,
     .types = {{"B", DataType::kBool}, {"V", kAnySizedTypes}},
     .host_inputs = {0}},
    {.kind = RowKind::kLoop,
     .op = "Loop",
     .since = 1,
     .until = 25,
     .types = {{"I", DataType::kInt64}, {"B", DataType::kBool}, {"V", kAnySizedTypes}},
     .host_inputs = {0, 1}},
    {.kind = RowKind::kScan, .op = "Scan", .since = 9, .until = 25, .types = {{"V", kAnySizedTypes}}},
});

}  // namespace
}  // namespace cudaep::ops
