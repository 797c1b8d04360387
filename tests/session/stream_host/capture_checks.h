// Checks of stream_host: what an application's capture of a Run into a CUDA graph of its own comes to. Each works, or
// the Run returns a status, and neither the capture nor the session suffers.
#pragma once

namespace cudaep::stream_host {

void CheckTheCallerCapturesARun();
void CheckAColdRunInACaptureIsRefused();
void CheckMemoryThatMustGrowInACaptureIsRefused();
void CheckCopiesOfHostMemoryInACaptureAreRefused();
void CheckANodeOnTheCpuInACaptureIsRefused();
void CheckALoopRunsOnACallersStream();
void CheckALoopInACaptureWorksOrIsRefused();
void CheckAGivenStreamIsNoPartOfTheHostsGraphs();

}  // namespace cudaep::stream_host
