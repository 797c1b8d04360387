#include "graph/exec/buffers.h"

#include <algorithm>

namespace cudaep::graph {
namespace {

// A part may keep what it is taken of in memory for so many steps more.
constexpr int kStepsBeyond = 4;

size_t Index(int index) { return static_cast<size_t>(index); }
bool RunsOnDevice(const ProgramStep& step) { return step.op != nullptr && step.runs; }
bool ReadsOnDevice(const ProgramStep& step, size_t input) {
  return step.inputs[input] >= 0 && !step.ReadsOnHost(input);
}

}  // namespace

Buffers::Buffers(const Program& program, const std::vector<Recipe::Value>& values,
                 const std::vector<Recipe::Step>& steps, const OnceSteps& once)
    : program_(program),
      values_(values),
      steps_(steps),
      once_(once),
      spots_(values.size()),
      last_use_(values.size(), -1) {
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const ProgramStep& step = program.steps[s];
    if (!RunsOnDevice(step)) continue;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (ReadsOnDevice(step, i)) last_use_[Index(step.inputs[i])] = static_cast<int>(s);
    }
  }
  for (size_t v = 0; v < values.size(); ++v) {
    const ProgramValue& value = program.values[v];
    if (value.is_constant) {
      spots_[v].buffer = Add({.place = {Place::Kind::kConstant, v}});
    } else if (value.input >= 0) {
      spots_[v].buffer = Add({.place = {Place::Kind::kInput, static_cast<size_t>(value.input)}});
    }
  }
  for (size_t s = 0; s < program.steps.size(); ++s) {
    if (RunsOnDevice(program.steps[s])) PlaceOutputs(static_cast<int>(s));
  }
}

Place Buffers::PlaceOf(size_t value) const {
  const Spot& spot = spots_[value];
  if (spot.buffer < 0) return {};
  Place place = buffers_[Index(spot.buffer)].place;
  place.offset = spot.offset;
  return place;
}

int Buffers::Add(Buffer buffer) {
  buffers_.push_back(buffer);
  return static_cast<int>(buffers_.size()) - 1;
}

size_t Buffers::BytesOf(int value) const {
  return StorageBytes(program_.values[Index(value)].type, values_[Index(value)].dims.elems());
}

void Buffers::PlaceOutputs(int s) {
  const ProgramStep& step = program_.steps[Index(s)];
  for (size_t j = 0; j < step.outputs.size(); ++j) {
    const int value = step.outputs[j];
    if (value < 0) continue;
    Spot spot = SharedSpot(step, s, static_cast<int>(j));
    if (spot.buffer < 0) {
      const bool once = once_.steps[Index(s)] == Recipe::Runs::kOnce;
      spot.buffer = Add({.place = {Place::Kind::kBlock, 0}, .life = {BytesOf(value), s, s}, .once = once});
    }
    spots_[Index(value)] = spot;
    Buffer& own = buffers_[Index(spot.buffer)];
    own.kept = own.kept || once_.IsKept(value);
    own.life.last = std::max(own.life.last, last_use_[Index(value)]);
    const int output = program_.values[Index(value)].output;
    if (output >= 0) own.place = {Place::Kind::kOutput, Index(output)};
  }
}

// What leaves the region is written by its own step and no earlier: the caller may have it in an input's memory, which
// steps before still read.
Buffers::Spot Buffers::SharedSpot(const ProgramStep& step, int s, int output) const {
  if (program_.values[Index(step.outputs[Index(output)])].output >= 0) return {};
  for (const ops::BufferPair& pair : step.row->aliases) {
    const Spot spot = pair.output == output ? SpotOfAll(step, pair) : Spot{};
    if (spot.buffer >= 0) return spot;
  }
  if (const ops::Plan* const plan = steps_[Index(s)].plan.get(); plan != nullptr) {
    for (const ops::PartOfInput& part : plan->parts) {
      const Spot spot = part.output == output ? SpotOfPart(step, part, s) : Spot{};
      if (spot.buffer >= 0) return spot;
    }
  }
  for (const ops::BufferPair& pair : step.row->extends) {
    const Spot spot = pair.output == output ? SpotOfAll(step, pair) : Spot{};
    if (spot.buffer >= 0 && MayExtend(spot.buffer)) return spot;
  }
  for (const ops::BufferPair& pair : step.row->in_place) {
    const Spot spot = pair.output == output ? SpotOfAll(step, pair) : Spot{};
    if (spot.buffer >= 0 && MayOverwrite(step, pair, spot.buffer, s)) return spot;
  }
  return {};
}

// Of an input on the device with as many bytes as the output.
Buffers::Spot Buffers::SpotOfAll(const ProgramStep& step, const ops::BufferPair& pair) const {
  const Spot spot = SpotOfInput(step, pair.input, pair.output);
  if (spot.buffer < 0) return {};
  return BytesOf(step.inputs[Index(pair.input)]) == BytesOf(step.outputs[Index(pair.output)]) ? spot : Spot{};
}

// Aligned as the buffers of a block are, from the input's start: no operator takes a slower way, or copies it after
// all.
Buffers::Spot Buffers::SpotOfPart(const ProgramStep& step, const ops::PartOfInput& part, int s) const {
  Spot spot = SpotOfInput(step, part.input, part.output);
  const int value = step.outputs[Index(part.output)];
  if (spot.buffer < 0 || part.offset_bytes % kBufferAlignment != 0 || BytesOf(value) == 0) return {};
  const Buffer& whole = buffers_[Index(spot.buffer)];
  // The caller may have an output in an input's memory, and what is kept is no larger than what is read of it.
  if (whole.place.kind == Place::Kind::kInput || once_.IsKept(value)) return {};
  const bool is_in_block = whole.place.kind == Place::Kind::kBlock;
  if (is_in_block && last_use_[Index(value)] > std::max(whole.life.last, s) + kStepsBeyond) return {};
  spot.offset += part.offset_bytes;
  return spot;
}

// Of an input on the device, where the output may lie there too.
Buffers::Spot Buffers::SpotOfInput(const ProgramStep& step, int at, int output) const {
  const size_t input = Index(at);
  if (input >= step.inputs.size() || !ReadsOnDevice(step, input)) return {};
  if (step.packed[input] != nullptr) return {};
  const Spot spot = spots_[Index(step.inputs[input])];
  // What is kept is written once.
  const bool rewritten = spot.buffer >= 0 && buffers_[Index(spot.buffer)].place.kind == Place::Kind::kBlock &&
                         !buffers_[Index(spot.buffer)].once;
  return rewritten && once_.IsKept(step.outputs[Index(output)]) ? Spot{} : spot;
}

// The region's own memory, which is written in each call.
bool Buffers::MayExtend(int buffer) const {
  const Buffer& shared = buffers_[Index(buffer)];
  return shared.place.kind == Place::Kind::kBlock && !shared.kept && !shared.once;
}

// Nobody reads the input afterwards, nor this step by another of its inputs or outputs.
bool Buffers::MayOverwrite(const ProgramStep& step, const ops::BufferPair& pair, int buffer, int s) const {
  const Buffer& shared = buffers_[Index(buffer)];
  if (shared.place.kind != Place::Kind::kBlock || shared.kept || shared.life.last > s) return false;
  const size_t input = Index(step.inputs[Index(pair.input)]), output = Index(step.outputs[Index(pair.output)]);
  if (program_.values[input].type != program_.values[output].type) return false;
  if (!SameDims(values_[input].dims, values_[output].dims)) return false;
  int readers = 0;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (ReadsOnDevice(step, i) && spots_[Index(step.inputs[i])].buffer == buffer) ++readers;
  }
  for (const int other : step.outputs) {
    if (other >= 0 && spots_[Index(other)].buffer == buffer) return false;
  }
  return readers == 1;
}

}  // namespace cudaep::graph
