// Which values of a recipe share memory, and how long it lives: what a step takes over of another's, in whole
// (KernelRow::aliases, extends, in_place) or in part (ops::PartOfInput).
#pragma once

#include <vector>

#include "graph/exec/memory_plan.h"
#include "graph/exec/once.h"
#include "graph/exec/recipe.h"

namespace cudaep::graph {

// All that it is made of outlives it.
class Buffers {
 public:
  Buffers(const Program& program, const std::vector<Recipe::Value>& values, const std::vector<Recipe::Step>& steps,
          const OnceSteps& once);

  struct Buffer {
    Place place;
    BufferLife life;
    bool once = false;  // written by steps that run once, in no other call
    bool kept = false;  // has a kept value
  };
  std::vector<Buffer>& all() { return buffers_; }
  Place PlaceOf(size_t value) const;

 private:
  // Where a value lies: bytes into a buffer. No buffer: nowhere.
  struct Spot {
    int buffer = -1;
    size_t offset = 0;
  };

  int Add(Buffer buffer);
  size_t BytesOf(int value) const;
  void PlaceOutputs(int s);

  // Where an input lies, or a part of it, that the output takes over; nowhere: none.
  Spot SharedSpot(const ProgramStep& step, int s, int output) const;
  Spot SpotOfAll(const ProgramStep& step, const ops::BufferPair& pair) const;
  Spot SpotOfPart(const ProgramStep& step, const ops::PartOfInput& part, int s) const;
  Spot SpotOfInput(const ProgramStep& step, int input, int output) const;
  bool MayExtend(int buffer) const;
  bool MayOverwrite(const ProgramStep& step, const ops::BufferPair& pair, int buffer, int s) const;

  const Program& program_;
  const std::vector<Recipe::Value>& values_;
  const std::vector<Recipe::Step>& steps_;
  const OnceSteps& once_;
  std::vector<Buffer> buffers_;
  std::vector<Spot> spots_;    // of each value
  std::vector<int> last_use_;  // step that reads a value last on the device
};

}  // namespace cudaep::graph
