// Every n-th position of an axis, from each first one on, one behind the other: an image's pixels as channels, as
// patches are merged and models begin that "focus".
#pragma once

#include "graph/pass/rewrite.h"

namespace cudaep::graph {

// Puts Reshape, Transpose and Reshape in the place of a Concat of Slices in steps that takes every element of one
// tensor once.
void JoinPhases(const Rewriter& rewrite, int index);

}  // namespace cudaep::graph
