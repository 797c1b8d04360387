// The same of the runtime's interface.
#pragma once

enum cudaError_t { cudaSuccess, cudaErrorUnknown };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess, cudaDriverEntryPointSymbolNotFound };
enum { cudaEnableDefault };
extern "C" {
cudaError_t cudaGetLastError();
cudaError_t cudaGetDriverEntryPointByVersion(const char*, void**, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult*);
}
